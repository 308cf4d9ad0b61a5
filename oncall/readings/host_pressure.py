"""Is a whole host held up: memory, swapping, storage, tasks that wait in the kernel?"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from oncall.bundle.evidence import Evidence
from oncall.flight_recorder.model import Grade
from oncall.readings.case import Case
from oncall.readings.finding import Citation, Finding, Judgement, Role, unknown
from oncall.readings.training_names import like_training
from oncall.run.nodes import fold_hosts
from oncall.run.numbers import whole

_LITTLE = 0.01
"""Share of the memory below which the kernel reclaims without end: its own low watermark is of that order."""
_SWAPPING = 1000
"""Pages in 3 s: 4 MB, more than stray pages that come back."""
_MANY = 3
_STALLED_PCT = 40.0
"""Of the last 10 s, the share in which every task that could run waited for memory or storage (`full` in /proc)."""


@dataclass(frozen=True, slots=True)
class HostState:
    """One host at two looks 3 s apart. Pages and kills are what was added between them; None where not told.

    `pressure` maps `memory` and `io` to the percentage of the last 10 s in which everything waited for it.
    `blocked` maps pid to (name, where in the kernel) of tasks that waited uninterruptibly at both looks.
    """

    host: str
    available: float | None
    swapped_pages: int | None
    killed: int | None
    pressure: Mapping[str, float]
    blocked: Mapping[int, tuple[str, str]]


def host_states(evidence: Evidence) -> tuple[HostState, ...]:
    """Read the answers of the `host` probe."""
    return tuple(state for host in evidence.asked if (state := _state(evidence, host)) is not None)


def host_pressure(case: Case) -> Judgement:
    """Is a host held up as a whole, one of the suspects' where there are suspects?

    `memory`: under a hundredth of its memory is left, or it swaps, or it has killed a process. `storage`: everything on
    it waits for storage. `blocked`: a Python process, or several others, wait in the kernel at both looks. `fine`: none
    of these. `unknown`: a host did not tell.
    """
    states = case.view("host", host_states) or ()
    suspects = tuple(dict.fromkeys(host for finding in case.origins() for host in finding.hosts))
    asked = suspects or case.coverage("host").asked
    seen = [state for state in states if state.host in asked]
    for verdict, words_of in (("memory", _memory), ("storage", _storage), ("blocked", _blocked)):
        found = [(state, words) for state in seen if (words := words_of(state)) is not None]
        if found:
            findings = tuple(_finding(case, verdict, state, words) for state, words in found[:8])
            return Judgement(verdict=verdict, reason="; ".join(f.text for f in findings[:3]), findings=findings)
    missing = case.coverage("host").missing
    unseen = tuple(host for host in asked if host in missing or host not in {state.host for state in seen})
    if unseen or not asked:
        return unknown(f"{fold_hosts(unseen) or 'no host'} did not tell: {case.coverage('host').describe()}")
    return Judgement(verdict="fine", reason=f"{fold_hosts(asked)}: memory, swap and storage are at ease")


def _memory(state: HostState) -> str | None:
    if state.killed:
        return f"{state.killed} processes were killed because memory ran out within 3 s"
    if state.available is not None and state.available < _LITTLE:
        return f"{state.available:.1%} of its memory is available"
    if state.swapped_pages is not None and state.swapped_pages > _SWAPPING:
        return f"it swapped {state.swapped_pages:,} pages within 3 s"
    stalled = state.pressure.get("memory")
    return f"everything waited for memory {stalled:.0f} % of 10 s" if stalled and stalled >= _STALLED_PCT else None


def _storage(state: HostState) -> str | None:
    """Pressure alone may be a busy disk; with tasks that do not come back it is storage that does not answer."""
    stalled = state.pressure.get("io")
    if not stalled or stalled < _STALLED_PCT or not state.blocked:
        return None
    return f"everything waited for storage {stalled:.0f} % of 10 s, and {_tasks(state)}"


def _blocked(state: HostState) -> str | None:
    """One stuck backup is no host that is held up: it takes a task that trains, or several."""
    counts = len(state.blocked) >= _MANY or any(like_training(name) for name, _ in state.blocked.values())
    return _tasks(state) if counts else None


def _tasks(state: HostState) -> str:
    rows = sorted(state.blocked.items(), key=lambda row: not like_training(row[1][0]))
    pid, (name, where) = rows[0]
    more = f" and {len(state.blocked) - 1} more" if len(state.blocked) > 1 else ""
    return f"{name or 'a task'} (pid {pid}){more} waits in the kernel{f' in {where}' if where else ''}"


def _finding(case: Case, verdict: str, state: HostState, words: str) -> Finding:
    return Finding(
        kind="host_memory" if verdict == "memory" else "blocked_in_kernel",
        text=f"{state.host}: {words}",
        role=Role.ORIGIN,
        grade=Grade.LIKELY,
        ranks=tuple(r for f in case.origins() if state.host in f.hosts for r in f.ranks) or case.ranks.on(state.host),
        hosts=(state.host,),
        cites=(Citation(probe="host", host=state.host, text=words),),
    )


def _state(evidence: Evidence, host: str) -> HostState | None:
    parts = evidence.whole_parts(host)
    looks = {(part.name, part.attributes.get("sample")): part.text for part in parts}
    if ("memory", "2") not in looks:
        return None
    first, last = (dict(_counts(looks.get(("memory", sample), ""))) for sample in ("1", "2"))
    total, available = last.get("MemTotal"), last.get("MemAvailable")
    before, after = (dict(_blocked_rows(looks.get(("blocked", sample), ""))) for sample in ("1", "2"))
    return HostState(
        host=host,
        available=available / total if total and available is not None else None,
        swapped_pages=_sum(_grew(first, last, "pswpin"), _grew(first, last, "pswpout")),
        killed=_grew(first, last, "oom_kill"),
        pressure=dict(_pressure(looks.get(("pressure", "2"), ""))),
        blocked={pid: row for pid, row in after.items() if pid in before},
    )


def _counts(text: str) -> Iterator[tuple[str, int]]:
    for line in text.split("\n"):
        words = line.replace(":", " ").split()
        count = whole(words[1]) if len(words) > 1 else None
        if count is not None:
            yield words[0], count


def _grew(first: Mapping[str, int], last: Mapping[str, int], name: str) -> int | None:
    return last[name] - first[name] if name in first and name in last else None


def _sum(*counts: int | None) -> int | None:
    told = [count for count in counts if count is not None]
    return sum(told) if told else None


def _blocked_rows(text: str) -> Iterator[tuple[int, tuple[str, str]]]:
    for line in text.split("\n"):
        words = line.split("\t")
        pid = whole(words[0])
        if pid is not None and len(words) == 3:
            yield pid, (words[1], words[2].strip("0"))


def _pressure(text: str) -> Iterator[tuple[str, float]]:
    """`memory full avg10=0.12 avg60=…` → memory, 0.12."""
    for line in text.split("\n"):
        words = line.split()
        if len(words) > 2 and words[1] == "full" and words[2].startswith("avg10="):
            try:
                yield words[0], float(words[2].removeprefix("avg10="))
            except ValueError:
                continue
