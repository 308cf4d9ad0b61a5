"""Where torchfrtrace is right (one group, none of its own faults), it and the wait-for graph say the same."""

import json
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from handwritten import completed, dump, entry

from oncall.flight_recorder import analyse, load_paths

pytestmark = pytest.mark.skipif(
    find_spec("torch") is None, reason="PyTorch and its torchfrtrace are not installed here"
)

RUN_ALL = """
import sys
from torch.distributed.flight_recorder.fr_trace import main
for folder in sys.argv[1:]:
    print("@@", folder, file=sys.stderr, flush=True)
    main(["-p", folder.rpartition("/")[2] + "_rank_", folder])
"""
"""What the `torchfrtrace` command runs, over many folders: PyTorch takes seconds to import."""

Verdict = tuple[int | None, set[int]]


def first_report(said: str) -> Verdict:
    """The sequence number and the ranks of the first report of torchfrtrace; none when it reports nothing."""
    reports = re.split(r"sequence number: ", said)[1:]
    if not reports:
        return None, set()
    ranks = {int(rank) for rank in re.findall(r"Culprit rank (\d+)", reports[0])}
    for missing in re.findall(r"missing ranks: \{([^}]*)\}", reports[0]):
        ranks |= {int(rank) for rank in missing.split(",")}
    return int(reports[0].split()[0]), ranks


def ours(folder: Path) -> Verdict:
    analysis = analyse(load_paths([folder]))
    if not analysis.origins:
        return None, set()
    (origin,) = analysis.origins
    return origin.seq, set(origin.ranks)


def write(folder: Path, name: str, dumps: Mapping[int, dict[str, Any]], culprit: int | None) -> Path | None:
    """Write the dumps so that the culprit's is not the first that the folder lists: that one it never doubts.

    None when the file system lists the culprit's file first under every name.
    """
    for content in dumps.values():
        content["version"] = "2.10"
        for row in content["entries"]:
            row.setdefault("frames", [])
    for attempt in range(20):
        target = folder / f"{name}{attempt}"
        target.mkdir()
        for rank, content in dumps.items():
            (target / f"{target.name}_rank_{rank}").write_bytes(pickle.dumps(content, protocol=2))
        if not next(os.walk(target))[2][0].endswith(f"rank_{culprit}"):
            return target
    return None


ODD = {
    "type": {"profiling_name": "nccl:broadcast"},
    "size": {"input_sizes": [[96]], "output_sizes": [[96]]},
    "dtype": {"input_dtypes": ["BFloat16"], "output_dtypes": ["BFloat16"]},
}


def by_hand() -> dict[str, tuple[dict[int, dict[str, Any]], Verdict]]:
    """Jobs of one group, four ranks, with the fault that was put in."""
    cases: dict[str, tuple[dict[int, dict[str, Any]], Verdict]] = {}
    for kind, changed in ODD.items():
        rows = {r: [completed(1), completed(2), entry(3, **(changed if r == 3 else {}))] for r in range(4)}
        cases[kind] = {r: dump(own, world=4) for r, own in rows.items()}, (3, {3})
    rows = {r: [completed(1), completed(2), entry(3)][: 2 if r == 2 else 3] for r in range(4)}
    cases["absent"] = {r: dump(own, world=4) for r, own in rows.items()}, (3, {2})
    cases["healthy"] = {r: dump([completed(n) for n in range(1, 6)], world=4) for r in range(4)}, (None, set())
    return cases


RIGHT_ONCE_REPAIRED = [
    "02_skip_all_reduce",
    "03_size_mismatch",
    "04_type_mismatch",
    "05_dtype_mismatch",
    "06_extra_all_reduce",
    "09_stuck_sleep",
    "09b_stuck_lock_fsdp",
    "01_healthy_ddp",
]


def recorded(folder: Path) -> tuple[dict[int, dict[str, Any]], Verdict]:
    """A recorded case with a group table put in: gloo writes no usable one, on which torchfrtrace ends."""
    verdict = json.loads((folder / "expected.json").read_text())["verdict"]
    dumps = {}
    for path in (folder / "dumps").iterdir():
        content = pickle.loads(path.read_bytes())
        content["pg_config"] = {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(8)))}}
        dumps[int(path.name.split("_")[1])] = content
    return dumps, (verdict["collective_seq_id"], set(verdict["culprit_ranks"]))


def test_both_name_the_injected_fault(material: Path, tmp_path: Path) -> None:
    cases = by_hand() | {name: recorded(material / "real" / name) for name in RIGHT_ONCE_REPAIRED}
    written = {
        name: write(tmp_path, name, dumps, min(truth[1], default=None)) for name, (dumps, truth) in cases.items()
    }
    folders = {name: folder for name, folder in written.items() if folder is not None}
    assert len(folders) > len(cases) // 2
    command = [sys.executable, "-c", RUN_ALL, *map(str, folders.values())]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    said = dict(zip(folders, (done.stdout + done.stderr).split("@@ ")[1:], strict=True))
    for name, folder in folders.items():
        truth = cases[name][1]
        assert (name, first_report(said[name]), ours(folder)) == (name, truth, truth)
