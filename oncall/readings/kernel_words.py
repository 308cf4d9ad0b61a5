"""What an event of a kernel log says, in words: of what, where, in which state, and when."""

from collections.abc import Callable, Mapping

from oncall.formats.event import Event
from oncall.formats.kinds import KINDS
from oncall.formats.xid_catalogue import lookup
from oncall.readings.kernel_set import KernelEvent

_TEMPLATES: Mapping[str, str] = {
    "gpu_lost": "the GPU has fallen off the bus",
    "gsp_heartbeat_timeout": "the firmware processor of a GPU shows no life",
    "rm_init_failed": "the driver could not start a GPU ({codes})",
    "mlx5_port_module": "network adapter {device}, port module {module}: {event}",
    "mlx5_slot_power": "network adapter {device}: its PCIe slot gives {watts} W, too little",
    "mlx5_temperature": "network adapter {device} is hot",
    "mlx5_cmd_error": "network adapter {device} refused {command}: {status}",
    "mlx5_health": "network adapter {device}: {text}",
    "aer": "PCIe port {port} received an error report of {device}: {severity}",
    "aer_detail": "PCIe error of {device}: {severity}, {layer}",
    "aer_recovery_failed": "PCIe port {port}: recovery of its devices failed",
    "aer_unrecoverable": "{device} cannot recover from PCIe errors",
    "dpc": "PCIe port {port} cut its device off",
    "pcie_hotplug_link": "PCIe slot {slot} of port {port}: link {state}",
    "edac": "{count} {type} memory errors on {label}: {error}",
    "ghes": "the firmware reports a hardware error: {severity}",
    "memory_failure": "memory page {pfn} ({page}) is bad: {result}",
    "memory_failure_kill": "{process} was killed for a bad memory page {pfn}",
    "cpu_thermal": "CPU {cpu} slows down for heat ({sensor})",
    "thermal_shutdown": "{zone} is so hot that the machine turns itself off",
    "oom_kill": "out of memory: {process} was killed",
    "hung_task": "{process} (pid {pid}) sleeps uninterruptibly for more than {seconds} s",
    "soft_lockup": "CPU {cpu} has not scheduled for {seconds} s, held by {process} (pid {pid})",
    "hard_lockup": "CPU {cpu} takes no interrupts",
    "rcu_stall": "a CPU holds up RCU ({flavour})",
    "segfault": "{process} crashed (segfault)",
    "trap": "{process} crashed ({trap})",
    "nfs_not_responding": "NFS server {server} does not answer ({mode})",
    "lustre_error": "Lustre {target}: {operation} failed (rc {rc})",
    "lustre_lost": "the connection to Lustre {target} is lost",
    "lustre_evicted": "Lustre {target} threw this client out",
}
"""Kind → words with the event's fields; what a line does not tell reads as a question mark."""


class _Fields(dict[str, object]):
    def __missing__(self, _name: str) -> str:
        return "?"


def describe(event: KernelEvent) -> str:
    """`Xid 79 (the GPU is gone from the PCIe bus) on 0000:4f:00 at 02:58:12`."""
    where = f" on {event.pci_address}" if event.pci_address else ""
    when = f" at {event.at:%H:%M:%S}" if event.at else ""
    over = ", over by now" if event.ended else ""
    return f"{said(event.event)}{where}{when}{over}"


def said(event: Event) -> str:
    """What an event says, without where and when: the code and its meaning, or what has happened to which part."""
    own = _OF_CODES.get(event.kind)
    if own is not None:
        return own(event)
    template = _TEMPLATES.get(event.kind)
    told = {name: value for name, value in event.fields.items() if value is not None}
    return template.format_map(_Fields(told)) if template else KINDS[event.kind].means


def _of_xid(event: Event) -> str:
    code = event.number("xid")
    meaning = lookup(code) if code is not None else None
    told = [(meaning.meaning if meaning else None) or "in no table", *_details(event)]
    return f"Xid {code} ({'; '.join(told)})"


def _details(event: Event) -> list[str]:
    """What the line itself tells beyond its code, where that decides what has to be done."""
    decoded, wanted, cause = event.fields.get("nvlink5"), wanted_action(event), event.number("caused_by_xid")
    told = [] if wanted is None else [f"now {wanted}"]
    if cause is not None:
        told.append(f"caused by Xid {cause}")
    if asks_for_reset(event):
        told.append("it needs a reset")
    if isinstance(decoded, dict):
        fatal = decoded.get("fatal")
        verdict = ("fatal" if fatal else "nonfatal") if isinstance(fatal, bool) else None
        number = decoded.get("link")
        link = f"link {number}" if isinstance(number, int) and number >= 0 else None
        injected = "injected by a test" if decoded.get("injected") is True else None
        told += [str(word) for word in (decoded.get("unit"), verdict, link, injected) if word is not None]
    return told


def wanted_action(event: Event) -> str | None:
    """What an Xid 154 says the driver now wants done with the GPU, in the driver's words; None for any other event."""
    recovery = event.fields.get("recovery")
    return str(recovery.get("to_name") or recovery.get("to_code")) if isinstance(recovery, dict) else None


def asks_for_reset(event: Event) -> bool:
    """Whether the line of a contained memory error (Xid 94, 95) asks for a reset, at once or once drained."""
    return event.fields.get("reset_required") is True or event.fields.get("drain_reset") is True


def _of_sxid(event: Event) -> str:
    link = event.number("link")
    told = [event.text("verdict"), None if link is None else f"link {link}", event.text("text")]
    shown = ", ".join(part for part in told if part)
    return f"SXid {event.number('sxid')}" + (f" ({shown})" if shown else "")


def _of_nic(event: Event) -> str:
    names = [name for field in ("ifname", "device") if (name := event.text(field)) is not None]
    return f"network link {' of '.join(names)} went {event.text('state')}"


def _of_mce(event: Event) -> str:
    if event.fields.get("logged") is True:
        return "a machine check was logged"
    grave = "fatal" if event.fields.get("fatal") is True else "corrected or harmless"
    return f"machine check of CPU {event.number('cpu')}, bank {event.number('bank')}: {grave}"


_OF_CODES: Mapping[str, Callable[[Event], str]] = {
    "xid": _of_xid,
    "sxid": _of_sxid,
    "mce": _of_mce,
    "nic_link": _of_nic,
}
