"""What the events of one kernel log amount to: which GPUs are hurt, by what first, whether to wake somebody."""

from collections.abc import Iterable, Mapping, Sequence

from oncall.formats.event import Event, Json
from oncall.formats.kernel_address import gpu_address
from oncall.formats.xid_catalogue import lookup, lookup_sxid

FOLLOWS_ANOTHER = frozenset({43, 45, 154})
"""Codes that report what the driver did about an error, not an error."""

_ALWAYS_PAGE = frozenset(
    {"gpu_lost", "aer_unrecoverable", "aer_recovery_failed", "dpc", "rm_init_failed", "lustre_evicted"}
)


def should_page(event: Event) -> bool | None:
    """Whether one event should wake somebody when it hits a running training job; None when no table can tell.

    A follow-up counts as the Xid it names, an NVLink5 error by its own verdict unless a test injected it, and a
    recovery action when it asks for something.
    """
    fields = event.fields
    if event.kind == "xid":
        return _xid_pages(fields)
    if event.kind == "sxid":
        return _sxid_pages(fields)
    if event.kind in {"aer", "aer_detail"}:
        return fields["severity"] == "fatal"
    if event.kind == "mce":
        return fields.get("fatal") is True
    return event.kind in _ALWAYS_PAGE or (event.kind == "edac" and fields["type"] == "UE")


def _xid_pages(fields: Mapping[str, Json]) -> bool | None:
    decoded, recovery, cause = fields.get("nvlink5"), fields.get("recovery"), fields.get("caused_by_xid")
    if isinstance(decoded, dict) and decoded["injected"]:
        return False
    if isinstance(decoded, dict) and decoded["fatal"] is not None:
        return bool(decoded["fatal"])
    if isinstance(recovery, dict):
        return recovery["to_code"] != 0
    code = fields["xid"] if cause is None else cause
    meaning = lookup(code) if isinstance(code, int) else None
    return None if meaning is None else meaning.page


def _sxid_pages(fields: Mapping[str, Json]) -> bool | None:
    if fields["verdict"] is not None:
        return fields["verdict"] == "Fatal"
    code = fields["sxid"]
    meaning = lookup_sxid(code) if isinstance(code, int) else None
    return None if meaning is None else meaning.page


def first_causes(events: Iterable[Event]) -> dict[str, int]:
    """For each GPU the Xid that came first, or that the first follow-up names; what a test injected does not count."""
    causes: dict[str, int] = {}
    followed: dict[str, int] = {}
    for event in events:
        pci, code = event.fields.get("pci"), _code(event)
        if not isinstance(pci, str) or code is None or _injected(event):
            continue
        named = event.fields.get("caused_by_xid")
        if isinstance(named, int):
            causes.setdefault(pci, named)
        elif code in FOLLOWS_ANOTHER:
            followed.setdefault(pci, code)
        else:
            causes.setdefault(pci, code)
    return {**followed, **causes}


def _code(event: Event) -> int | None:
    """An event's Xid; a loss that the driver told without a number counts as one."""
    code = event.fields.get("xid") if event.kind == "xid" else event.fields.get("implied_xid")
    return code if isinstance(code, int) else None


def summarise(events: Sequence[Event]) -> dict[str, Json]:
    """The whole of one log. `page` is None when nothing surely pages but something is of an unknown kind of error."""
    verdicts = [(event, should_page(event)) for event in events]
    by_gpu: dict[str, list[Json]] = {}
    for event in events:
        pci, code = event.fields.get("pci"), _code(event)
        if isinstance(pci, str) and code is not None and code not in by_gpu.setdefault(pci, []):
            by_gpu[pci].append(code)
    pages = any(verdict for _, verdict in verdicts)
    unknown = any(verdict is None for _, verdict in verdicts)
    xids = [event for event in events if event.kind == "xid"]
    gpus = {str(event.fields["device"]) for event in events if event.fields.get("driver") == "nvidia"}
    return {
        "xid_lines": len(xids),
        "sxid_events": sum(event.kind == "sxid" for event in events),
        "distinct_gpus": list(by_gpu),
        "by_gpu": dict(by_gpu),
        "root_causes": dict(first_causes(events)),
        "page": True if pages else None if unknown else False,
        "page_gpus": _distinct(_gpu(event, gpus) for event, verdict in verdicts if verdict),
        "do_not_page_lines": [event.first_line for event in xids if _injected(event)],
        "victims": _distinct(event.fields.get("process") for event in xids),
        "final_recovery_action": _last_actions(xids),
        "flap": _flaps(events),
    }


def _gpu(event: Event, gpus: set[str]) -> Json:
    """The GPU that an event is about; PCIe's own reports name devices, of which those of the nvidia driver are GPUs."""
    device = event.fields.get("device")
    if isinstance(device, str) and device in gpus:
        return gpu_address(device)
    return None if event.kind == "sxid" else event.fields.get("pci")


def _injected(event: Event) -> bool:
    decoded = event.fields.get("nvlink5")
    return isinstance(decoded, dict) and decoded["injected"] is True


def _distinct(values: Iterable[Json]) -> list[Json]:
    return list(dict.fromkeys(value for value in values if isinstance(value, str)))


def _last_actions(xids: Iterable[Event]) -> dict[str, Json]:
    actions: dict[str, Json] = {}
    for event in xids:
        recovery = event.fields.get("recovery")
        if isinstance(recovery, dict):
            actions[str(event.fields["pci"])] = recovery["to_name"]
    return actions


def _flaps(events: Iterable[Event]) -> dict[str, Json]:
    """How often each interface went down and came back."""
    down: set[str] = set()
    flaps: dict[str, int] = {}
    for event in events:
        interface = event.fields.get("ifname")
        if event.kind != "nic_link" or not isinstance(interface, str):
            continue
        if event.fields["state"] == "down":
            down.add(interface)
        elif interface in down:
            down.discard(interface)
            flaps[interface] = flaps.get(interface, 0) + 1
    return dict(flaps)
