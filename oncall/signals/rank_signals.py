"""What the exporter knows of one rank: last values, step progress, spans, and what happened that no gauge can show."""

import math
import statistics
from collections import Counter, deque

from oncall.signals.data_position import DataPosition
from oncall.signals.records import StepRecord

MEDIAN_STEPS = 20
"""Steps behind `train_step_time_s_p50` and behind the judgement of a gradient norm."""

SPIKE_FACTOR = 3.0
SPIKE_STEPS = 10
"""A gradient norm above SPIKE_FACTOR times the median of at least SPIKE_STEPS steps before it is a spike."""

SAVE_SPAN = "checkpoint_save"
SAVE_AT_LEAST_S = 0.5
"""torchtitan opens the span SAVE_SPAN at every step, due or not (components/checkpoint.py, v0.3.0); a shorter one saved
nothing."""

MAX_SPAN_NAMES = 64


class RankSignals:
    """One rank's state, fed with its records in the order of its files.

    A count stays None until there was something to count, so that a rank that never tells a field is not shown as a
    rank without trouble. Records from before the exporter's start set values but count nothing.
    """

    def __init__(self) -> None:
        self.values: dict[str, float] = {}
        self.spans: dict[str, float] = {}
        self.span_errors: Counter[str] = Counter()
        self.step: int | None = None
        self.completed: float | None = None
        self.last_record: float | None = None
        self.loss_is_finite: bool | None = None
        self.grad_norm_spikes: int | None = None
        self.data_backwards: int | None = None
        self._step_times: deque[float] = deque(maxlen=MEDIAN_STEPS)
        self._grad_norms: deque[float] = deque(maxlen=MEDIAN_STEPS)
        self._saves: deque[float] = deque(maxlen=2)
        self._data = DataPosition()

    @property
    def step_time_p50(self) -> float | None:
        """Median of the last step times in seconds; None before there is one."""
        return statistics.median(self._step_times) if self._step_times else None

    @property
    def shorter_of_two_saves(self) -> float | None:
        """The shorter of the last two checkpoint saves in seconds; None before there were two."""
        return min(self._saves) if len(self._saves) == 2 else None

    def take(self, record: StepRecord, live: bool) -> None:
        """Take one record; one from before the start is ignored when a younger one was read already."""
        if not self._hear(record.time, live):
            return
        values = dict(record.values)
        if record.step is not None and record.step != self.step:
            self._complete(record.step, record.time, values, live)
        saved = values.get("ckpt_duration_s")
        if saved is not None and saved != self.values.get("ckpt_duration_s"):
            self._saves.append(saved)
        for name, value in values.items():
            if value is None:
                self.values.pop(name, None)
            else:
                self.values[name] = value
        loss = values.get("loss")
        if loss is not None:
            self.loss_is_finite = math.isfinite(loss)

    def start_span(self, name: str, time: float) -> None:
        """Note that a span began: from here on its errors are counted."""
        self._hear(time, live=False)
        if name in self.span_errors or len(self.span_errors) < MAX_SPAN_NAMES:
            self.span_errors[name] += 0

    def fail_span(self, name: str, time: float, live: bool) -> None:
        """Note that a span ended in an exception."""
        self.start_span(name, time)
        if live and name in self.span_errors:
            self.span_errors[name] += 1

    def end_span(self, name: str, seconds: float, step: int | None, time: float, live: bool) -> None:
        """Note that a span ended well; the span `step` is a step completed, a long SAVE_SPAN a checkpoint saved."""
        if not self._hear(time, live):
            return
        if name in self.spans or len(self.spans) < MAX_SPAN_NAMES:
            self.spans[name] = seconds
        if name == "step":
            self.take(StepRecord(None, time, step, {"step_time_s": seconds}), live)
        elif name == SAVE_SPAN and seconds >= SAVE_AT_LEAST_S:
            self.take(StepRecord(None, time, None, {"ckpt_duration_s": seconds}), live)

    def _hear(self, time: float, live: bool) -> bool:
        if not live and self.last_record is not None and time < self.last_record:
            return False
        self.last_record = time
        return True

    def _complete(self, step: int, time: float, values: dict[str, float | None], live: bool) -> None:
        if values.get("step_time_s") is None and self.step is not None and self.completed is not None:
            passed, steps = time - self.completed, step - self.step
            if passed > 0 and steps > 0:
                values["step_time_s"] = passed / steps
        step_time = values.get("step_time_s")
        if step_time is not None and math.isfinite(step_time):
            self._step_times.append(step_time)
        self.step, self.completed = step, time
        self.values.pop("finished", None)
        self._judge_grad_norm(values.get("grad_norm"), live)
        consumed = values.get("consumed_samples")
        if consumed is not None and math.isfinite(consumed):
            behind = self._data.goes_back(step, consumed)
            self.data_backwards = (self.data_backwards or 0) + (behind and live)

    def _judge_grad_norm(self, norm: float | None, live: bool) -> None:
        if norm is None or not math.isfinite(norm):
            return
        usual = statistics.median(self._grad_norms) if len(self._grad_norms) >= SPIKE_STEPS else math.inf
        self.grad_norm_spikes = (self.grad_norm_spikes or 0) + (norm > SPIKE_FACTOR * usual and live)
        self._grad_norms.append(norm)
