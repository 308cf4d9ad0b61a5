"""How complete the dumps are, and why a rank may have none."""

from oncall.flight_recorder.groups import Groups
from oncall.flight_recorder.model import Absent, Coverage, DumpSet

_NO_FILE = (
    "no file: the process died; or TORCH_NCCL_ASYNC_ERROR_HANDLING=1 ended it before the dump (pytorch#121055); or it "
    "is in destroy_process_group; or the dump went to the default path under $HOME/.cache of its node"
)


def coverage_of(dumps: DumpSet, groups: Groups) -> Coverage:
    """Count the ranks with a dump against those that the groups name, with the reason for each that is absent."""
    reasons = {r.rank: f"{r.source}: {r.reason}" for r in dumps.refused if r.rank is not None}
    absent = tuple(Absent(rank, reasons.get(rank, _NO_FILE)) for rank in groups.world if rank not in dumps.dumps)
    notes = list(dumps.notes)
    active = [d.rank for d in dumps.dumps.values() if d.only_active]
    if active:
        notes.append(f"{len(active)} dumps list active operations only: what they do not list may have completed")
    spans = [(d.span_s, d.total) for d in dumps.dumps.values() if d.wrapped and d.span_s is not None]
    if spans:
        span_s, entries = min(spans)
        notes.append(
            f"the rings wrapped: the shortest holds the last {entries:,} operations, {span_s:,.3g} s of the job. If a "
            "step takes longer, what came before is lost: raise TORCH_FR_BUFFER_SIZE (TORCH_NCCL_TRACE_BUFFER_SIZE in "
            "older versions)"
        )
    return Coverage(len(groups.world), len(dumps.dumps), absent, dumps.refused, tuple(notes))
