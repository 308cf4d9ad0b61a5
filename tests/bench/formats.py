"""How fast training logs are searched: `python tests/bench/formats.py [MB]`.

Three logs: one that says nothing, one full of step lines, one full of watchdog lines. Prints MB per second of processor
time for each, and what one compiled alternation of the same literals would do on the first.
"""

import random
import re
import sys
import time
from collections.abc import Callable

from oncall.formats.torchrun import ANCHORS, read_torchrun

TEXT = (
    "the of loss model is at epoch INFO data worker loading batch WARNING 10:00:00,123 root - gpu memory reserved in "
    "/opt/venv/lib/python3.11/site-packages/foo/bar.py UserWarning: tensor shape layer attention"
)
STEP = (
    " [2026-04-16 13:05:11] iteration {n:8}/  500000 | consumed samples: {n:12} | elapsed time per iteration (ms): "
    "6120.3 | learning rate: 1.220000E-05 | global batch size:   128 | lm loss: 1.911207E+00 | loss scale: 1.0 | "
    "grad norm: 1.102 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
)
FAILED = (
    "[rank{n}]:[E927 18:20:11.900417111 ProcessGroupNCCL.cpp:2257] [PG ID 4 PG GUID 13(mesh_tp) Rank 3]  failure "
    "detected by watchdog at work sequence id: 9 PG status: last enqueued work: 11, last completed work: 8\n"
)


def speed(size: int, work: Callable[[], object]) -> float:
    """MB/s of the best of three runs."""
    best = min(_seconds(work) for _ in range(3))
    return size / best / 1e6


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def quiet(megabytes: float) -> bytes:
    """A log of random words without anything to find."""
    source = random.Random(1)
    lines = [" ".join(source.choices(TEXT.split(), k=14)) + f" {source.randrange(10**6)}\n" for _ in range(20_000)]
    block = "".join(lines).encode()
    return block * max(1, round(megabytes * 1e6 / len(block)))


def main() -> None:
    """Measure and print."""
    megabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 20
    logs = {
        "nothing to find": quiet(megabytes),
        "step lines only": "".join(STEP.format(n=n) for n in range(round(megabytes * 1e5 / 400))).encode(),
        "watchdog lines only": "".join(FAILED.format(n=n) for n in range(round(megabytes * 1e5 / 220))).encode(),
    }
    for name, data in logs.items():
        found = len(read_torchrun(data, name).events)
        rate = speed(len(data), lambda data=data: read_torchrun(data, ""))
        print(f"{name:<24} {len(data) / 1e6:6.1f} MB {found:7} events {rate:8.1f} MB/s")
    every = re.compile(b"|".join(map(re.escape, ANCHORS)))
    data = logs["nothing to find"]
    rate = speed(len(data), lambda: sum(1 for _ in every.finditer(data)))
    print(f"{'one alternation instead':<24} {len(data) / 1e6:6.1f} MB {'':14} {rate:8.1f} MB/s")


if __name__ == "__main__":
    main()
