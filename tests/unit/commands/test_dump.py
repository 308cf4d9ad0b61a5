"""`oncall dump`: ends as `oncall fr` does, and says how to compare with an earlier dump."""

import io
import pickle
from pathlib import Path

import pytest

from oncall.cli import main
from oncall.flight_recorder import analyse, load_blobs
from oncall.report import manual_dump

GROUPS = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}


def dumped(rank: int, operations: int) -> tuple[str, bytes]:
    """A dump of a rank of two that has issued so many operations, of which the first is over."""
    rows = [
        {
            "record_id": seq - 1,
            "pg_id": 0,
            "process_group": ("0", "default_pg"),
            "collective_seq_id": seq,
            "p2p_seq_id": 0,
            "profiling_name": "nccl:all_reduce",
            "state": "completed" if seq == 1 else "scheduled",
            "retired": seq == 1,
            "is_p2p": False,
            "time_created_ns": 1_790_000_000_000_000_000 + seq,
        }
        for seq in range(1, operations + 1)
    ]
    return f"rank_{rank}", pickle.dumps({"version": "2.10", "pg_config": GROUPS, "pg_status": {}, "entries": rows})


@pytest.mark.parametrize(
    ("issued", "code"),
    [((1, 1), 0), ((2, 1), 10), ((2,), 10), ((2, 2), 12)],
    ids=["nothing waits", "one is stuck", "one is lost", "all are in one operation, as in a running job"],
)
def test_it_ends_as_the_dumps_tell(
    issued: tuple[int, ...],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    analysis = analyse(load_blobs(dumped(rank, count) for rank, count in enumerate(issued)))

    async def asked(*_: object) -> manual_dump.ManualDump:
        return manual_dump.ManualDump(tuple(range(len(issued))), {}, (), manual_dump.of_a_moment(analysis))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(manual_dump, "dump_now", asked)  # asking takes a running job: tests/lab/test_manual_dump.py
    monkeypatch.setattr("sys.stdin", io.StringIO("run42\n"))
    Path("run42.toml").write_text('nodes = "here"\n[reach]\nvia = "local"\n')
    assert main(["dump", "run42", "--bundle", "kept"]) == code
    said = capsys.readouterr()
    assert "dumps: " in said.out
    assert "oncall fr NEW --since kept" in said.err
