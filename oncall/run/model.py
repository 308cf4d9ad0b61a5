"""One training run as its run file describes it. Every field of the TOML is a field here; there is no other."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from oncall.run.nodes import MOST_RANKS

_END = r"(?![\s\S])"
"""The end of a text for Python and for JSON Schema alike: `$` of the one allows a newline after it."""
_QUOTED = r"""("(\\.|[^"\\])*"|'(\\.|[^'\\])*'|`[^`]*`)"""
_COMPARED = r"\s*[A-Za-z_][A-Za-z0-9_]*\s*(=~|!~|!=|=)\s*"

Seconds = Annotated[float, msgspec.Meta(gt=0, le=31_536_000)]
Factor = Annotated[float, msgspec.Meta(gt=1, le=1000)]
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Count = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
Window = Annotated[
    str, msgspec.Meta(pattern=rf"^(\d{{1,6}}(ms|[smhdwy]))+{_END}", description="a duration such as 10m or 1h30m")
]
Text = Annotated[
    str, msgspec.Meta(pattern=rf"^[^\x00-\x1f\x7f]+{_END}", description="one line of text, not empty, without tabs")
]
NodePath = Annotated[
    str, msgspec.Meta(pattern=rf"^/[^\x00-\x1f\x7f]*{_END}", description="a path from / on: nothing expands it")
]
RunName = Annotated[
    str,
    msgspec.Meta(
        pattern=rf"^[^\s/.\x00-\x1f\x7f-][^/\x00-\x1f\x7f]{{0,99}}{_END}",
        description="a name that a folder can have, of at most 100 signs, with no slash and no dot or dash in front",
    ),
]
Matchers = Annotated[
    str,
    msgspec.Meta(
        pattern=rf"^({_COMPARED}{_QUOTED}\s*(,|{_END}))*\s*{_END}",
        description="""label matchers such as run="run42",cluster=~"a|b"; "" for all""",
    ),
]
Matcher = Annotated[str, msgspec.Meta(pattern=rf"^{_COMPARED}\S", description="""a matcher such as cluster="a\"""")]


class Reach(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a command gets to the nodes. Times in seconds."""

    via: Literal["ssh", "local"] = "ssh"
    user: Text | None = None
    port: Port | None = None
    jump: Text | None = None
    identity: Text | None = None
    known_hosts: Text | None = None
    ssh_config: Text | None = None
    addresses: dict[str, Text] = {}
    concurrency: Count = 64
    connect_timeout_s: Seconds = 6.0
    command_timeout_s: Seconds = 25.0
    sudo: bool = True


class Paths(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the job writes, as paths on the nodes. `dumps` and `pipes` are prefixes: the rank follows."""

    logs: NodePath | None = None
    dumps: NodePath | None = None
    pipes: NodePath | None = None
    checkpoints: NodePath | None = None


class Processes(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How the training processes are told from others, and where py-spy lies on the nodes if not on the PATH.

    `debug_server` is where PyTorch's debug server answers in each of them: the port of local rank 0, the others' follow
    it, or `find` for what the processes themselves listen to. None asks nobody.
    """

    match: Text | None = None
    py_spy: Text | None = None
    debug_server: Port | Literal["find"] | None = None


class Ranks(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the rank map comes from (relative to the run file), and how many ranks there must be."""

    file: Text | None = None
    world_size: Annotated[int, msgspec.Meta(ge=1, le=MOST_RANKS)] | None = None


class Thresholds(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """When a job counts as stopped or slow and for how long what came before still counts. Times in seconds.

    A job is stopped when no step ended for `stalled_factor` times its median step time and for `stalled_s`. It is slow
    when a step takes `slow_factor` times what it took before; a rank stands out when its share takes
    `straggler_factor` times the median of all. `data_share` is the share of a step spent waiting for data,
    `growth_factor` what log volume and checkpoint time may grow by. A sample older than `stale_s` says nothing of now.
    `restart_limit` restarts within `restart_window_s` are a loop.
    """

    stalled_s: Seconds = 90.0
    stalled_factor: Annotated[float, msgspec.Meta(gt=0, le=1000)] = 3.0
    dump_wait_s: Seconds = 75.0
    recent_s: Seconds = 7200.0
    triage_s: Seconds = 120.0
    restart_limit: Count = 3
    restart_window_s: Seconds = 1800.0
    slow_factor: Factor = 1.1
    straggler_factor: Factor = 1.2
    growth_factor: Factor = 2.0
    data_share: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.05
    stale_s: Seconds = 120.0


class Endpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An HTTP API and how to log in to it; a secret is named by its variable or file, never written here.

    `ca` is a file of certificates to trust; `tenant` is sent as `tenant_header`. `timeout_s` is the deadline of one
    request, in seconds.
    """

    url: Text | None = None
    username: Text | None = None
    password_env: Text | None = None
    password_file: Text | None = None
    token_env: Text | None = None
    token_file: Text | None = None
    ca: Text | None = None
    tenant: Text | None = None
    tenant_header: Text = "X-Scope-OrgID"
    timeout_s: Seconds = 5.0


class Join(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Labels that tell whom a series is about, the most telling first; the first that names a known one counts."""

    rank: tuple[Text, ...] = ("rank", "exported_rank", "global_rank")
    host: tuple[Text, ...] = (
        "Hostname",
        "hostname",
        "node",
        "host",
        "exported_instance",
        "instance",
        "exported_pod",
        "pod",
    )
    gpu: tuple[Text, ...] = ("gpu", "gpu_index", "minor_number")
    uuid: tuple[Text, ...] = ("UUID", "uuid", "gpu_uuid")


class Prometheus(Endpoint, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the series are. `train`, `dcgm` and `node` are label matchers of this run; None is by its name.

    `lookback_s` is how far back a better time is looked for, in seconds; `baseline` is the end of a stretch that was
    good, and is looked for where it is None. `window` is a PromQL duration for the growth of counters.
    """

    train: Matchers | None = None
    dcgm: Matchers = ""
    node: Matchers = ""
    window: Window = "10m"
    lookback_s: Seconds = 86400.0
    baseline: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    join: Join = Join()


class Alertmanager(Endpoint, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the alerts are. `match` narrows what is asked for; of that, what is about this run or its hosts counts."""

    match: tuple[Matcher, ...] = ()


class Actions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Command templates of the site. `{host}`, `{hosts}`, `{run}`, `{step}` and `{reason}` are filled in, quoted."""

    exclude: Text | None = None
    restart: Text | None = None
    stop: Text | None = None


class Contacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Who takes over when the answer is to escalate."""

    second_line: Text | None = None
    hardware: Text | None = None
    data: Text | None = None
    numerics: Text | None = None


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One training run: its nodes, ranks, paths, thresholds and the site's commands."""

    nodes: str
    name: RunName = ""
    gpu_hour_usd: Annotated[float, msgspec.Meta(ge=0, le=1_000_000)] | None = None
    reach: Reach = Reach()
    paths: Paths = Paths()
    processes: Processes = Processes()
    ranks: Ranks = Ranks()
    thresholds: Thresholds = Thresholds()
    prometheus: Prometheus = Prometheus()
    alertmanager: Alertmanager = Alertmanager()
    signals: dict[str, str] = {}
    actions: Actions = Actions()
    contacts: Contacts = Contacts()
