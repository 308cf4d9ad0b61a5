"""What log lines and structured-log records mean for a rank's signals: events in, records and spans out."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from oncall.formats.event import Event, Json
from oncall.signals.records import StepRecord, plausible_time

GIB = 1 << 30

_FIELDS: Mapping[str, tuple[str, float]] = {
    "loss": ("loss", 1),
    "grad_norm": ("grad_norm", 1),
    "params_norm": ("param_norm", 1),
    "lr": ("lr", 1),
    "loss_scale": ("loss_scale", 1),
    "skipped": ("skipped", 1),
    "skipped_total": ("skipped", 1),
    "num_zeros": ("num_zeros_in_grad", 1),
    "consumed_samples": ("consumed_samples", 1),
    "step_time_s": ("step_time_s", 1),
    "tps": ("tps", 1),
    "tflops_per_gpu": ("tflops", 1),
    "mfu_pct": ("mfu", 1),
    "mem_gib": ("mem_reserved_peak", GIB),
}
"""Field of a step event → signal and factor to its unit. torchtitan prints the reserved peak (v0.3.0)."""


class StepLines:
    """The steps, finished checkpoints and planned ends that the lines of one log tell.

    A checkpoint whose last line does not say how long it took lasts from its first line to its last.
    """

    def __init__(self) -> None:
        self._saving_since: float | None = None

    def records(self, events: Iterable[Event], written: float) -> list[StepRecord]:
        """What `events` tell, in order.

        Stamps in logs have no zone and are taken to be in this machine's. `written`, when the log was last written to
        in unix seconds, stands in for a stamp that is missing or lies after it.
        """
        found = (self._record(event, _time(event.text("ts"), written)) for event in events)
        return [record for record in found if record is not None]

    def _record(self, event: Event, time: float) -> StepRecord | None:
        rank = event.number("rank")
        if event.kind == "step":
            return StepRecord(rank, time, event.number("step"), _values(event.fields))
        if event.kind == "checkpoint_start":
            self._saving_since = time
        elif event.kind == "checkpoint_done":
            began, self._saving_since = self._saving_since, None
            took = event.fields.get("seconds")
            if isinstance(took, int | float):
                return StepRecord(rank, time, None, {"ckpt_duration_s": float(took)})
            return None if began is None else StepRecord(rank, time, None, {"ckpt_duration_s": time - began})
        elif event.kind == "train_end" or (event.kind == "exit" and "SIGTERM" not in (event.text("reason") or "")):
            return StepRecord(rank, time, None, {"finished": 1.0})
        return None


def _values(fields: Mapping[str, Json]) -> dict[str, float | None]:
    values: dict[str, float | None] = {}
    for name, (signal, factor) in _FIELDS.items():
        said = fields.get(name)
        # The readers give "nan", "inf" and "-inf" for what is not finite, as JSON has no such numbers.
        if isinstance(said, int | float) or said in {"nan", "inf", "-inf"}:
            values[signal] = float(said) * factor
    return values


def _time(stamp: str | None, written: float) -> float:
    if stamp is None:
        return written
    try:
        return plausible_time(datetime.fromisoformat(stamp).astimezone().timestamp(), written)
    except (ValueError, OverflowError, OSError):
        return written
