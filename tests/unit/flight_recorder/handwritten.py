"""Dumps written by hand, in the form of the recorder of PyTorch 2.10."""

import pickle
from collections.abc import Callable, Sequence
from typing import Any

Entry = dict[str, Any]


def entry(seq: int, op: str = "all_reduce", *, record: int | None = None, **changed: Any) -> Entry:
    """One NCCL entry as the recorder of PyTorch 2.10 writes it; `changed` overrides or adds keys."""
    return {
        "record_id": seq if record is None else record,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "thread_name": "python",
        "collective_seq_id": seq,
        "p2p_seq_id": 0,
        "op_id": seq,
        "profiling_name": f"nccl:{op}",
        "time_created_ns": 1_790_000_000_000_000_000 + seq * 1_000_000,
        "input_sizes": [[64]],
        "input_dtypes": ["Float"],
        "output_sizes": [[64]],
        "output_dtypes": ["Float"],
        "state": "scheduled",
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "retired": False,
        "timeout_ms": 600_000,
        "is_p2p": False,
        **changed,
    }


def completed(*args: Any, **changed: Any) -> Entry:
    """An entry of an operation that is over."""
    return entry(*args, **{"state": "completed", "retired": True, **changed})


def dump(entries: Sequence[Entry], *, world: int = 2, **changed: Any) -> dict[str, Any]:
    """A dump of one rank in a job with a single group of `world` ranks."""
    ranks = str(list(range(world)))
    return {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": ranks}},
        "comm_lib_version": "2.27.5",
        "pg_status": {},
        "entries": list(entries),
        **changed,
    }


def blobs(dumps: dict[int, dict[str, Any]], name: Callable[[int], str] = "rank_{}".format) -> list[tuple[str, bytes]]:
    """Dumps by rank as the files the recorder would have written."""
    return [(name(rank), pickle.dumps(content, protocol=2)) for rank, content in dumps.items()]
