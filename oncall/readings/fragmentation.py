"""Does the caching allocator retry because its free memory is split?"""

from oncall.flight_recorder.model import Grade
from oncall.readings.case import Case
from oncall.readings.finding import Citation, Finding, Judgement, Role, unknown
from oncall.readings.measured import measure, typical
from oncall.run.nodes import fold_ranks

_GREW = 1.2
_GIB = 2.0**30


def fragmentation(case: Case) -> Judgement:
    """Does the allocator retry because its free memory is split?

    `suspect`: inactive split memory is 1.2 times what it was, and allocations were retried since. `clear`: not both.
    `unknown`: either is not known of every rank, or not from before.

    The retries are counted since the process began; fewer than before means that it began anew.
    """
    retries, split = measure(case, "num_alloc_retries"), measure(case, "mem_inactive_split")
    retried = {who: _growth(count, retries.before.get(who)) for who, count in retries.now.items()}
    hit = tuple(
        sorted(who for who, count in retried.items() if isinstance(who, int) and count is not None and count > 0)
    )
    now, before = typical(split.now), typical(split.before)
    grown = now is not None and before is not None and now >= _GREW * before and now > before
    if hit and grown and now is not None and before is not None:
        most = max(count for count in retried.values() if count is not None)
        where = f"on all {len(hit)} ranks" if set(hit) >= case.ranks.ranks else f"on ranks {fold_ranks(hit)}"
        text = f"allocations are retried {where} (up to {most:,.0f} more times than before), while inactive split"
        finding = Finding(
            kind="fragmentation",
            text=f"{text} memory went from {before / _GIB:.2g} to {now / _GIB:.2g} GiB",
            role=Role.ORIGIN,
            grade=Grade.SURE,
            ranks=() if set(hit) >= case.ranks.ranks else hit,
            hosts=() if set(hit) >= case.ranks.ranks else case.ranks.hosts_of(hit),
            cites=tuple(Citation(probe="metrics", text=each.query) for each in (retries, split)),
        )
        return Judgement(verdict="suspect", reason=finding.text, findings=(finding,))
    lacking = retries.lacks(case.ranks.ranks) or split.lacks(case.ranks.ranks)
    if lacking is None and (None in retried.values() or before is None):
        lacking = "how it was before is not known"
    if lacking is not None:
        return unknown(lacking)
    return Judgement(verdict="clear", reason=_clear(hit, grown=grown))


def _growth(now: float, before: float | None) -> float | None:
    """How much a count grew; a smaller one began anew. None where that is not known: any retry may be an old one."""
    if before is None:
        return 0.0 if now == 0 else None
    return now - before if now >= before else now


def _clear(hit: tuple[int, ...], *, grown: bool) -> str:
    if hit:
        return f"allocations are retried on ranks {fold_ranks(hit)}, but inactive split memory does not grow"
    return "no allocation was retried" + (", though inactive split memory grows" if grown else "")
