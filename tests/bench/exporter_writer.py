"""Stands in for a trainer at its worst: appends, half-writes, rotates, cuts and deletes JSONL files at random.

usage: exporter_writer.py FOLDER METRICS_URL SEED SECONDS

Prints as JSON what a reader must have counted: whole lines, those among them that are no record, and each rank's last
step. Before it cuts or deletes, it waits until METRICS_URL has counted everything so far, for what is gone before
anybody looked cannot be counted; it ends with an error when that takes over 20 s.
"""

import json
import os
import random
import re
import sys
import time
import urllib.request
from pathlib import Path

RANKS = 4
PATIENCE_S = 20.0


class Totals:
    """What was completed so far, over all ranks."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.lines = 0
        self.bad = 0

    def wait_until_read(self) -> None:
        until = time.monotonic() + PATIENCE_S
        while (counted := self.counted()) != self.lines:
            if counted > self.lines or time.monotonic() > until:
                sys.exit(f"wrote {self.lines} whole lines, the exporter counted {counted}")
            time.sleep(0.02)

    def counted(self) -> int:
        with urllib.request.urlopen(self.url, timeout=5) as answer:
            found = re.search(rb"^oncall_exporter_lines_total\{[^}]*\} (\S+)$", answer.read(), re.MULTILINE)
        assert found is not None
        return int(float(found[1]))


class RankFile:
    """The file of one rank."""

    def __init__(self, folder: Path, rank: int, chance: random.Random, totals: Totals) -> None:
        self.path = folder / f"rank_{rank}.jsonl"
        self.rank = rank
        self.random = chance
        self.totals = totals
        self.step = 0
        self.ends: list[int] = []
        self.pending = b""
        self.torn = False
        self.renamed = 0
        self.path.touch()

    def _write(self, data: bytes) -> None:
        with self.path.open("ab", buffering=0) as file:
            file.write(data)

    def _record(self) -> bytes:
        self.step += 1
        record = {"t": time.time(), "rank": self.rank, "step": self.step, "loss": self.random.random()}
        return json.dumps(record | {"note": "x" * self.random.randint(0, 300)}).encode()

    def append(self) -> None:
        for _ in range(self.random.randint(1, 20)):
            rest = self.pending or self._record()
            self.pending = b""
            self._write(rest + b"\n")
            self.ends.append(self.path.stat().st_size)
            self.totals.lines += 1
            self.totals.bad += self.torn
            self.torn = False

    def half_write(self) -> None:
        whole = self.pending or self._record()
        cut = self.random.randint(1, len(whole) - 1) if len(whole) > 1 else 0
        self._write(whole[:cut])
        self.pending = whole[cut:]

    def rotate(self) -> None:
        self.totals.wait_until_read()
        self.renamed += 1
        self.path.rename(self.path.with_suffix(f".jsonl.{self.renamed}"))
        self._begin()

    def cut(self) -> None:
        """Back to an earlier step, as a trainer that resumes, perhaps with a line torn by a crash."""
        self.totals.wait_until_read()
        self.ends = self.ends[: self.random.randint(0, len(self.ends))]
        os.truncate(self.path, self.ends[-1] if self.ends else 0)
        self.pending, self.torn = b"", self.random.random() < 0.5
        if self.torn:
            self._write(b'{"step": 99999')
        self.append()

    def delete(self) -> None:
        self.totals.wait_until_read()
        self.path.unlink()
        self._begin()

    def _begin(self) -> None:
        self.ends, self.pending, self.torn = [], b"", False
        self.append()


def main(folder: Path, url: str, seed: int, seconds: float) -> None:
    chance = random.Random(seed)
    totals = Totals(url)
    files = [RankFile(folder, rank, chance, totals) for rank in range(RANKS)]
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        file = chance.choice(files)
        actions = [file.append, file.half_write, file.rotate, file.cut, file.delete]
        chance.choices(actions, weights=[20, 8, 1, 2, 1])[0]()
        time.sleep(chance.random() * 0.01)
    for file in files:
        file.append()
    totals.wait_until_read()
    steps = {file.rank: file.step for file in files}
    print(json.dumps({"lines": totals.lines, "bad": totals.bad, "steps": steps}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
