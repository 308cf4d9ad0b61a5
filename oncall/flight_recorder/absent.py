"""How complete the dumps are, and why a rank may have none."""

from collections.abc import Collection, Mapping

from oncall.flight_recorder.collective_table import counted
from oncall.flight_recorder.groups import Groups
from oncall.flight_recorder.model import Absent, Coverage, DumpSet
from oncall.flight_recorder.skew import hours_before

_NO_FILE = (
    "no file: the process died; or TORCH_NCCL_ASYNC_ERROR_HANDLING=1 ended it before the dump (pytorch#121055); or it "
    "is in destroy_process_group; or the dump went to the default path under $HOME/.cache of its node"
)


def coverage_of(dumps: DumpSet, groups: Groups, old: Mapping[int, int]) -> Coverage:
    """Count the ranks with a dump against those that the groups name, with the reason for each that is absent.

    `old` are the ranks whose dump is older than those of their peers, with the number of operations that it lacks.
    """
    reasons = {r.rank: f"{r.source}: {r.reason}" for r in dumps.refused if r.rank is not None}
    reasons |= {rank: _why_old(rank, lacks, dumps, old) for rank, lacks in old.items()}
    unusable = [rank for rank in groups.world if rank not in dumps.dumps or rank in old]
    absent = tuple(Absent(rank, reasons.get(rank, _NO_FILE)) for rank in unusable)
    notes = list(dumps.notes)
    active = [d.rank for d in dumps.dumps.values() if d.only_active]
    if active:
        lists = counted(len(active), "dump lists", "dumps list")
        notes.append(f"{lists} active operations only: what they do not list may have completed")
    # A dump of active operations does not tell how far the ring reaches back: they are few, and lie apart.
    wrapped = [d for d in dumps.dumps.values() if d.wrapped and not d.only_active]
    spans = [(d.span_s, d.total) for d in wrapped if d.span_s is not None and d.total > 1]
    if spans:
        span_s, entries = min(spans)
        notes.append(
            f"the rings wrapped: the shortest holds the last {entries:,} operations, {span_s:,.3g} s of the job. If a "
            "step takes longer, what came before is lost: raise TORCH_FR_BUFFER_SIZE (TORCH_NCCL_TRACE_BUFFER_SIZE in "
            "older versions)"
        )
    return Coverage(len(groups.world), len(dumps.dumps) - len(old), absent, dumps.refused, tuple(notes))


def _why_old(rank: int, lacks: int, dumps: DumpSet, old: Collection[int]) -> str:
    source = dumps.dumps[rank].source
    hours = hours_before(rank, dumps.dumps, dumps.dumps.keys() - old)
    if hours is not None:
        doubt = "" if lacks else ", or its clock is off"
        return f"{source}: written {hours:,.0f} h before those of its peers: a file of an earlier incident{doubt}"
    operations = "an operation" if lacks == 1 else f"{lacks:,} operations"
    return f"{source}: older than those of its peers, which had finished {operations} that it has not issued"
