"""Is more logged each step, or does saving a checkpoint take longer?"""

from oncall.flight_recorder.model import Grade
from oncall.readings.case import Case
from oncall.readings.finding import Citation, Finding, Judgement, Role, unknown
from oncall.readings.measured import measure, typical
from oncall.run.nodes import fold_ranks
from oncall.signals.duration import seconds_of

_NOTABLE_BYTES = 4096.0
"""A step's log under this is some dozen lines, whatever it grew from."""


def log_volume(case: Case) -> Judgement:
    """Is more logged, or do checkpoints take longer?

    `suspect`: twice as much is logged a second as before, or a checkpoint takes twice as long. `clear`: neither.
    `unknown`: either is not known, or not from before.

    Logs are held against before by the second: what is written by the clock makes more of a step that something else
    has made longer.
    """
    told = [_logs(case), _checkpoints(case)]
    findings = tuple(each for each in told if isinstance(each, Finding))
    if findings:
        return Judgement(verdict="suspect", reason="; ".join(each.text for each in findings), findings=findings)
    lacking = [each.removeprefix("?") for each in told if isinstance(each, str) and each.startswith("?")]
    if lacking:
        return unknown("; ".join(lacking))
    return Judgement(verdict="clear", reason="; ".join(str(each) for each in told))


def _logs(case: Case) -> Finding | str:
    """The finding, else what is known; what is not known begins with a question mark."""
    written, times = measure(case, "log_bytes_total", several=sum), measure(case, "step_time_s")
    if written.off:
        return "this site counts no log bytes"
    step_now, step_before = typical(times.now), typical(times.before)
    lacking = written.lacks(case.ranks.ranks) or times.lacks(())
    if not written.now or step_now is None:
        return f"?{lacking}"
    window_s = seconds_of(case.run.prometheus.window)
    now = {who: size * step_now / window_s for who, size in written.now.items()}
    before = {who: size * (step_before or 0.0) / window_s for who, size in written.before.items()}
    if step_before is None or not before:
        return "?how much was logged before is not known"
    factor = case.run.thresholds.growth_factor
    loud = [
        who
        for who, size in now.items()
        if size >= _NOTABLE_BYTES and written.now[who] >= factor * written.before.get(who, 0.0)
    ]
    loudest = max(now, key=lambda who: now[who])
    text = f"up to {_kb(now[loudest])} logged each step, before {_kb(before.get(loudest, 0.0))}"
    if not loud:
        return f"?{lacking}" if lacking else text
    ranks = tuple(sorted(who for who in loud if isinstance(who, int)))
    everyone = set(ranks) >= case.ranks.ranks
    return Finding(
        kind="log_volume",
        text=f"{text}, on {'all' if everyone else ''} {'' if everyone else fold_ranks(ranks)} ranks".replace("  ", " "),
        role=Role.ORIGIN,
        grade=Grade.LIKELY,
        ranks=() if everyone else ranks,
        hosts=() if everyone else case.ranks.hosts_of(ranks),
        cites=(Citation(probe="metrics", text=written.query),),
    )


def _checkpoints(case: Case) -> Finding | str:
    saved, accepted = measure(case, "ckpt_duration_s"), measure(case, "ckpt_baseline_s")
    if saved.off:
        return "this site times no checkpoints"
    if not saved.now:
        return f"?{saved.lacks(())}"
    now = max(saved.now.values())
    usual = max((accepted.now or saved.before).values(), default=None)
    if usual is None:
        return "?how long a checkpoint took before is not known"
    text = f"a checkpoint takes {now:.3g} s, it took {usual:.3g} s"
    if now < case.run.thresholds.growth_factor * usual:
        return text
    cite = Citation(probe="metrics", text=saved.query)
    return Finding(kind="checkpoint_slow", text=text, role=Role.ORIGIN, grade=Grade.SURE, cites=(cite,))


def _kb(size: float) -> str:
    return f"{size / 1000:,.3g} kB"
