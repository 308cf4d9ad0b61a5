"""Feeds damaged copies of recorded dumps to the loader and the analysis; reports what escaped, time and memory.

python tests/bench/fuzz_dumps.py [--inputs 100000] [--jobs 2]
"""

import argparse
import os
import random
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

from oncall.flight_recorder import analyse, as_json, load_blobs
from oncall.flight_recorder.report import as_text

SHARED = Path(os.environ.get("ONCALL_SHARED", Path(__file__).resolve().parents[3] / "shared")) / "fr"
BATCH = 500


@cache
def recorded() -> list[tuple[bytes, bytes]]:
    """Pairs of small recorded dumps of one job: the first is damaged, the second stays whole."""
    pairs = []
    for folder in sorted([*SHARED.glob("real/*/dumps"), *SHARED.glob("nvrx/*")]):
        files = sorted(p for p in folder.glob("*_[0-9]*") if 0 < p.stat().st_size < 10_000)
        if len(files) > 1:
            pairs.append((files[0].read_bytes(), files[1].read_bytes()))
    return pairs


def damage(data: bytes, rng: random.Random) -> bytes:
    """Flip, cut, repeat, insert or swap pieces."""
    out = bytearray(data)
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(out) or 1)
        match rng.randrange(6):
            case 0 | 1 | 2 if out:
                out[at] = rng.randrange(256)
            case 3:
                del out[at : at + rng.randrange(1, 64)]
            case 4:
                out[at:at] = rng.randbytes(rng.randrange(1, 16))
            case _:
                end = at + rng.randrange(1, 256)
                out[at:at] = out[at:end]
    return bytes(out[: rng.randrange(len(out) or 1)]) if rng.random() < 0.1 else bytes(out)


def batch(seed: int) -> tuple[list[str], float, int, int]:
    """Run BATCH inputs; returns what escaped, the slowest in seconds, how many still loaded, the peak in bytes."""
    rng = random.Random(seed)
    escaped, slowest, loaded = [], 0.0, 0
    for n in range(BATCH):
        first, second = rng.choice(recorded())
        data = damage(first, rng)
        start = time.perf_counter()
        try:
            dumps = load_blobs([("rank_0", data), ("rank_1", second)])
            analysis = analyse(dumps)
            as_json(analysis)
            as_text(analysis)
            loaded += 0 in dumps.dumps
        except Exception as error:  # what escapes is the result
            escaped.append(f"seed {seed} input {n}: {error!r}")
        slowest = max(slowest, time.perf_counter() - start)
    return escaped, slowest, loaded, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    escaped: list[str] = []
    slowest, loaded, peak = 0.0, 0, 0
    with ProcessPoolExecutor(args.jobs) as pool:
        for failures, seconds, good, memory in pool.map(batch, range(-(-args.inputs // BATCH))):
            escaped += failures
            slowest, loaded, peak = max(slowest, seconds), loaded + good, max(peak, memory)
    print(*escaped[:20], sep="\n")
    print(f"{args.inputs} inputs: {len(escaped)} exceptions escaped, {loaded} still gave a dump,")
    print(f"slowest {slowest * 1000:.0f} ms, peak {peak / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
