"""The line at the top that never goes away: run, state, last step, coverage, age of the data, cost."""

from datetime import datetime

from rich.cells import cell_len

from oncall.console.glyphs import Glyphs
from oncall.console.lines import Line, Span, Tone, say
from oncall.console.snapshot import Snapshot
from oncall.report.durations import dollars, duration

_STATE_TONES = {
    "running": Tone.GOOD,
    "slowed": Tone.WARN,
    "stopped": Tone.BAD,
    "gone": Tone.BAD,
    "restarting": Tone.WARN,
    "unknown": Tone.WARN,
}
_OLD_S = 60.0


def status_line(snapshot: Snapshot, now: datetime, width: int, glyphs: Glyphs) -> Line:
    """One line of exactly `width` cells; what fits least matters least and goes first."""
    for brevity in range(5):
        left, right = _left(snapshot, brevity, glyphs), _right(snapshot, now, brevity)
        gap = width - _size(left) - _size(right)
        if gap >= 2:
            break
    return (*left, Span(" " * max(1, gap)), *right)


def _size(spans: Line) -> int:
    return sum(cell_len(span.text) for span in spans)


def _left(snapshot: Snapshot, brevity: int, glyphs: Glyphs) -> Line:
    known = snapshot.known
    state = known.state if known else "unknown"
    word = state.upper() if known and known.steps else _under_way(snapshot)
    tone = _STATE_TONES[state] if known and known.steps else Tone.WARN
    spans = [say(f" {snapshot.start.run}", Tone.STRONG), Span(f"  {glyphs.state} {word}", tone)]
    step = known.last_step if known else None
    if step is not None:
        spans.append(Span(f"  step {step.step:,}"))
        if step.age_s is not None and state != "running":
            bound = "at least " if step.at_least else ""
            age = f"{bound}{duration(step.age_s)}"
            stands = state != "slowed" and brevity < 3
            spans.append(Span(f"  no step for {age}" if stands else f", {age} ago"))
        if step.normal_s is not None and brevity < 2:
            spans.append(Span(f" (normal {step.normal_s:.3g} s)", Tone.DIM))
    return tuple(spans)


def _under_way(snapshot: Snapshot) -> str:
    if snapshot.problem is not None:
        return "FAILED"
    return "ASKING" if snapshot.start.live else "READING"


def _right(snapshot: Snapshot, now: datetime, brevity: int) -> Line:
    spans = [Span(text, tone) for text, tone in (_coverage(snapshot, brevity), _age(snapshot, now, brevity)) if text]
    joined: list[Span] = []
    for span in spans:
        joined += [Span(" · ", Tone.DIM), span] if joined else [span]
    cost = cost_now(snapshot, now)
    return (*joined, Span(f"  {cost} ", Tone.STRONG)) if cost else (*joined, Span(" "))


def _coverage(snapshot: Snapshot, brevity: int) -> tuple[str, Tone]:
    probe = next((each for each in snapshot.probes if each.name == "processes"), None)
    known = snapshot.known
    if known is not None and "processes" in known.coverage:
        covered = known.coverage["processes"]
        answered, asked = covered.answered, covered.asked
    elif probe is not None:
        answered, asked = probe.answered, probe.asked
    elif snapshot.hosts is not None:
        answered, asked = 0, snapshot.hosts
    else:
        return "", Tone.PLAIN
    ranks = f"{known.world_size:,} ranks · " if known and known.world_size and brevity < 3 else ""
    return f"{ranks}{answered:,}/{asked:,} nodes", Tone.PLAIN if answered == asked else Tone.WARN


def _age(snapshot: Snapshot, now: datetime, brevity: int) -> tuple[str, Tone]:
    start = snapshot.start
    if not start.live:
        form = "%Y-%m-%d %H:%M UTC" if brevity < 1 else "%m-%d %H:%M" if brevity < 4 else ""
        return (f"recorded {start.started:{form}}", Tone.WARN) if form else ("recorded", Tone.WARN)
    age_s = (now - start.started).total_seconds()
    old = f", {duration(age_s // 60 * 60)} old" if age_s >= _OLD_S else ""
    return f"{'as of ' if brevity < 3 else ''}{start.started:%H:%M:%S}{old}", Tone.WARN if old else Tone.DIM


def cost_now(snapshot: Snapshot, now: datetime) -> str:
    """What the stop has cost by now: that of the report, in a live triage the time since too.

    "" where it costs nothing, or that is not known.
    """
    cost = snapshot.known.cost if snapshot.known else None
    if cost is None or not cost.usd or cost.usd_per_minute is None:
        return ""
    since = (now - snapshot.start.started).total_seconds() if snapshot.start.live else 0.0
    return dollars(cost.usd + cost.usd_per_minute * since / 60)
