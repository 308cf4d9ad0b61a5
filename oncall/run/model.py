"""One training run as its run file describes it. Every field of the TOML is a field here; there is no other."""

from typing import Annotated, Literal

import msgspec

Positive = Annotated[float, msgspec.Meta(gt=0)]
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Count = Annotated[int, msgspec.Meta(ge=1)]


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
    """How the training processes are told from others, and where py-spy lies on the nodes if not on the PATH."""

    match: str | None = None
    py_spy: str | None = None


class Ranks(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the rank map comes from (relative to the run file), and how many ranks there must be."""

    file: str | None = None
    world_size: Count | None = None


class Thresholds(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """When a job counts as stopped and for how long what came before still counts. Times in seconds.

    A job is stopped when no step ended for `stalled_factor` times its median step time and for `stalled_s`.
    """

    stalled_s: Positive = 90.0
    stalled_factor: Positive = 3.0
    dump_wait_s: Positive = 75.0
    recent_s: Positive = 7200.0
    triage_s: Positive = 120.0


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
    actions: Actions = Actions()
    contacts: Contacts = Contacts()
