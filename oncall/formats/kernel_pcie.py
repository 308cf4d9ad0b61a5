"""PCI Express trouble in the kernel's words: AER reports, downstream port containment, a slot that lost its link.

Wordings of Linux 4.19 to 6.8 (drivers/pci/pcie/{aer,dpc,err}.c, hotplug/pciehp_ctrl.c), which name one fault in three
ways.
"""

import re

from oncall.formats.event import Json
from oncall.formats.kernel_address import device_address
from oncall.formats.kernel_line import Following, Reading, Signature

_DEVICE = r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"
_SEVERITY = "Corrected|Correctable|Uncorrected|Uncorrectable"
_PORT = re.compile(rf"pcieport (?P<port>{_DEVICE}): (?P<text>.*)$")
_REPORT = re.compile(
    rf"(?:AER: )?(?:Multiple )?(?P<severity>{_SEVERITY})"
    r"(?: \((?P<degree>Non-Fatal|Fatal)\))? error (?:message )?received"
    rf"(?:: (?:id=(?P<id>[0-9a-f]{{4}})|(?P<device>{_DEVICE}))| from (?P<source>{_DEVICE}))"
)
_RECOVERY_FAILED = re.compile(r"(?:AER: )?[Dd]evice recovery failed")
_LINK_RESET = re.compile(
    r"(?:AER: )?(?:Root Port|Downstream Port|broadcast|\w+)? ?link has been reset \((?P<result>-?\d+)\)"
)
_DPC = re.compile(
    r"(?:pciehp: )?DPC: containment event, status:(?P<status>0x[0-9a-f]+)(?:[:,]? source:(?P<source>0x[0-9a-f]+))?"
)
_SLOT = re.compile(r"pciehp: Slot\((?P<slot>[^)]{1,20})\): Link (?P<state>Up|Down)")
_UNRECOVERABLE = re.compile(
    rf"(?P<driver>\S+) (?P<device>{_DEVICE}): (?:AER: )?can't recover \(no error_detected callback\)"
)
_BUS_ERROR = re.compile(
    rf"(?P<driver>\S+) (?P<device>{_DEVICE}): (?:AER: )?PCIe Bus Error: severity=(?P<severity>{_SEVERITY})"
    r"(?: \((?P<degree>Non-Fatal|Fatal)\))?, type=(?P<layer>[^,]{1,60}), (?:id=[0-9a-f]{4})?\(?(?P<agent>[^)]{1,60})\)"
)
_STATUS = re.compile(
    r"device \[(?P<vendor_device>[0-9a-f]{4}:[0-9a-f]{4})\] error status/mask=(?P<status>[0-9a-f]+)/(?P<mask>[0-9a-f]+)"
)
_BIT = re.compile(r"\[\s*\d{1,2}\] (?P<name>\S+)")

_LINES_OF_DETAIL = 12
"""A status line, up to eight bits, a TLP header, and a few of another CPU's in between."""


def _degree(severity: str, degree: str | None) -> str:
    """AER's three severities; an uncorrected error without its degree (before 4.x) is only that."""
    return "corrected" if severity.startswith("Correct") else "uncorrected" if degree is None else degree.lower()


def _read_port(message: str, following: Following) -> Reading | None:
    head = _PORT.match(message)
    if head is None:
        return None
    port, text = device_address(head["port"]), head["text"]
    report = _REPORT.match(text)
    if report is not None:
        return _report(port, report)
    dpc = _DPC.match(text)
    if dpc is not None:
        return Reading("dpc", {"port": port, "status": dpc["status"], "source": dpc["source"]})
    slot = _SLOT.match(text)
    if slot is not None:
        return Reading("pcie_hotplug_link", {"port": port, "slot": slot["slot"], "state": slot["state"]})
    reset = _LINK_RESET.match(text)
    if reset is not None:
        return Reading("aer_link_reset", {"port": port, "result": int(reset["result"])})
    return Reading("aer_recovery_failed", {"port": port}) if _RECOVERY_FAILED.match(text) else None


def _report(port: str | None, report: re.Match[str]) -> Reading:
    device = report["device"] or report["source"]
    fields: dict[str, Json] = {
        "port": port,
        "device": None if device is None else device_address(device),
        "severity": _degree(report["severity"], report["degree"]),
    }
    if report["id"] is not None:
        fields["requester_id"] = report["id"]
        fields["device"] = _requester(port, int(report["id"], 16))
    return Reading("aer", fields)


def _requester(port: str | None, requester: int) -> str | None:
    """A PCI requester id is bus (8 bits), device (5), function (3); its domain is the port's."""
    if port is None:
        return None
    domain = port.split(":", 1)[0]
    return f"{domain}:{requester >> 8:02x}:{requester >> 3 & 0x1F:02x}.{requester & 7}"


def _read_bus_error(message: str, following: Following) -> Reading | None:
    head = _BUS_ERROR.match(message)
    if head is None:
        return None
    owner = f"{head['driver']} {head['device']}: "
    fields: dict[str, Json] = {
        "device": device_address(head["device"]),
        "driver": head["driver"],
        "severity": _degree(head["severity"], head["degree"]),
        "layer": head["layer"],
        "agent": head["agent"],
        "vendor_device": None,
        "status": None,
        "mask": None,
    }
    bits: list[Json] = []
    last = 0
    for offset, line in enumerate(following(_LINES_OF_DETAIL), start=1):
        text = line.removeprefix(owner).removeprefix("AER:").strip() if line.startswith(owner) else ""
        status, bit = _STATUS.match(text), _BIT.match(text)
        if status is not None and fields["status"] is None:
            fields.update(status.groupdict())
        elif bit is not None:
            bits.append(bit["name"])
        elif text:
            break
        else:
            continue
        last = offset
    return Reading("aer_detail", {**fields, "bits": bits}, lines_after=last)


def _read_unrecoverable(message: str, _following: Following) -> Reading | None:
    found = _UNRECOVERABLE.match(message)
    return None if found is None else Reading("aer_unrecoverable", {"device": device_address(found["device"])})


SIGNATURES = (
    Signature(b"pcieport ", _read_port),
    Signature(b"PCIe Bus Error: severity=", _read_bus_error),
    Signature(b"can't recover (no error_detected", _read_unrecoverable),
)
