"""Dumps that lie in a bundle are judged and compared like those of a folder."""

import json
import pickle
from pathlib import Path

import pytest

from oncall.cli import main

from .evidence import NOW, Part, Scene

GROUPS = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}


def dumped(rank: int, operations: int, *, age_s: int = 0) -> Part:
    """A dump of a rank of two that has issued so many operations, of which the fifth is open."""
    rows = [
        {
            "record_id": seq - 1,
            "pg_id": 0,
            "process_group": ("0", "default_pg"),
            "collective_seq_id": seq,
            "p2p_seq_id": 0,
            "profiling_name": "nccl:all_reduce",
            "state": "scheduled" if seq == 5 else "completed",
            "retired": seq < 5,
            "is_p2p": False,
            "time_created_ns": 1_790_000_000_000_000_000 + seq,
        }
        for seq in range(1, operations + 1)
    ]
    content = pickle.dumps({"version": "2.10", "pg_config": GROUPS, "pg_status": {}, "entries": rows})
    return "dump", {"path": f"/tmp/rank_{rank}", "mtime": str(int(NOW.timestamp()) - age_s)}, content


def asked_for(folder: Path, *dumps: Part) -> str:
    """The bundle of an `oncall dump` that found these."""
    scene = Scene(folder, "node001")
    scene.say("dump_request", {"node001": [("request", {"rank": "0", "outcome": "asked"}, "")]})
    scene.say("flight_recorder", {"node001": list(dumps)})
    return str(scene.bundle.path)


def test_two_dumps_on_demand_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = asked_for(tmp_path / "old", dumped(0, 5), dumped(1, 4))
    new = asked_for(tmp_path / "new", dumped(0, 5), dumped(1, 4))
    assert main(["fr", "--json", new, "--since", old]) == 10
    answer = json.loads(capsys.readouterr().out)
    assert answer["movement"]["pace"] == "stuck"
    assert [origin["ranks"] for origin in answer["origins"]] == [[1]]


def test_a_file_older_than_the_request_is_of_an_earlier_hang(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = asked_for(tmp_path, dumped(0, 5), dumped(1, 4, age_s=3600))
    main(["fr", "--json", bundle])
    answer = json.loads(capsys.readouterr().out)
    assert answer["coverage"]["dumps"] == 1
    assert [row["rank"] for row in answer["coverage"]["absent"]] == [1]
