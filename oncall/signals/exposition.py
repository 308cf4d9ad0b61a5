"""How a run's state is written down for Prometheus: one family a signal, one sample a rank."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from oncall.signals.rank_signals import SAVE_SPAN, RankSignals
from oncall.signals.signal import Kind
from oncall.signals.torchrun_dirs import Attempts
from oncall.signals.trainer_signals import PREFIX
from oncall.signals.vocabulary import SIGNALS

MAX_UNLISTED = 256
"""Fields outside the vocabulary that get a family; the first ones win."""


class Families:
    """Collects samples into families. The label is `run`, never `job`, which Prometheus sets itself on each scrape.

    What is not known gives no sample, and a rank that is not known gives an empty label, which is none.
    """

    def __init__(self, run: str) -> None:
        self._run = run
        self._families: dict[str, Metric] = {}
        self._unlisted = 0

    def metrics(self) -> Iterator[Metric]:
        """The families so far."""
        return iter(self._families.values())

    def add_rank(self, rank: int | None, state: RankSignals) -> None:
        """All samples of one rank."""
        labels = {"rank": _label(rank)}
        for name, value in state.values.items():
            self._add(name, value, labels)
        self._add("step", state.step, labels)
        self._add("last_step_completed_timestamp_seconds", state.completed, labels)
        self._add("loss_is_finite", state.loss_is_finite, labels)
        self._add("step_time_s_p50", state.step_time_p50, labels)
        self._add("grad_norm_spikes_total", state.grad_norm_spikes, labels)
        self._add("data_backwards_total", state.data_backwards, labels)
        self._add("ckpt_shorter_of_two_s", state.shorter_of_two_saves, labels)
        for name, seconds in state.spans.items():
            self._add("span_seconds", seconds, {**labels, "name": name})
        for name, errors in state.span_errors.items():
            self._add("span_errors_total", errors, {**labels, "name": name})
        if "ckpt_failed_total" not in state.values and SAVE_SPAN in state.span_errors:
            self._add("ckpt_failed_total", state.span_errors[SAVE_SPAN], labels)

    def add_log_bytes(self, local_rank: int, rank: int | None, size: int) -> None:
        """Bytes that one process wrote to its logs."""
        self._add("log_bytes_total", size, {"rank": _label(rank), "local_rank": str(local_rank)})

    def add_launcher(self, attempts: Attempts, writers: int | None) -> None:
        """What is known of the run on this node as a whole."""
        self._add("restart_total", attempts.restarts, {"rank": ""})
        self._add("attempt_start_timestamp_seconds", attempts.newest_start, {})
        self._add("writers", writers, {})

    def _add(self, name: str, value: float | None, labels: dict[str, str]) -> None:
        if value is None:
            return
        family = self._families.get(name)
        if family is None:
            family = self._family(name, ["run", *labels])
            if family is None:
                return
            self._families[name] = family
        family.add_sample(_sample_name(family), {"run": self._run, **labels}, value)

    def _family(self, name: str, labels: list[str]) -> Metric | None:
        signal = SIGNALS.get(name)
        if signal is None:
            self._unlisted += 1
            text = "A field outside the vocabulary, as the trainer writes it"
            return GaugeMetricFamily(PREFIX + name, text, labels=labels) if self._unlisted <= MAX_UNLISTED else None
        if signal.kind is Kind.COUNTER:
            return CounterMetricFamily(signal.metric, signal.help, labels=labels)
        return GaugeMetricFamily(signal.metric, signal.help, labels=labels)


def _sample_name(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name


def _label(rank: int | None) -> str:
    return "" if rank is None else str(rank)
