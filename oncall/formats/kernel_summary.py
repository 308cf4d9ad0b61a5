"""What the events of one kernel log amount to: which GPUs are hurt, by what first, whether to wake somebody."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise

from oncall.formats.event import Event, Json
from oncall.formats.kernel_address import gpu_address
from oncall.formats.xid_catalogue import lookup, lookup_sxid

FOLLOWS_ANOTHER = frozenset({43, 45, 154})
"""Codes that report what the driver did about an error, not an error."""

_QUIET_S = 600.0

_ALWAYS_PAGE = frozenset(
    {
        *("gpu_lost", "rm_init_failed", "aer_unrecoverable", "aer_recovery_failed", "dpc", "lustre_evicted"),
        "thermal_shutdown",
    }
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
    """For each GPU the Xid that came first: an error, or what the first follow-up names as its cause.

    A follow-up without one, or a code that has no effect on a job, stands only where the GPU has nothing else. What a
    test injected does not count.
    """
    causes: dict[str, int] = {}
    minor: dict[str, int] = {}
    for event in events:
        pci, code, named = event.text("pci"), _code(event), event.number("caused_by_xid")
        if pci is None or code is None or _injected(event):
            continue
        first = causes if named is not None or not _minor(code) else minor
        first.setdefault(pci, code if named is None else named)
    return {**minor, **causes}


def _minor(code: int) -> bool:
    meaning = lookup(code)
    return code in FOLLOWS_ANOTHER or (meaning is not None and meaning.severity == "info")


def _code(event: Event) -> int | None:
    """An event's Xid; a loss that the driver told without a number counts as one."""
    code = event.fields.get("xid") if event.kind == "xid" else event.fields.get("implied_xid")
    return code if isinstance(code, int) else None


def summarise(events: Sequence[Event]) -> dict[str, Json]:
    """The whole of one log.

    `page` is None when nothing surely pages but something is of an unknown kind. `incidents` counts bursts of GPU
    errors with ten quiet minutes between them, None where lines hold no time. `gpu` (its UUID if the log tells it),
    `root` and `action` stand only where one GPU is hurt; `root` names the place where an NVSwitch is hurt too.
    """
    xids = [event for event in events if event.kind == "xid"]
    gpus = {str(event.fields["device"]) for event in events if event.text("driver") == "nvidia"}
    by_gpu = _codes_by_gpu(events)
    causes = first_causes(events)
    return {
        "incidents": _bursts(events),
        "xid_lines": len(xids),
        "sxid_events": sum(event.kind == "sxid" for event in events),
        "distinct_gpus": list(by_gpu),
        "by_gpu": dict(by_gpu),
        "root_causes": dict(causes),
        **_pages(events, gpus),
        "do_not_page": [f"injected line {event.first_line}" for event in xids if _injected(event)],
        "victims": _distinct(event.text("process") for event in xids),
        "final_recovery_action": _last_actions(xids),
        "decode": _decoded(xids),
        "flap": _flaps(events),
        **_only_gpu(events, causes, gpus),
    }


def _codes_by_gpu(events: Iterable[Event]) -> dict[str, list[Json]]:
    by_gpu: dict[str, list[Json]] = {}
    for event in events:
        pci, code = event.text("pci"), _code(event)
        if pci is not None and code is not None and code not in by_gpu.setdefault(pci, []):
            by_gpu[pci].append(code)
    return by_gpu


def _pages(events: Iterable[Event], gpus: set[str]) -> dict[str, Json]:
    verdicts = [(event, should_page(event)) for event in events]
    unknown = any(verdict is None for _, verdict in verdicts)
    return {
        "page": True if any(verdict for _, verdict in verdicts) else None if unknown else False,
        "page_gpus": _distinct(_gpu(event, gpus) for event, verdict in verdicts if verdict),
    }


def _bursts(events: Sequence[Event]) -> int | None:
    """Lines are taken in their order; a clock that goes back, as at a boot, ends a burst too."""
    times = [_seconds(event) for event in events if _code(event) is not None or event.kind == "sxid"]
    if None in times:
        return None
    known = [time for time in times if time is not None]
    apart = sum(not 0 <= later - earlier + 1 < _QUIET_S for earlier, later in pairwise(known))
    return apart + 1 if known else 0


def _seconds(event: Event) -> float | None:
    """Seconds on whatever clock the lines of one log share; only differences mean something."""
    uptime_s, ts = event.fields.get("uptime_s"), event.text("ts")
    if isinstance(uptime_s, float):
        return uptime_s
    if ts is None:
        return None
    stamp = ts if ts[4:5] == "-" else f"2000-{ts}"
    try:
        return datetime.fromisoformat(stamp).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _only_gpu(events: Sequence[Event], causes: Mapping[str, int], gpus: set[str]) -> dict[str, Json]:
    hurt = list(causes) or [address for device in sorted(gpus) if (address := gpu_address(device)) is not None]
    if len(hurt) != 1:
        return {}
    uuid = next((event.text("uuid") for event in events if event.text("pci") == hurt[0] and event.text("uuid")), None)
    code = causes.get(hurt[0])
    meaning = None if code is None else lookup(code)
    kind = "in no table" if meaning is None else meaning.cause_class or "no meaning published"
    place = any(event.kind == "sxid" for event in events)
    return {
        "gpu": uuid or hurt[0],
        "root": None if code is None else f"Xid {code} on {hurt[0]}" if place else f"{code} ({kind})",
        "action": None if meaning is None else meaning.action,
    }


def _decoded(xids: Iterable[Event]) -> dict[str, Json]:
    """What each NVLink5 interrupt word says by itself."""
    return {
        str(shown["intr_info"]): {name: decoded[name] for name in ("layout", "unit", "link", "status")}
        for event in xids
        if isinstance(shown := event.fields.get("nvlink5"), dict)
        and isinstance(decoded := event.fields.get("nvlink5_decode"), dict)
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
