"""Judges simulated jobs of many ranks, faults and recorder settings; prints every wrong or missed one.

    python tests/bench/simulated_faults.py [--shape small|deep|large] [--seeds 20] [--faults skip,stuck] [--jobs 2]

Needs the simulator `fr/frsim.py` of the shared material (ONCALL_SHARED, or the folder `shared` beside the checkout).
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from oncall.flight_recorder import Analysis, Kind, analyse, compare, load_paths

SHARED = Path(os.environ.get("ONCALL_SHARED", Path(__file__).resolve().parents[3] / "shared"))
SIMULATOR = SHARED / "fr" / "frsim.py"

SHAPES = {
    "tiny": [
        {"tp": 2, "pp": 2, "dp": 4, "ep": 2},
        {"tp": 4, "pp": 1, "dp": 4, "ep": 2},
        {"tp": 2, "pp": 1, "dp": 8, "ep": 1},
    ],
    "small": [
        {"tp": 4, "pp": 2, "dp": 8, "ep": 4},
        {"tp": 2, "pp": 4, "dp": 8, "ep": 2},
        {"tp": 8, "pp": 1, "dp": 8, "ep": 1},
        {"tp": 4, "pp": 1, "dp": 16, "ep": 4},
        {"tp": 1, "pp": 2, "dp": 32, "ep": 8},
    ],
    # More sends and receives in a step than are kept in full.
    "deep": [
        {"tp": 1, "pp": 4, "dp": 4, "ep": 1, "microbatches": 128},
        {"tp": 2, "pp": 2, "dp": 4, "ep": 1, "microbatches": 160},
        {"tp": 1, "pp": 8, "dp": 2, "ep": 1, "microbatches": 128},
    ],
    "large": [
        {"tp": 8, "pp": 4, "dp": 32, "ep": 8},
        {"tp": 8, "pp": 1, "dp": 128, "ep": 8},
        {"tp": 4, "pp": 8, "dp": 32, "ep": 4},
    ],
}
COLLECTIVE_GROUPS = ("tp", "dp", "ep", "world")
GROUPS = {
    "skip": (*COLLECTIVE_GROUPS, "pp"),
    "size": (*COLLECTIVE_GROUPS, "pp"),
    "dtype": COLLECTIVE_GROUPS,
    "type": COLLECTIVE_GROUPS,
    "extra": COLLECTIVE_GROUPS,
    "stuck": (*COLLECTIVE_GROUPS, "pp"),
    "crash": (*COLLECTIVE_GROUPS, "pp"),
    "hardware": (*COLLECTIVE_GROUPS, "pp"),
    "none": ("world",),
    "slow": ("world",),
}


@dataclass(frozen=True)
class Case:
    """One simulated job: its arguments, and how it was judged."""

    fault: str
    group: str
    seed: int
    args: tuple[str, ...]


def cases(shape: str, seeds: int, faults: list[str]) -> list[Case]:
    """The same list for the same arguments: settings of the recorder and of the job are drawn by seed."""
    rows = []
    for fault in faults:
        for seed in range(seeds):
            rng = random.Random(f"{fault}/{seed}/{shape}")
            job = rng.choice(SHAPES[shape])
            fitting = [g for g in GROUPS[fault] if g == "world" or job[g] > 1]
            group = fitting[seed % len(fitting)]
            args = [f"--{k}={v}" for k, v in job.items()]
            args += [
                "--seed",
                str(seed),
                "--fault",
                fault,
                "--fault-group",
                group,
                "--buffer",
                rng.choice(["400", "900"] if shape != "deep" else ["900", "4000"]),
            ]
            switches = ["--no-timing", "--no-timing", "--only-active", "--no-frames", "--wrap", "--naming=split"]
            switches += ["--p2p=plain", "--tp-mode=ar", "--coalesced-is-p2p", "--start-step=3"]
            args += rng.sample(switches, rng.randrange(5))
            if fault in {"none", "slow"} and seed % 2:
                args += ["--dump-at", "0.6"]
            rows.append(Case(fault, group, seed, tuple(args)))
    return rows


def judge(case: Case, drop: str) -> tuple[Case, str, str]:
    """Simulate and analyse one case; returns it with `right`, `vague`, `missed` or `wrong`, and what was said.

    `drop` takes dumps away first: those of the culprits, of half of the victims, or of an eighth of them.
    """
    folder = Path(tempfile.mkdtemp(prefix="frsim"))
    try:
        refused = simulate(folder, *case.args)
        if refused:
            return case, "skipped", refused
        truth = json.loads((folder / "truth.json").read_text())
        if case.fault in {"none", "slow"}:
            return case, *pace(case, folder, truth)
        for rank in dropped(drop, truth, case.seed):
            (folder / "dumps" / f"rank_{rank}").unlink(missing_ok=True)
        dumps = load_paths([folder / "dumps"], processes=1)
        # A job that hangs is known to: its log stands still.
        analysis = analyse(dumps, world_size=truth["world_size"], still=truth["hung"])
        result, said = verdict(truth, analysis)
        if drop != "none" and not {rank for o in analysis.origins for rank in o.ranks} - set(truth["culprit_ranks"]):
            result = "right" if result == "right" else "open"
        return case, result, said
    finally:
        shutil.rmtree(folder)


def simulate(folder: Path, *args: str) -> str | None:
    """Write the dumps of one job; returns why not, when the simulator cannot."""
    command = [sys.executable, str(SIMULATOR), str(folder), *args]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.strip().splitlines()[-1] if done.returncode else None


def pace(case: Case, folder: Path, truth: dict[str, Any]) -> tuple[str, str]:
    """Judge a job that does not hang: no origin in its dumps, and two snapshots that name the slow rank or nobody.

    `unnamed` is a slow rank that is not told of, where it is said that this cannot be: hosts that run ahead of their
    devices issue alike, and a stage of one rank has nobody to be compared with. `missed` is good news that is false.
    """
    late = load_paths([folder / "dumps"], processes=1)
    result, said = verdict(truth, analyse(late, world_size=truth["world_size"]))
    if result != "right" or "--dump-at" in case.args:
        return result, said
    simulate(folder / "before", *case.args, "--dump-at", "0.3")
    movement = compare(late, load_paths([folder / "before" / "dumps"], processes=1))
    named, slow = [each.rank for each in movement.slow], truth["culprit_ranks"] if case.fault == "slow" else []
    if named == slow:
        return "right", movement.says
    result = "wrong" if named else "unnamed" if movement.untold else "missed"
    return result, f"{movement.says} | truth {slow}"


def dropped(drop: str, truth: dict[str, Any], seed: int) -> list[int]:
    """The ranks whose dumps are taken away."""
    guilty = truth["culprit_ranks"]
    victims = [rank for rank in range(truth["world_size"]) if rank not in guilty]
    if drop == "culprits":
        return guilty
    if drop == "half":
        return random.Random(seed).sample(victims, len(victims) // 2)
    if drop == "few":
        return random.Random(seed).sample(victims, max(1, len(victims) // 8))
    return []


def verdict(truth: dict[str, Any], analysis: Analysis) -> tuple[str, str]:
    """Compare with the injected fault: `wrong` accuses an innocent, `missed` is silent, `vague` right but unnamed."""
    guilty = set(truth["culprit_ranks"])
    said = "; ".join(f"{o.grade} {o.says}" for o in analysis.origins[:4])
    said += "".join(f"; undecided {u.deciding}" for u in analysis.undecided) + f" | truth {truth['kind']}"
    said += f" {sorted(guilty)[:8]} {truth.get('pg', {}).get('desc')} {truth.get('seq')} {truth.get('op')}"
    accused = {rank for o in analysis.origins for rank in o.ranks}
    kinds = {o.kind for o in analysis.origins}
    if truth["kind"] in {"none", "slow_rank"} or not truth["hung"]:
        return ("wrong", said) if analysis.origins or analysis.undecided else ("right", said)
    if not analysis.origins:
        return ("vague" if guilty & {r for u in analysis.undecided for r in u.deciding} else "missed"), said
    if accused - guilty:
        return "wrong", said
    if truth["kind"] == "transport_stall":
        stalled = {(s["desc"], tuple(s["ranks"])) for s in truth["stalled"]}
        named = {(o.group.desc, o.group.ranks) for o in analysis.origins if o.group}
        return ("right" if kinds == {Kind.TRANSPORT_STALL} and named <= stalled else "wrong"), said
    if accused != guilty:
        among = {rank for o in analysis.origins for rank in o.among}
        return ("vague" if guilty <= among else "wrong"), said
    return ("right" if truth["kind"] in kinds else "kind"), said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--faults", default=",".join(GROUPS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--drop", choices=("none", "culprits", "half", "few"), default="none")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    tally: dict[str, Counter[str]] = defaultdict(Counter)
    with ProcessPoolExecutor(args.jobs) as pool:
        for case, result, said in pool.map(
            partial(judge, drop=args.drop), cases(args.shape, args.seeds, args.faults.split(","))
        ):
            tally[case.fault][result] += 1
            if result != "right" or args.verbose:
                print(f"{result:7} {case.fault}/{case.group} {' '.join(case.args)}\n        {said}", flush=True)
    for fault, counts in tally.items():
        print(f"{fault:9}", dict(counts))


if __name__ == "__main__":
    main()
