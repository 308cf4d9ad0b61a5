"""What part an event can play in an incident, and which parts can lead to which, on which hosts."""

from collections.abc import Callable, Mapping
from enum import Enum

from oncall.formats.event import Event
from oncall.formats.kernel_summary import FOLLOWS_ANOTHER, should_page
from oncall.formats.xid_catalogue import XidMeaning, lookup


class Part(Enum):
    """The part of an event, the likelier causes first.

    FAULT: a GPU, its driver or firmware, PCIe, memory or CPU of a host. LINK: NVLink, NVSwitch, network port.
    STORAGE: a file system that does not answer. JOB: the program's own error, or its death. STALL: a task that stands
    still. COLLECTIVE: a rank that waited in vain, or the launcher's word that ranks ended. FOLLOW_UP: what the system
    did about another event.
    """

    FAULT = 0
    LINK = 1
    STORAGE = 2
    JOB = 3
    STALL = 4
    COLLECTIVE = 5
    FOLLOW_UP = 6


class Reach(Enum):
    """How far a cause's effect goes: the same host, or any host of the run."""

    HOST = "host"
    RUN = "run"


LEADS_TO: Mapping[Part, Mapping[Part, Reach]] = {
    Part.FAULT: {
        Part.FAULT: Reach.HOST,
        Part.LINK: Reach.RUN,
        Part.JOB: Reach.HOST,
        Part.STALL: Reach.HOST,
        Part.COLLECTIVE: Reach.RUN,
        Part.FOLLOW_UP: Reach.RUN,
    },
    Part.LINK: {
        Part.LINK: Reach.RUN,
        Part.JOB: Reach.RUN,
        Part.STALL: Reach.HOST,
        Part.COLLECTIVE: Reach.RUN,
        Part.FOLLOW_UP: Reach.RUN,
    },
    Part.STORAGE: {
        Part.STORAGE: Reach.RUN,
        Part.STALL: Reach.RUN,
        Part.COLLECTIVE: Reach.RUN,
        Part.FOLLOW_UP: Reach.RUN,
    },
    Part.JOB: {Part.JOB: Reach.RUN, Part.STALL: Reach.HOST, Part.COLLECTIVE: Reach.RUN, Part.FOLLOW_UP: Reach.RUN},
    Part.STALL: {Part.STALL: Reach.RUN, Part.COLLECTIVE: Reach.RUN, Part.FOLLOW_UP: Reach.RUN},
    Part.COLLECTIVE: {Part.COLLECTIVE: Reach.RUN, Part.FOLLOW_UP: Reach.RUN},
    Part.FOLLOW_UP: {Part.FOLLOW_UP: Reach.RUN},
}
"""A GPU that dies on one host breaks links and starves ranks on all, but breaks no GPU and no program elsewhere."""

_PARTS: Mapping[str, Part] = {
    **dict.fromkeys(
        (
            "gpu_lost",
            "gsp_heartbeat_timeout",
            "rm_init_failed",
            "aer",
            "aer_detail",
            "aer_unrecoverable",
            "aer_recovery_failed",
            "dpc",
            "pcie_hotplug_link",
            "mce",
            "edac",
            "ghes",
            "memory_failure",
            "memory_failure_kill",
            "soft_lockup",
            "hard_lockup",
            "rcu_stall",
            "mlx5_health",
            "thermal_shutdown",
        ),
        Part.FAULT,
    ),
    **dict.fromkeys(("sxid", "nic_link", "mlx5_port_module", "nccl_ib_async_event"), Part.LINK),
    **dict.fromkeys(("nfs_not_responding", "lustre_error", "lustre_lost", "lustre_evicted"), Part.STORAGE),
    **dict.fromkeys(("oom_kill", "segfault", "trap"), Part.JOB),
    "hung_task": Part.STALL,
    "gsp_rate_limit": Part.FOLLOW_UP,
    **dict.fromkeys(
        (
            "nccl_timeout",
            "timeout_at_work",
            "watchdog_failure",
            "watchdog_terminated",
            "heartbeat_timeout",
            "heartbeat_stuck",
            "process_terminate",
            "process_takedown",
            "nccl_error",
            "nccl_async_error",
            "nccl_ib_error",
            "nccl_socket_error",
            "elastic_worker_failed",
            "elastic_failure_summary",
            "elastic_death_signal",
            "elastic_signal_exception",
            "elastic_dstate_stuck",
            "slurm_task_exit",
        ),
        Part.COLLECTIVE,
    ),
}


_ONLY_IF: Mapping[str, Callable[[Event], bool]] = {
    "aer": lambda event: event.text("severity") != "corrected",
    "aer_detail": lambda event: event.text("severity") != "corrected",
    "mce": lambda event: event.fields.get("fatal") is True,
    "edac": lambda event: event.text("type") == "UE",
    "ghes": lambda event: event.text("severity") in {"fatal", "recoverable"},
    "pcie_hotplug_link": lambda event: event.text("state") == "Down",
    "nic_link": lambda event: event.text("state") == "down",
    "mlx5_port_module": lambda event: (event.text("event") or "").lower() != "cable plugged",
    "mlx5_health": lambda event: "recovery succe" not in (event.text("text") or "").lower(),
    "sxid": lambda event: should_page(event) is not False,
}
"""Of these kinds only some are trouble; the others are of a part that works, or that puts itself right."""


TROUBLE = frozenset({Part.FAULT, Part.LINK, Part.STORAGE, Part.STALL})
"""What can stop a job by itself, or tells of one that stands."""


def part_of(event: Event) -> Part | None:
    """The part an event can play; None for one that only informs, such as a corrected error or a test's injection."""
    if event.kind == "xid":
        return _part_of_xid(event)
    counts = _ONLY_IF.get(event.kind)
    return _PARTS.get(event.kind) if counts is None or counts(event) else None


def _part_of_xid(event: Event) -> Part | None:
    """An Xid that no table knows may be a cause; one without effect on a job, by its line or its code, informs only."""
    decoded, code = event.fields.get("nvlink5"), event.number("xid")
    if isinstance(decoded, dict) and (decoded.get("injected") is True or decoded.get("fatal") is False):
        return None
    meaning: XidMeaning | None = None if code is None else lookup(code)
    if meaning is None or meaning.cause_class is None:
        return Part.FAULT
    if code in FOLLOWS_ANOTHER:
        return Part.FOLLOW_UP
    if meaning.severity == "info" or (meaning.severity == "warn" and not meaning.page):
        return None
    return {"user-app": Part.JOB, "link": Part.LINK}.get(meaning.cause_class, Part.FAULT)
