"""What a signal is: one quantity of a training run, its Prometheus series, and the query that reads it."""

from dataclasses import dataclass
from enum import StrEnum
from string import Template


class Layer(StrEnum):
    """Who a value belongs to: the run as a whole, one rank's process, or one GPU, NIC or host."""

    TASK = "task"
    PROCESS = "process"
    HARDWARE = "hardware"


class Source(StrEnum):
    """Which exporter the default query expects."""

    ONCALL = "oncall exporter"
    DCGM = "dcgm-exporter"
    NODE = "node_exporter"


class Kind(StrEnum):
    """How a value moves: a counter only grows between restarts of its source."""

    GAUGE = "gauge"
    COUNTER = "counter"


@dataclass(frozen=True, slots=True)
class Matchers:
    """Label matchers that single out one run in each exporter's series, as they stand between braces, and a window.

    `train`, `dcgm` and `node` are e.g. `run="run42"` or `Hostname=~"node0.*"`; "" selects everything.
    `window` is a PromQL duration for the growth of counters.
    """

    train: str = ""
    dcgm: str = ""
    node: str = ""
    window: str = "10m"


@dataclass(frozen=True, slots=True)
class Signal:
    """One row of the vocabulary.

    `name` is the key in a run file, and for what a trainer writes also the JSONL field. `metric` is the series' name.
    `query` is PromQL with `$train`, `$dcgm`, `$node` and `$window` left open. `unit` is a short word as in the README.
    """

    name: str
    metric: str
    kind: Kind
    unit: str
    layer: Layer
    source: Source
    help: str
    query: str

    def promql(self, matchers: Matchers) -> str:
        """The default query for one run."""
        return render(self.query, matchers)


def plain_query(metric: str, kind: Kind, place: str) -> str:
    """The query of a signal that is one series: a gauge as it is, a counter by its growth; `place` is e.g. "$dcgm"."""
    return f"increase({metric}{{{place}}}[$window])" if kind is Kind.COUNTER else f"{metric}{{{place}}}"


def render(query: str, matchers: Matchers) -> str:
    """`query` with its open places filled; raises KeyError or ValueError where it names a place that does not exist.

    Inside braces an open place stands last (`{name="optim",$train}`): PromQL allows a comma before the closing brace
    but not after the opening one, so that empty matchers stay valid.
    """
    return Template(query).substitute(
        train=matchers.train, dcgm=matchers.dcgm, node=matchers.node, window=matchers.window
    )
