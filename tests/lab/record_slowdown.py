"""Records the slowdown of `oncall demo`: a job of the lab whose metrics tell of one throttled GPU.

    PYTHONPATH=tests .venv/bin/python -m lab.record_slowdown

The job, its processes, stacks and logs are real, and so is the Prometheus; the GPUs and what their exporters tell are
made up, for the lab has none.
"""

import shutil
import tempfile
from pathlib import Path

from .cluster import start_cluster
from .driving import triage, write_run_file
from .history import History, serve
from .record import INCIDENTS, RUN_FILE, clean, ranks_json, replacements
from .slowdowns import SLOWER, throttle

NAME = "slowdown-by-throttling"
TITLE = "a GPU runs hot, its clock is held down, and seven others wait for it"
SLOW_STEP_S = 2.0
STEPS = 8

PROMETHEUS = """
[prometheus]
url = "https://prometheus.example.com"
"""


def record() -> None:
    """Run the job, serve its metrics, triage it, and keep the bundle."""
    with start_cluster(2) as cluster, tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        job = cluster.train("none", step_seconds=SLOW_STEP_S)
        job.wait_steps(STEPS)
        history = History(step_s=SLOW_STEP_S / SLOWER)
        throttle(history)
        for rank in range(history.world):
            history.put_exact("step", history.of_rank(rank), STEPS)
        (folder / "ranks.json").write_text(ranks_json())
        with serve(history, folder / "prometheus") as url:
            more = f'[prometheus]\nurl = "{url}"\n[ranks]\nfile = "ranks.json"\n'
            run_file = write_run_file(cluster, job, folder, more=more)
            run_file.write_text(run_file.read_text().replace("stalled_s = 3\n", ""))
            code, answer = triage(folder)
        if code != 10 or answer["verdict"]["conclusion"] != "throttled-straggler":
            raise SystemExit(answer["headline"])
        clean(folder / "bundle", replacements(cluster))
        text = RUN_FILE.replace("\n[thresholds]\nstalled_s = 3\n", PROMETHEUS)
        (folder / "bundle/run.toml").write_text(text)
        (folder / "bundle/title").write_text(TITLE + "\n")
        shutil.rmtree(INCIDENTS / NAME, ignore_errors=True)
        shutil.copytree(folder / "bundle", INCIDENTS / NAME)


if __name__ == "__main__":
    record()
