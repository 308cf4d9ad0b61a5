"""What `oncall exporter` costs and whether it counts exactly. Run by hand: python tests/bench/exporter.py [SECONDS]

Measures the CPU time of the exporter's process from /proc over SECONDS (60) for each case:
- 8 ranks that are silent;
- 8 ranks that train: a step every 5 s, a record and seven spans each, scraped every 15 s;
- the same with 5,000 files of earlier attempts beside them.
Then a random writer (exporter_writer.py) for SECONDS, whose totals the exporter must have counted exactly.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

RANKS = 8
STEP_S = 5.0
SCRAPE_S = 15.0
SPANS = ("fetching_batch", "post_dataloading_process", "fwd_bwd", "optim", "collect_dist_metrics", "gc", "step")


@contextmanager
def exporter(folder: Path, *options: str) -> Iterator[tuple[int, str]]:
    """Process id and address of a fresh exporter with the default look every second."""
    command = [sys.executable, "-c", "import sys; from oncall.cli import main; sys.exit(main())", "exporter"]
    settings = ["--run", "run42", "--port", "0", "--address", "127.0.0.1", *options, str(folder)]
    with subprocess.Popen([*command, *settings], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = re.search(r"http://\S+", process.stderr.readline())
        assert found is not None
        yield process.pid, found[0]
        process.terminate()
        process.stderr.read()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def step_lines(rank: int, step: int) -> tuple[str, str]:
    """A step's record, and its structured log."""
    now = time.time()
    record = {"t": now, "step": step, "rank": rank, "loss": 2.1, "grad_norm": 0.8, "step_time_s": STEP_S, "mfu": 41.9}
    record |= {f"mem_{name}": 6.1e10 for name in ("allocated_peak", "reserved_peak", "inactive_split")}
    spans = [
        {"rank": rank, "log_type": "event", "log_type_name": f"{name}_{end}", "step": step, "time_us": int(now * 1e6)}
        for name in SPANS
        for end in ("start", "end")
    ]
    filler = {"host_name": "node037", "caller": "torchtitan/trainer.py:796:train_step", "message": "x" * 60}
    return json.dumps(record) + "\n", "".join(json.dumps(span | filler) + "\n" for span in spans)


def cost(folder: Path, seconds: float, train: bool) -> float:
    """Share of one core that the exporter takes, after its first look."""
    with exporter(folder) as (pid, url):
        time.sleep(2)
        before, began = cpu_seconds(pid), time.monotonic()
        step, next_scrape = 0, 0.0
        while (passed := time.monotonic() - began) < seconds:
            if train:
                step += 1
                for rank in range(RANKS):
                    record, spans = step_lines(rank, step)
                    with (folder / f"rank_{rank}.jsonl").open("a") as file:
                        file.write(record)
                    with (folder / f"training.global_rank_{rank}.jsonl").open("a") as file:
                        file.write(spans)
            if passed >= next_scrape:
                urllib.request.urlopen(url, timeout=10).read()
                next_scrape += SCRAPE_S
            time.sleep(STEP_S)
        return (cpu_seconds(pid) - before) / (time.monotonic() - began)


def prepare(folder: Path, old_files: int) -> None:
    for rank in range(RANKS):
        record, spans = step_lines(rank, 0)
        (folder / f"rank_{rank}.jsonl").write_text(record)
        (folder / f"training.global_rank_{rank}.jsonl").write_text(spans)
    yesterday = time.time() - 86400
    for number in range(old_files):
        path = folder / f"attempt_{number // 50}" / f"old_{number}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(step_lines(0, step)[0] for step in range(20)))
        os.utime(path, (yesterday, yesterday))


def main(seconds: float) -> int:
    cases = [("8 silent ranks", 0, False), ("8 ranks that train", 0, True), ("and 5,000 old files", 5000, True)]
    for title, old_files, train in cases:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            prepare(folder, old_files)
            print(f"{title:<24} {100 * cost(folder, seconds, train):6.2f} % of a core")
    with tempfile.TemporaryDirectory() as name, exporter(Path(name), "--interval", "0.1") as (_, url):
        writer = Path(__file__).with_name("exporter_writer.py")
        command = [sys.executable, str(writer), name, url, str(os.getpid()), str(seconds)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(f"random writer, {seconds:g} s     {done.stdout.strip() or done.stderr.strip()}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0))
