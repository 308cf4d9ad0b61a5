"""The panels that show a run, row by row: the one list behind the Grafana dashboard and its description."""

from dataclasses import dataclass
from enum import StrEnum

from oncall.signals.hardware_signals import GPU_LINK_COUNTERS
from oncall.signals.vocabulary import metric


class Row(StrEnum):
    """Rows of the dashboard, from the run down to the hardware."""

    TASK = "Task"
    PROCESS = "Process"
    HARDWARE = "Hardware"
    EVENTS = "Events"


class Shape(StrEnum):
    """How a panel draws, by Grafana's names of its panel types."""

    LINES = "timeseries"
    TABLE = "table"
    HEATMAP = "status-history"


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. `queries` maps a legend (Grafana's `{{label}}`) to PromQL with `$train` and `$dcgm` left open.

    `unit` is Grafana's name of it. From the last of one or two `thresholds` on the panel is red, from the first yellow;
    with `below` it is red under the first and yellow under the last.
    """

    row: Row
    title: str
    queries: dict[str, str]
    unit: str
    shape: Shape = Shape.LINES
    thresholds: tuple[float, ...] = ()
    below: bool = False


def _m(name: str, *labels: str) -> str:
    return f"{metric(name)}{{{','.join([*labels, '$train'])}}}"


def _g(name: str) -> str:
    return f"{metric(name)}{{$dcgm}}"


_HOST = "{{Hostname}}{{hostname}} gpu {{gpu}}"
_RANK = "rank {{rank}}"
_STEP_TIMES = _m("step_time_s")
_LAST_STEP = _m("last_step_completed_timestamp_seconds")

PANELS: tuple[Panel, ...] = (
    Panel(Row.TASK, "Step", {"step": f"max by (run) ({_m('step')})"}, "none"),
    Panel(
        Row.TASK, "Time since the last step", {"age": f"time() - max by (run) ({_LAST_STEP})"}, "s", thresholds=(90,)
    ),
    Panel(
        Row.TASK,
        "Loss",
        {kind: f"{kind} by (run) ({_m('loss')})" for kind in ("avg", "min", "max")},
        "none",
    ),
    Panel(Row.TASK, "Gradient norm", {"norm": f"avg by (run) ({_m('grad_norm')})"}, "none"),
    Panel(
        Row.TASK,
        "MFU",
        {
            "MFU": f"avg by (run) ({_m('mfu')} >= 0)",
            "page below": "0.85 * run:train_mfu:baseline{$train}",
            "baseline": "run:train_mfu:baseline{$train}",
        },
        "percent",
    ),
    Panel(
        Row.TASK,
        "Step time",
        {
            "p50": f"quantile by (run) (0.5, {_STEP_TIMES})",
            "p95": f"quantile by (run) (0.95, {_STEP_TIMES})",
        },
        "s",
    ),
    Panel(
        Row.TASK,
        "Step time p95 / p50",
        {"ratio": f"quantile by (run) (0.95, {_STEP_TIMES}) / quantile by (run) (0.5, {_STEP_TIMES})"},
        "none",
        thresholds=(1.2,),
    ),
    Panel(Row.TASK, "Tokens a second", {"tokens": f"sum by (run) ({_m('tps')})"}, "none"),
    Panel(
        Row.TASK,
        "Checkpoint save",
        {
            "last": f"max by (run) ({_m('ckpt_duration_s')})",
            "page above": "2 * run:train_ckpt_duration_s:baseline{$train}",
        },
        "s",
    ),
    Panel(
        Row.TASK,
        "Effective training time, 24 h",
        {"effective": "run:train_effective_fraction:1d{$train}"},
        "percentunit",
        thresholds=(0.85, 0.9),
        below=True,
    ),
    Panel(
        Row.PROCESS,
        "Step time of each rank against the median",
        {_RANK: f"{_STEP_TIMES} / on (run) group_left () quantile by (run) (0.5, {_STEP_TIMES})"},
        "none",
        Shape.HEATMAP,
        thresholds=(1.2,),
    ),
    *(
        Panel(
            Row.PROCESS,
            f"Longest {name}",
            {_RANK: "topk(5, " + _m("span_seconds", f'name="{name}"') + ")"},
            "s",
        )
        for name in ("fwd_bwd", "optim", "fetching_batch")
    ),
    Panel(
        Row.PROCESS,
        "GPU memory of the allocator",
        {
            f"{name} {kind}": f"{kind} by (run) ({_m(name)})"
            for name in ("mem_reserved_peak", "mem_allocated_peak", "mem_inactive_split")
            for kind in ("max", "min")
        },
        "bytes",
    ),
    Panel(
        Row.PROCESS,
        "Allocator retries in an hour",
        {_RANK: f"increase({_m('num_alloc_retries')}[1h]) > 0"},
        "none",
        Shape.TABLE,
        thresholds=(1,),
    ),
    Panel(
        Row.PROCESS,
        "Share of the step spent waiting for data",
        {_RANK: f"topk(5, ({_m('data_wait_s')} >= 0) / ({_STEP_TIMES} > 0))"},
        "percentunit",
        thresholds=(0.05,),
    ),
    Panel(
        Row.PROCESS,
        "Bytes logged a second",
        {_RANK: f"topk(5, rate({_m('log_bytes_total')}[5m]))"},
        "Bps",
    ),
    Panel(Row.HARDWARE, "SM clock", {_HOST: _g("sm_clock")}, "rotmhz", thresholds=(1500,), below=True),
    Panel(Row.HARDWARE, "GPU temperature", {_HOST: _g("gpu_temp")}, "celsius"),
    Panel(Row.HARDWARE, "Power", {_HOST: _g("power")}, "watt"),
    Panel(Row.HARDWARE, "Tensor pipe active", {_HOST: _g("tensor_active")}, "percentunit"),
    Panel(
        Row.HARDWARE,
        "Errors",
        {
            "Xid": f"max without (err_code, err_msg) ({_g('xid')}) > 0",
            "double-bit ECC": f"{_g('ecc_dbe')} > 0",
            "row remap pending": f"{_g('row_remap_pending')} > 0",
            **{f"{name} in an hour": f"increase({_g(name)}[1h]) > 0" for name in GPU_LINK_COUNTERS},
        },
        "none",
        Shape.TABLE,
        thresholds=(1,),
    ),
    Panel(Row.HARDWARE, "NVLink sent", {_HOST: _g("nvlink_tx")}, "Bps"),
    Panel(
        Row.EVENTS,
        "Alerts",
        {"{{alertname}}": 'ALERTS{alertstate="firing",$train}'},
        "none",
        Shape.TABLE,
    ),
    Panel(
        Row.EVENTS,
        "Restarts",
        {"restarts": f"max by (run) ({_m('restart_total')})"},
        "none",
    ),
    Panel(
        Row.EVENTS,
        "Failed checkpoint saves",
        {"failed": f"max by (run) ({_m('ckpt_failed_total')})"},
        "none",
    ),
)
