"""Prints what ProcessGroupNCCL's watchdog (PyTorch 2.13) prints on a time-out; gloo has none, and NCCL needs GPUs."""

import math
import pickle
import sys
import time
from pathlib import Path
from typing import Any

import torch.distributed as dist

OPERATIONS = {"gloo:all_reduce": "ALLREDUCE", "gloo:broadcast": "BROADCAST"}
ADVICE = (
    "This is most likely caused by incorrect usages of collectives, e.g., wrong sizes used across ranks, the order of "
    "collectives is not same for all ranks or the scheduled collective, for some reason, didn't run. Additionally, "
    "this can be caused by GIL deadlock or other reasons such as network errors or bugs in the communications library "
    "(e.g. NCCL), etc. "
)


class Watchdog:
    """The stderr lines of one rank; ranks in brackets are those within the group, as NCCL has them."""

    def __init__(self, timeout_seconds: float, groups: tuple[dist.ProcessGroup | None, ...]) -> None:
        self._timeout_ms = int(timeout_seconds * 1000)
        self._rank = dist.get_rank()
        self._group_ranks = {str(group.group_name): dist.get_rank(group) for group in groups if group}

    def report_timeout(self, trace: bytes) -> None:
        """The collective that timed out, if this rank waits in one, and the signal to dump."""
        entries = pickle.loads(trace)["entries"]
        pending = next((entry for entry in entries if not entry["retired"]), None)
        if pending:
            self._report_pending(pending, [e for e in entries if e["process_group"] == pending["process_group"]])
        source = "this local rank" if pending else f" rank {0 if self._rank else 1}"
        world = [entry for entry in entries if entry["process_group"][0] == "0"]
        enqueued, completed = _progress(world)
        self._print(
            "E",
            1836,
            f"{self._bracket(0, '0', 'default_pg')} Received a dump signal due to a collective timeout from {source} "
            "and we will try our best to dump the debug info. "
            f"Last enqueued NCCL work: {enqueued}, last completed NCCL work: {completed}.{ADVICE}",
        )
        self._print(
            "E",
            1622,
            f"{self._bracket(0, '0', 'default_pg')} ProcessGroupNCCL preparing to dump debug info. "
            "Include stack trace: 1, only active collectives: 0",
        )

    def report_dump(self, target: Path) -> None:
        """The dump is written."""
        self._print("I", 40, f"Finished writing Flight Recorder debug info to {target}", source="FlightRecorder.cpp")
        bracket = self._bracket(0, "0", "default_pg")
        self._print("E", 1640, f"{bracket} Flight Recorder trace successfully dumped.")

    def _report_pending(self, entry: dict[str, Any], of_group: list[dict[str, Any]]) -> None:
        name, description = entry["process_group"]
        sequence = entry["collective_seq_id"]
        numel_in, numel_out = (sum(math.prod(s) for s in entry[key]) for key in ("input_sizes", "output_sizes"))
        enqueued, completed = _progress(of_group)
        self._print(
            "E",
            685,
            f"[Rank {self._group_ranks[name]}] Watchdog caught collective operation timeout: WorkNCCL("
            f"SeqNum={sequence}, OpType={OPERATIONS[entry['profiling_name']]}, NumelIn={numel_in}, "
            f"NumelOut={numel_out}, Timeout(ms)={self._timeout_ms}) ran for {self._timeout_ms + 14} milliseconds "
            "before timing out.",
        )
        self._print(
            "E",
            2338,
            f"{self._bracket(entry['pg_id'], name, description)}  failure detected by watchdog at work sequence id: "
            f"{sequence} PG status: last enqueued work: {enqueued}, last started work: -1 (), "
            f"last completed work: {completed}",
        )

    def _bracket(self, number: int, name: str, description: str) -> str:
        return f"[PG ID {number} PG GUID {name}({description}) Rank {self._group_ranks[name]}]"

    def _print(self, level: str, line: int, message: str, source: str = "ProcessGroupNCCL.cpp") -> None:
        seconds, nanoseconds = divmod(time.time_ns(), 10**9)
        now = time.localtime(seconds)
        stamp = f"{now.tm_mon}{now.tm_mday:02} {time.strftime('%H:%M:%S', now)}.{nanoseconds:09}"
        print(f"[rank{self._rank}]:[{level}{stamp} {source}:{line}] {message}", file=sys.stderr, flush=True)


def _progress(entries: list[dict[str, Any]]) -> tuple[int, int]:
    """The last enqueued and the last completed sequence number of a group, -1 before the first."""
    enqueued = max((entry["collective_seq_id"] for entry in entries), default=-1)
    completed = max((entry["collective_seq_id"] for entry in entries if entry["retired"]), default=-1)
    return enqueued, completed
