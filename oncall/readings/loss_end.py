"""Where a start of the job lost its loss: by its step lines, or by the exception with which its framework stopped."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

from oncall.readings.case import Case
from oncall.readings.finding import Citation
from oncall.readings.log_set import LogFile
from oncall.readings.loss_history import NOT_FINITE, LossHistory, StepValues, loss_histories

STEPS_BACK = 100
"""How far before a loss that is not finite a checkpoint is good: what ruins a loss builds up for so long."""

_RAISED = re.compile(
    r"(?:^|[\s:\]])(?:\w+\.)*\w*(?:Error|Exception): (?P<words>"
    r"(?=.*(?:[Ll]oss|[Gg]rad))(?=.*(?:[Nn]on-?finite|not finite|\b(?:nan|NaN|NAN|inf|Inf|INF|infinite)\b)).*"
    r"|.*loss scale already at minimum.*|.*[Mm]inimum loss scale reached.*)"
)
"""How frameworks say that they stop over the loss.

torchtitan's trainer.py (v0.3), Megatron's rerun_state_machine.py and the assertions before it, PyTorch Lightning's
`detect_nan`, Composer's NaNMonitor; DeepSpeed's fp16/loss_scaler.py and fairseq's where no smaller scale is left.
"""
_LONGEST = 1000
"""Characters of a line that are looked at: such words stand at its beginning, and a log may hold anything."""
_RAISERS = (b"Error: ", b"Exception: ")
_GAPS = 6
"""Step lines by which it is told how many steps lie between two that are logged."""
_STEP = re.compile(r"\b(?:step|iteration|iter)\b[ =:#]{1,3}(\d{1,12})\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LossEnd:
    """The end of a loss in one start of the job.

    `step` is the first one that lost it, None where nothing tells; it may have been up to `late` steps later, since not
    every step is logged. `samples` is what the run had consumed by then, `batch` what one step takes. `raised` says
    that the framework stopped over it, `seen` how many steps without a finite loss the logs show, and `skipped` whether
    the optimizer skipped them all.
    """

    history: LossHistory
    step: int | None
    late: int
    samples: int | None
    batch: int | None
    raised: bool
    seen: int
    skipped: bool
    cite: Citation


@dataclass(frozen=True, slots=True)
class _Said:
    """Words about a loss that is not finite, and whether they end the program."""

    words: str
    cite: Citation
    raised: bool


def lost_loss(case: Case) -> LossEnd | None:
    """The newest loss that was lost, looked for once.

    Where the launcher has started the job again since, it counts until that start has got past the step.
    """
    return case.once(lost_loss, ("logs", "processes"), lambda: _newest(loss_histories(case)))


def started_since(case: Case, end: LossEnd) -> LossHistory | None:
    """The newest start of the job, where that is not the one that lost its loss."""
    newest = loss_histories(case)[-1]
    return newest if newest.start != end.history.start else None


def loss_end(history: LossHistory) -> LossEnd | None:
    """Where this start lost its loss; None where its last one is finite and no framework stopped over it.

    A step that lost it before others that are finite spoilt nothing: what it computed was thrown away.
    """
    told = history.with_loss
    bad = tuple(takewhile(lambda step: not step.finite, reversed(told)))[::-1]
    said = _said(history.files)
    if bad:
        return _logged(history, bad, said)
    end = _not_logged(history, said) if said is not None else None
    return end if end is None or end.step is None or not told or told[-1].step < end.step else None


def _newest(histories: Sequence[LossHistory]) -> LossEnd | None:
    passed: int | None = None
    for history in reversed(histories):
        if not history.runs_now:
            break
        end = loss_end(history)
        if end is not None:
            return end if passed is None or end.step is None or passed < end.step else None
        if history.steps:
            passed = max(history.steps[-1].step, passed or 0)
    return None


def _logged(history: LossHistory, bad: tuple[StepValues, ...], said: _Said | None) -> LossEnd:
    first = bad[0]
    own = first.file.cite(first.line)
    return LossEnd(
        history=history,
        step=first.step,
        late=0,
        samples=first.samples,
        batch=first.batch,
        raised=said is not None and said.raised,
        seen=len(bad),
        skipped=all(step.skipped for step in bad),
        cite=said.cite if said is not None and said.raised else own,
    )


def _not_logged(history: LossHistory, said: _Said) -> LossEnd:
    """Frameworks that stop by themselves do so before they log the step; most name it in what they say.

    A step that lies far beyond the last one logged is not this start's: logs are appended to, and words stay in them.
    """
    last = history.steps[-1] if history.steps else None
    gaps = [later.step - step.step for step, later in pairwise(history.steps[-_GAPS:])]
    every = max(gaps, default=1)
    named = int(found[1]) if (found := _STEP.search(said.words)) else None
    if named is not None and last is not None and gaps and named > last.step + 2 * every:
        named = None
    step = named if named is not None else last.step + 1 if last is not None else None
    samples = None
    if last is not None and step is not None and last.samples is not None and last.batch is not None:
        samples = last.samples + (step - last.step) * last.batch
    return LossEnd(
        history=history,
        step=step,
        late=0 if named is not None else every - 1,
        samples=samples,
        batch=last.batch if last is not None else None,
        raised=said.raised,
        seen=0,
        skipped=False,
        cite=said.cite,
    )


def _said(files: Iterable[LogFile]) -> _Said | None:
    """What a framework said of a loss that is not finite; words that name a step go before others."""
    found = [said for file in files for said in (*_raised(file), *_met(file))]
    return next((said for said in found if _STEP.search(said.words)), found[0] if found else None)


def _raised(file: LogFile) -> Iterator[_Said]:
    if any(word in file.tail for word in _RAISERS):
        for line in reversed(file.lines):
            if raised := _RAISED.search(line[:_LONGEST]):
                yield _Said(raised["words"], file.cite(line), raised=True)
                return


def _met(file: LogFile) -> Iterator[_Said]:
    """What Megatron's rerun machine met last; it runs the step again, and then ends the program without a word."""
    for event in reversed(file.events):
        if event.kind == "rerun_unexpected" and event.fields.get("value") in NOT_FINITE:
            line = file.line(event)
            yield _Said(line, file.cite(line), raised=False)
            return
