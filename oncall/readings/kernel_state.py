"""Which lines of a kernel log tell a state that a later line ends: a link, a server, what the driver wants of a GPU?"""

from collections.abc import Mapping

from oncall.formats.event import Event, Json

Subject = tuple[str, Json]
"""What has the state: its family and the name of the link, server, target or GPU."""

_NAMED_BY: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "nic_link": ("link", ("ifname", "device")),
    "pcie_hotplug_link": ("slot", ("slot",)),
    "mlx5_port_module": ("module", ("device",)),
    "nfs_not_responding": ("nfs", ("server",)),
    "nfs_ok": ("nfs", ("server",)),
    "lustre_error": ("lustre", ("target",)),
    "lustre_lost": ("lustre", ("target",)),
    "lustre_evicted": ("lustre", ("target",)),
    "lustre_restored": ("lustre", ("target",)),
}
_PLAIN = frozenset({"gpu_uuid_map", "gpu_serial", "driver_loaded", "oom_invoked", "oom_kill_constraint"})
"""What only names things, or stands beside the event that matters."""
_SOUND = frozenset({"nfs_ok", "lustre_restored"})


def state_of(event: Event) -> tuple[Subject | None, bool]:
    """Whose state an event tells, and whether it is the sound one; (None, False) for one that tells no state."""
    recovery = event.fields.get("recovery")
    if isinstance(recovery, dict):
        return ("recovery", event.text("pci")), recovery.get("to_code") == 0
    family, names = _NAMED_BY.get(event.kind, ("", ()))
    name = next((value for field in names if (value := event.text(field)) is not None), None)
    return ((family, name), _sound(event)) if name is not None else (None, False)


def tells_of_trouble(event: Event) -> bool:
    """Whether an event says that something is amiss, be it mild: not the name of a GPU, or that a link is up."""
    return event.kind not in _PLAIN and not state_of(event)[1]


def _sound(event: Event) -> bool:
    state = (event.text("state") or event.text("event") or "").lower()
    return event.kind in _SOUND or state in {"up", "cable plugged"}
