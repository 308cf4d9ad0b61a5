"""One training run as its run file describes it. Every field of the TOML is a field here; there is no other."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

Positive = Annotated[float, msgspec.Meta(gt=0)]
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Window = Annotated[str, msgspec.Meta(pattern=r"^(\d+(ms|[smhdwy]))+$")]


class Reach(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a command gets to the nodes. Times in seconds."""

    via: Literal["ssh", "local"] = "ssh"
    user: str | None = None
    port: Port | None = None
    jump: str | None = None
    identity: str | None = None
    known_hosts: str | None = None
    ssh_config: str | None = None
    addresses: dict[str, str] = {}
    concurrency: Count = 64
    connect_timeout_s: Positive = 6.0
    command_timeout_s: Positive = 25.0
    sudo: bool = True


class Paths(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the job writes, as paths on the nodes. `dumps` and `pipes` are prefixes: the rank follows."""

    logs: str | None = None
    dumps: str | None = None
    pipes: str | None = None
    checkpoints: str | None = None


class Processes(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How the training processes are told from others, and where py-spy lies on the nodes if not on the PATH.

    `debug_server` is where PyTorch's debug server answers in each of them: the port of local rank 0, the others' follow
    it, or `find` for what the processes themselves listen to. None asks nobody.
    """

    match: str | None = None
    py_spy: str | None = None
    debug_server: Port | Literal["find"] | None = None


class Ranks(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the rank map comes from (relative to the run file), and how many ranks there must be."""

    file: str | None = None
    world_size: Count | None = None


class Thresholds(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """When a job counts as stopped or slow and for how long what came before still counts. Times in seconds.

    A job is stopped when no step ended for `stalled_factor` times its median step time and for `stalled_s`. It is slow
    when a step takes `slow_factor` times what it took before; a rank stands out when its share takes
    `straggler_factor` times the median of all. `data_share` is the share of a step spent waiting for data,
    `growth_factor` what log volume and checkpoint time may grow by. A sample older than `stale_s` says nothing of now.
    `restart_limit` restarts within `restart_window_s` are a loop.
    """

    stalled_s: Positive = 90.0
    stalled_factor: Positive = 3.0
    dump_wait_s: Positive = 75.0
    recent_s: Positive = 7200.0
    triage_s: Positive = 120.0
    restart_limit: Count = 3
    restart_window_s: Positive = 1800.0
    slow_factor: Annotated[float, msgspec.Meta(gt=1)] = 1.1
    straggler_factor: Annotated[float, msgspec.Meta(gt=1)] = 1.2
    growth_factor: Annotated[float, msgspec.Meta(gt=1)] = 2.0
    data_share: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.05
    stale_s: Positive = 120.0


class Endpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An HTTP API and how to log in to it; a secret is named by its variable or file, never written here.

    `ca` is a file of certificates to trust; `tenant` is sent as `tenant_header`. `timeout_s` is the deadline of one
    request, in seconds.
    """

    url: str | None = None
    username: str | None = None
    password_env: str | None = None
    password_file: str | None = None
    token_env: str | None = None
    token_file: str | None = None
    ca: str | None = None
    tenant: str | None = None
    tenant_header: str = "X-Scope-OrgID"
    timeout_s: Positive = 5.0


class Join(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Labels that tell whom a series is about, the most telling first; the first that names a known one counts."""

    rank: tuple[str, ...] = ("rank", "exported_rank", "global_rank")
    host: tuple[str, ...] = (
        "Hostname",
        "hostname",
        "node",
        "host",
        "exported_instance",
        "instance",
        "exported_pod",
        "pod",
    )
    gpu: tuple[str, ...] = ("gpu", "gpu_index", "minor_number")
    uuid: tuple[str, ...] = ("UUID", "uuid", "gpu_uuid")


class Prometheus(Endpoint, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the series are. `train`, `dcgm` and `node` are label matchers of this run; None is by its name.

    `lookback_s` is how far back a better time is looked for, in seconds; `baseline` is the end of a stretch that was
    good, and is looked for where it is None. `window` is a PromQL duration for the growth of counters.
    """

    train: str | None = None
    dcgm: str = ""
    node: str = ""
    window: Window = "10m"
    lookback_s: Positive = 86400.0
    baseline: datetime | None = None
    join: Join = Join()


class Alertmanager(Endpoint, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the alerts are. `match` narrows what is asked for; of that, what is about this run or its hosts counts."""

    match: tuple[str, ...] = ()


class Actions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Command templates of the site. `{host}`, `{hosts}`, `{run}`, `{step}` and `{reason}` are filled in, quoted."""

    exclude: str | None = None
    restart: str | None = None
    stop: str | None = None


class Contacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Who takes over when the answer is to escalate."""

    second_line: str | None = None
    hardware: str | None = None
    data: str | None = None
    numerics: str | None = None


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One training run: its nodes, ranks, paths, thresholds and the site's commands."""

    nodes: str
    name: str = ""
    gpu_hour_usd: Annotated[float, msgspec.Meta(ge=0)] | None = None
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
