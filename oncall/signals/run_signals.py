"""The state of one run on this node, fed with lines from whatever file they come."""

import re
from collections.abc import Callable
from typing import TypeVar

from oncall.formats.event import Event
from oncall.formats.steps_trace import read_trace
from oncall.formats.torchrun import read_torchrun
from oncall.signals.log_events import StepLines
from oncall.signals.rank_signals import RankSignals
from oncall.signals.records import StepRecord, field_name, plausible_time, read_record
from oncall.signals.span_pairs import Phase, SpanPairs
from oncall.signals.tail import Chunk

MAX_RANK = 1 << 20
MAX_RANKS = 4096
"""Ranks kept on one node; more can only be a mistake or an attack."""

FORGOTTEN_S = 900.0
"""A rank silent for this long while others went on belongs to no running process: the run restarted without it."""

MAX_FILES = 10_000
"""Files whose open spans and unfinished checkpoints are remembered."""

_TRACE_MARK = b'"log_type_name"'
_RANK_IN_NAME = re.compile(r"(?:^|[^a-z])rank[_-]?(\d{1,7})(?!\d)")
_TORCHRUN_LOG = re.compile(r"/attempt_\d+/(\d+)/(?:stdout|stderr)\.log$")

_Reader = TypeVar("_Reader", SpanPairs, StepLines)


class RunSignals:
    """All ranks of the run whose files lie on this node.

    Step lines in logs speak only while no JSONL of the run does: both tell the same steps.
    """

    def __init__(self, first_rank: int | None) -> None:
        """`first_rank` is the global rank of this node's local rank 0; None when that is not known."""
        self._first_rank = first_rank
        self._by_record: dict[int | None, RankSignals] = {}
        self._by_log: dict[int | None, RankSignals] = {}
        self._spans: dict[tuple[int, int], SpanPairs] = {}
        self._logs: dict[tuple[int, int], StepLines] = {}
        self.lines = 0
        self.bad_lines = 0
        self.log_bytes: dict[int, int] = {}
        """Bytes written to stdout and stderr since the start, by local rank."""

    def take(self, chunk: Chunk) -> None:
        """Take the lines of one file."""
        self.lines += len(chunk.lines)
        if chunk.path.endswith(".jsonl"):
            self._take_jsonl(chunk)
        else:
            self._take_log(chunk)

    def ranks(self) -> dict[int | None, RankSignals]:
        """The ranks that take part now; key None for lines that do not tell their rank."""
        known = self._by_record or self._by_log
        heard = {rank: state.last_record for rank, state in known.items() if state.last_record is not None}
        newest = max(heard.values(), default=0.0)
        return {rank: known[rank] for rank, last in heard.items() if newest - last <= FORGOTTEN_S}

    def global_rank(self, local_rank: int) -> int | None:
        """The global rank of a local rank of this node, where it is known."""
        return None if self._first_rank is None else self._first_rank + local_rank

    def _take_jsonl(self, chunk: Chunk) -> None:
        named = _RANK_IN_NAME.search(chunk.path.rpartition("/")[2].lower())
        rank = int(named[1]) if named else None
        traced: list[bytes] = []
        for line in chunk.lines:
            if _TRACE_MARK in line:
                traced.append(line)
            elif line.strip():
                record = read_record(line, rank, chunk.written)
                state = None if record is None else self._state(self._by_record, record.rank)
                if record is None or state is None:
                    self.bad_lines += 1
                else:
                    state.take(record, not chunk.historical)
        if traced:
            self._take_trace(chunk, traced, rank)

    def _take_trace(self, chunk: Chunk, lines: list[bytes], rank: int | None) -> None:
        parsed = read_trace(b"\n".join(lines), chunk.path, rank=rank)
        self.bad_lines += len(parsed.unrecognised) + sum(event.kind == "truncated_record" for event in parsed.events)
        live = not chunk.historical
        for event in parsed.events:
            if event.kind == "trace_scalar":
                self._take_scalar(event, chunk.written, live)
        for record in _of_file(self._spans, chunk.key, SpanPairs).records(parsed.events, chunk.written):
            state = self._state(self._by_record, record.rank)
            if state is None:
                self.bad_lines += 1
            elif record.phase is Phase.START:
                state.start_span(record.name, record.time)
            elif record.phase is Phase.ERROR:
                state.fail_span(record.name, record.time, live)
            elif record.seconds is not None:
                state.end_span(record.name, record.seconds, record.step, record.time, live)

    def _take_scalar(self, event: Event, written: float, live: bool) -> None:
        field = field_name(event.text("name") or "")
        value = event.fields.get("value")
        state = self._state(self._by_record, event.number("rank"))
        if state is not None and field is not None and isinstance(value, int | float):
            stamp = event.number("time_us")
            time = plausible_time(None if stamp is None else stamp / 1e6, written)
            state.take(StepRecord(None, time, None, {field: float(value)}), live)

    def _take_log(self, chunk: Chunk) -> None:
        local = _TORCHRUN_LOG.search(chunk.path)
        rank = None
        if local is not None:
            rank = self.global_rank(int(local[1]))
            self.log_bytes[int(local[1])] = self.log_bytes.get(int(local[1]), 0) + chunk.size * (not chunk.historical)
        parsed = read_torchrun(b"\n".join(chunk.lines), chunk.path, rank=rank)
        lines = _of_file(self._logs, chunk.key, StepLines)
        for record in lines.records(parsed.events, chunk.written):
            state = self._state(self._by_log, record.rank)
            if state is not None:
                state.take(record, not chunk.historical)

    def _state(self, ranks: dict[int | None, RankSignals], rank: int | None) -> RankSignals | None:
        if rank not in ranks:
            if len(ranks) >= MAX_RANKS or not 0 <= (rank or 0) < MAX_RANK:
                return None
            ranks[rank] = RankSignals()
        return ranks[rank]


def _of_file(known: dict[tuple[int, int], _Reader], key: tuple[int, int], make: Callable[[], _Reader]) -> _Reader:
    if key not in known:
        if len(known) >= MAX_FILES:
            del known[next(iter(known))]
        known[key] = make()
    return known[key]
