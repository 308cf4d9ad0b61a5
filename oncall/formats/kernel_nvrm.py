"""What the NVIDIA kernel module says besides Xids: lost GPUs, their UUIDs, asserts, GSP trouble, a failed start."""

import re
from collections.abc import Callable

from oncall.formats.event import Json
from oncall.formats.kernel_address import gpu_address
from oncall.formats.kernel_line import Following, Reading, Signature, number
from oncall.formats.kernel_xid import read_xid

_PCI = r"(?:PCI:)?(?P<pci>[0-9A-Fa-f:.]{5,20}?)"
_UUID = re.compile(rf"NVRM: GPU at {_PCI}: GPU-(?P<uuid>[0-9A-Fa-f-]{{36}})\s*$")
_SERIAL = re.compile(r"NVRM: GPU Board Serial Number: (?P<serial>\S{1,40})")
_LOST = re.compile(rf"NVRM: GPU {_PCI}: GPU has fallen off the bus")
_LOST_OF_THREE = re.compile(rf"NVRM: The NVIDIA GPU {_PCI}\s*$")
_LOST_PCI_ID = re.compile(r"NVRM: \(PCI ID: (?P<pci_id>[0-9a-f]{4}:[0-9a-f]{4})\) installed in this system has")
_LOST_END = re.compile(r"NVRM: fallen off the bus")
_INIT_FAILED = re.compile(rf"NVRM: (?:GPU {_PCI}: )?(?:rm|Rm)InitAdapter failed!(?: \((?P<codes>[^)]{{1,80}})\))?")
_RATE_LIMIT = re.compile(
    rf"NVRM: Rate limiting GSP RPC error prints for GPU at {_PCI} \(printing 1 of every (?P<every>\d+)\)"
)
_HEARTBEAT = re.compile(r"NVRM: (?:GPU(?P<gpu>\d+) )?_kgsp\w+: .{0,40}?heartbeat timed out", re.IGNORECASE)
_LOADED = re.compile(
    r"NVRM: loading NVIDIA UNIX (?P<flavour>.{0,40}?)Kernel Module\b.*?\s(?P<version>\d+\.\d+(?:\.\d+)?)\s"
)
_ASSERT = re.compile(
    r"NVRM: .{0,200}?[Aa]ssert(?:ion)? failed: (?:.{0,200}?\[(?P<status>NV_ERR_\w+)\] \((?P<code>0x[0-9a-fA-F]+)\) "
    r"returned from )?(?P<expr>.{1,400}?) @ (?P<src>[\w./-]+):(?P<line>\d+)"
)
_PEERMEM = re.compile(r"nvidia-peermem \S{1,80} ERROR detected invalid context")

_LINES_OF_LOST = 3


def _read_nvrm(message: str, following: Following) -> Reading | None:
    if message.startswith("NVRM: Xid ("):
        return read_xid(message, following)
    if message.startswith("NVRM: The NVIDIA GPU "):
        return _lost_in_three_lines(message, following)
    for pattern, build in _ONE_LINE:
        found = pattern.match(message)
        if found is not None:
            return build(found)
    return None


def _lost_in_three_lines(message: str, following: Following) -> Reading | None:
    """The kernel prints this sentence in three pieces, between which other lines may come."""
    head = _LOST_OF_THREE.match(message)
    if head is None:
        return None
    pci_id: str | None = None
    for offset, line in enumerate(following(2 * _LINES_OF_LOST), start=1):
        id_line = _LOST_PCI_ID.match(line)
        if id_line is not None:
            pci_id = id_line["pci_id"]
        elif _LOST_END.match(line):
            return Reading("gpu_lost", {"pci": gpu_address(head["pci"]), "pci_id": pci_id}, lines_after=offset)
    return None


def _uuid(found: re.Match[str]) -> Reading:
    return Reading("gpu_uuid_map", {"pci": gpu_address(found["pci"]), "uuid": f"GPU-{found['uuid'].lower()}"})


def _lost(found: re.Match[str]) -> Reading:
    return Reading("gpu_lost", {"pci": gpu_address(found["pci"])})


def _init_failed(found: re.Match[str]) -> Reading:
    """Of a GPU that could not even be attached the line names no address."""
    pci = None if found["pci"] is None else gpu_address(found["pci"])
    return Reading("rm_init_failed", {"pci": pci, "codes": found["codes"]})


def _rate_limit(found: re.Match[str]) -> Reading:
    return Reading("gsp_rate_limit", {"pci": gpu_address(found["pci"]), "one_of_every": int(found["every"])})


def _assert(found: re.Match[str]) -> Reading:
    fields: dict[str, Json] = {
        "expr": found["expr"],
        "status": found["status"],
        "status_code": found["code"],
        "src_file": found["src"],
        "src_line": int(found["line"]),
    }
    return Reading("nvrm_assert", fields)


_ONE_LINE: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Reading]], ...] = (
    (_UUID, _uuid),
    (_SERIAL, lambda found: Reading("gpu_serial", {"pci": None, "serial": found["serial"]})),
    (_LOST, _lost),
    (_INIT_FAILED, _init_failed),
    (_RATE_LIMIT, _rate_limit),
    (_HEARTBEAT, lambda found: Reading("gsp_heartbeat_timeout", {"gsp_gpu_index": number(found["gpu"])})),
    (
        _LOADED,
        lambda found: Reading(
            "driver_loaded", {"version": found["version"], "open_module": "Open" in found["flavour"]}
        ),
    ),
    (_ASSERT, _assert),
)


def _read_peermem(message: str, _following: Following) -> Reading | None:
    return Reading("peermem_invalid_context", {}) if _PEERMEM.match(message) else None


SIGNATURES = (
    Signature(b"NVRM: ", _read_nvrm),
    Signature(b"nvidia-peermem nv_", _read_peermem),
)
