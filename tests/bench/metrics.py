"""How long the queries of a large run take, and a whole triage of its slowdown, on a Prometheus of this machine.

    PYTHONPATH=tests .venv/bin/python tests/bench/metrics.py [RANKS [RANKS_PER_NODE]]      # default 1024 8

The step time reaches a day back, the rest 40 minutes, a sample a minute; one GPU is throttled since 20 minutes.
Prometheus, the triage and this program share the machine. There are no nodes: each refuses the connection, which
costs what a login does up to there.
"""

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from lab.history import History, rank_map, serve
from lab.slowdowns import throttle

from oncall.bundle.store import Bundle, Manifest
from oncall.playbook.servers import Servers
from oncall.run.file import parse

QUERIES_S = 3.0
TRIAGE_S = 5.0
ONCALL = str(Path(sys.executable).with_name("oncall"))
RUN_FILE = """
nodes = "node[001-{nodes:03}]"
[reach]
port = 9
[reach.addresses]
{addresses}
[ranks]
file = "ranks.json"
[prometheus]
url = "{url}"
"""


async def queries_s(folder: Path, text: str) -> tuple[float, int, int]:
    """(seconds, queries answered, bytes) of all that is asked, the stretch before included."""
    run = parse(text, "run42.toml", default_name="run42")
    bundle = Bundle.create(Manifest(run="run42", started=datetime.now(UTC)), text, folder / "queries")
    servers = Servers(run)
    began, answered, earlier = time.monotonic(), 0, None
    for probe in ("metrics", "baseline"):
        kept = bundle.probe_folder(probe, servers.items(probe, earlier))
        await servers.put(probe, kept, lambda _: None)
        earlier = kept.evidence()
        answered += len(earlier.coverage.answered)
        assert earlier.coverage.complete, earlier.coverage.describe()
    took_s = time.monotonic() - began
    servers.close()
    return took_s, answered, sum(file.stat().st_size for file in bundle.path.rglob("*.out"))


def triage_s(folder: Path) -> float:
    """Seconds of `oncall run42 --triage`, from the shell's side."""
    argv = [ONCALL, "run42", "--triage", "--json", "--playbook", "slowdown", "--bundle", str(folder / "triage")]
    began = time.monotonic()
    ended = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    took_s = time.monotonic() - began
    verdict = json.loads(ended.stdout)["verdict"]
    assert (verdict["conclusion"], verdict["ranks"]) == ("throttled-straggler", [5]), verdict
    return took_s


def main() -> int:
    """Print the times; exit code 1 where one is over its limit."""
    world, per_host = (int(word) for word in (*sys.argv[1:], *("1024", "8")[len(sys.argv) - 1 :]))
    history = History(world=world, per_host=per_host, past_s=2400.0, every_s=60.0, reach_s={"step_time_s": 86400.0})
    throttle(history)
    with tempfile.TemporaryDirectory() as scratch, serve(history, Path(scratch) / "prometheus") as url:
        folder = Path(scratch)
        made_s = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        addresses = "\n".join(f'{host} = "127.0.0.1"' for host in history.hosts)
        text = RUN_FILE.format(url=url, nodes=len(history.hosts), addresses=addresses)
        (folder / "run42.toml").write_text(text)
        (folder / "ranks.json").write_text(rank_map(world, per_host))
        began_s = time.process_time()
        asked_s, answered, size = asyncio.run(queries_s(folder, text))
        used_s = time.process_time() - began_s
        print(f"{len(history.series):,} series of {world:,} ranks on {len(history.hosts)} nodes")
        told = f"limit {QUERIES_S:g} s; {used_s:.2f} s of a processor; {answered} answers, {size / 1e6:.0f} MB"
        print(f"queries  {asked_s:5.2f} s  ({told})")
        whole_s = triage_s(folder)
        used_s = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - made_s
        print(f"triage   {whole_s:5.2f} s  (limit {TRIAGE_S:g} s; {used_s:.2f} s of a processor)")
    return int(asked_s > QUERIES_S or whole_s > TRIAGE_S)


if __name__ == "__main__":
    sys.exit(main())
