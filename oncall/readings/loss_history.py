"""Losses, gradient norms and loss scales of each start of the job, step by step, as the logs show them."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from oncall.formats.event import Event, Json
from oncall.readings.case import Case
from oncall.readings.log_set import LogFile, LogSet, own_logs

_LAUNCH = re.compile(r"(?P<run>.+)_[a-z0-9_]{8}")
NOT_FINITE = frozenset({"nan", "inf", "-inf"})
"""How events hold a number that is none (oncall.formats.numbers)."""

Start = tuple[str | None, int | None]
"""A start of the job: the folder of an older launch, None for the one that runs now, and the launcher's attempt."""


@dataclass(frozen=True, slots=True)
class StepValues:
    """What one step line says. A value that the line does not tell is None; one that is not finite is NaN or infinite.

    `samples` is what the run had consumed by then and `batch` what one step takes, `skipped` whether the optimizer
    skipped the step, `nan` whether the framework itself counts it as not finite.
    """

    step: int
    loss: float | None
    grad_norm: float | None
    loss_scale: float | None
    attention_logit: float | None
    samples: int | None
    batch: int | None
    skipped: bool
    nan: bool
    file: LogFile
    event: Event

    @property
    def finite(self) -> bool:
        """Whether the loss is a number, as far as the line tells."""
        return not self.nan and (self.loss is None or math.isfinite(self.loss))

    @property
    def line(self) -> str:
        """The words of the line itself."""
        return self.file.line(self.event)


@dataclass(frozen=True, slots=True)
class LossHistory:
    """One start of the job: its steps in order, and all its logs; `attempt` is None where no folder tells it."""

    start: Start
    steps: tuple[StepValues, ...]
    files: tuple[LogFile, ...]

    @property
    def attempt(self) -> int | None:
        """The launcher's number of it."""
        return self.start[1]

    @property
    def runs_now(self) -> bool:
        """Whether it belongs to the launch that is the newest on its node."""
        return self.start[0] is None

    @property
    def with_loss(self) -> tuple[StepValues, ...]:
        """The steps that tell whether the loss is a number: one that was skipped may tell no loss at all."""
        return tuple(step for step in self.steps if step.loss is not None or not step.finite)

    def before(self, step: int, count: int) -> tuple[StepValues, ...]:
        """Up to `count` steps before a step, oldest first."""
        return tuple(each for each in self.steps if step - count <= each.step < step)


def loss_histories(case: Case) -> tuple[LossHistory, ...]:
    """The history of each start, oldest first, told apart once; empty where no logs were asked for.

    Of several ranks' lines for one step the worst counts. An older launch counts where torchrun's folders say that it
    was one of the same run.
    """
    logs = own_logs(case)
    return case.once(loss_histories, ("logs", "processes"), lambda: () if logs is None else _histories(logs))


def _histories(logs: LogSet) -> tuple[LossHistory, ...]:
    current = {(file.host, file.path) for file in logs.current()}
    runs = {_run_id(folder) for folder in logs.run_folders.values()} - {None}
    files: dict[Start, list[LogFile]] = {}
    for file in logs.files:
        attempt = logs.attempt if (file.host, file.path) in current else file.attempt
        if logs.of_now(file):
            files.setdefault((None, attempt), []).append(file)
        elif file.run_folder is not None and _run_id(file.run_folder) in runs:
            files.setdefault((f"{file.host}:{file.run_folder}", attempt), []).append(file)
    found = (LossHistory(start, _steps(own), tuple(own)) for start, own in files.items())
    return tuple(sorted(found, key=_order))


def _run_id(folder: str) -> str | None:
    """The id that a launch was given, None where it was given none.

    torchrun makes <run id>_<eight random characters> for each launch (elastic/multiprocessing/api.py, PyTorch 2.3 on).
    """
    found = _LAUNCH.fullmatch(PurePosixPath(folder).name)
    return found["run"] if found and found["run"] != "none" else None


def _order(history: LossHistory) -> tuple[bool, int, float]:
    """Older launches first, and of these the one that was written to longest ago."""
    written = max((-file.age_s for file in history.files if file.age_s is not None), default=0.0)
    attempt = -1 if history.attempt is None else history.attempt
    return (True, attempt, 0.0) if history.runs_now else (False, 0, written)


def _steps(files: Iterable[LogFile]) -> tuple[StepValues, ...]:
    steps: dict[int, StepValues] = {}
    for file in files:
        bar: int | None = None
        for event in file.events:
            if event.kind == "progress_bar":
                bar = event.number("step")
            values = _values(file, event, bar) if event.kind == "step" else None
            if values is not None and _tells_more(values, steps.get(values.step)):
                steps[values.step] = values
    return tuple(steps[step] for step in sorted(steps))


def _tells_more(values: StepValues, known: StepValues | None) -> bool:
    return known is None or (known.finite and (not values.finite or known.loss is None))


def _values(file: LogFile, event: Event, bar: int | None) -> StepValues | None:
    """What a step line says; Hugging Face's names no step, which stands in the progress bar before it."""
    told = event.number("step")
    step = told if told is not None else bar
    if step is None:
        return None
    fields = event.fields
    grad_norm = _number(fields.get("grad_norm"))
    return StepValues(
        step=step,
        loss=_number(fields.get("loss")),
        grad_norm=grad_norm,
        loss_scale=_number(fields.get("loss_scale")),
        attention_logit=_attention_logit(fields.get("losses"), fields.get("moe")),
        samples=event.number("consumed_samples"),
        batch=event.number("global_batch_size"),
        skipped=(event.number("skipped") or 0) > 0,
        nan=(event.number("nan") or 0) > 0 or _hides_its_loss(event, grad_norm),
        file=file,
        event=event,
    )


def _hides_its_loss(event: Event, grad_norm: float | None) -> bool:
    """Hugging Face's Trainer logs a loss of NaN as 0 (`logging_nan_inf_filter`, on by default in transformers 4.x)."""
    return event.fields.get("framework") == "hf" and grad_norm is not None and not math.isfinite(grad_norm)


def _number(value: Json) -> float | None:
    if isinstance(value, str):
        return float(value) if value in NOT_FINITE else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _attention_logit(*tables: Json) -> float | None:
    """The largest attention logit, where a framework prints it among its losses or metrics under some such name."""
    named: Iterable[tuple[str, Json]] = (
        item for table in tables if isinstance(table, Mapping) for item in table.items()
    )
    return next((_number(value) for name, value in named if "attention" in name and "logit" in name), None)
