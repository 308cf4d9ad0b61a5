"""Compares torchfrtrace, a bare `pickle.load` of all files and `oncall fr` on simulated jobs: time and peak memory.

    python tests/bench/flight_recorder.py [--jobs 64x2000,256x2000,1024x2000,64x20000] [--stock-limit 600] [--keep DIR]

Each contender runs in a process of its own, on the same files, one after the other, twice; the better run counts. All
keep the bytecode of what they import, as an installed program does, whatever PYTHONDONTWRITEBYTECODE says.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SHARED = Path(os.environ.get("ONCALL_SHARED", Path(__file__).resolve().parents[3] / "shared"))

SHAPES = {
    "64x2000": "--tp 4 --pp 1 --dp 16 --ep 4 --buffer 2000",
    "256x2000": "--tp 8 --pp 1 --dp 32 --ep 4 --buffer 2000",
    "1024x2000": "--tp 8 --pp 1 --dp 128 --ep 8 --buffer 2000",
    "64x20000": "--tp 4 --pp 1 --dp 16 --ep 4 --buffer 20000",
    "8192x500": "--tp 8 --pp 8 --dp 128 --ep 8 --layers 1 --microbatches 8 --buffer 500 --wrap",
}

BARE = """
import gc, os, pickle, sys
gc.disable()
for name in sorted(os.listdir(sys.argv[1])):
    with open(os.path.join(sys.argv[1], name), "rb") as file:
        pickle.load(file)
"""
OURS = """
import sys
from pathlib import Path
from oncall.flight_recorder import analyse, load_paths
analysis = analyse(load_paths([Path(sys.argv[1])], processes=int(sys.argv[2])))
print(*(f"{o.kind.value} {o.ranks}" for o in analysis.origins), file=sys.stderr)
"""
STOCK = """
import sys
from torch.distributed.flight_recorder.fr_trace import main
main(["-p", "rank_", sys.argv[1]])
"""
MEASURE = """
import json, resource, subprocess, sys, time
start = time.perf_counter()
try:
    done = subprocess.run(sys.argv[2:], timeout=float(sys.argv[1]), capture_output=True, text=True)
    said = done.stderr.strip().splitlines()[-1:] if done.returncode == 0 else ["failed: " + done.stderr[-200:]]
except subprocess.TimeoutExpired:
    said = ["not done"]
used = resource.getrusage(resource.RUSAGE_CHILDREN)
row = {"wall": time.perf_counter() - start, "cpu": used.ru_utime + used.ru_stime, "mb": used.ru_maxrss / 1024}
print(json.dumps({**row, "said": said[0] if said else ""}))
"""


def measure(cache: str, limit: float, *command: str) -> dict[str, float | str]:
    """Run one contender; wall and CPU seconds, the peak of its largest process in MB, and its last line."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(limit), sys.executable, "-c", *command],
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": cache},
        capture_output=True,
        text=True,
        check=True,
    )
    row: dict[str, float | str] = json.loads(done.stdout)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", default="64x2000,256x2000,1024x2000,64x20000")
    parser.add_argument("--stock-limit", type=float, default=600.0, help="seconds; 0 leaves torchfrtrace out")
    parser.add_argument("--keep", type=Path, help="folder for the simulated jobs, used again when they are there")
    args = parser.parse_args()
    print(f"{'job':10} {'contender':20} {'wall s':>8} {'cpu s':>8} {'peak MB':>8}  answer")
    for job in args.jobs.split(","):
        with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory() as cache:
            folder = (args.keep or Path(scratch)) / job
            if not (folder / "truth.json").exists():
                simulator = [sys.executable, str(SHARED / "fr" / "frsim.py"), str(folder), *SHAPES[job].split()]
                fault = ["--no-timing", "--fault", "skip", "--fault-group", "dp", "--culprit", "5"]
                subprocess.run([*simulator, *fault], check=True, capture_output=True)
            dumps = str(folder / "dumps")
            contenders = {
                "bare pickle.load": (1e6, BARE, dumps),
                "oncall, 1 process": (1e6, OURS, dumps, "1"),
                "oncall, 2 processes": (1e6, OURS, dumps, "2"),
            }
            if args.stock_limit:
                contenders["torchfrtrace"] = (args.stock_limit, STOCK, dumps)
            for name, (limit, *command) in contenders.items():
                rows = [measure(cache, limit, *command) for _ in range(1 if name == "torchfrtrace" else 2)]
                row = min(rows, key=lambda r: r["wall"])
                said = str(row["said"])[:70]
                print(f"{job:10} {name:20} {row['wall']:8.2f} {row['cpu']:8.2f} {row['mb']:8.0f}  {said}", flush=True)


if __name__ == "__main__":
    main()
