"""NVRM's Xid line: which GPU, which code, whose process, and what the text of each code tells.

Grammar of the NVIDIA open kernel modules (R460-R620): `nv_vprintf` heads, `krcErrorLog` and the engines' own texts.
"""

import re
from collections.abc import Callable, Mapping

from oncall.formats.event import Json
from oncall.formats.kernel_address import gpu_address
from oncall.formats.kernel_line import Following, Reading, Signature, number
from oncall.formats.kernel_nvlink5 import nvlink5_fields
from oncall.formats.xid_catalogue import lookup

_HEAD = re.compile(
    r"(?:NVRM|nvidia_dev_xid): Xid \((?P<device>(?:PCI:)?[0-9A-Fa-f:.]{5,20})"
    r"(?: GPU-I:(?P<gpu_instance>\d{1,4})(?: GPU-CI:(?P<compute_instance>\d{1,4}))?)?\): "
    r"(?P<code>\d{1,6})(?P<rest>(?:,.*)?)$"
)
# The name is a task's comm: 15 bytes, four times that where dmesg has escaped each of them.
_PROCESS = re.compile(r",\s+pid='?(?P<pid>\d{1,10}|<unknown>)'?(?:, name=(?P<name>.{0,60}?)(?=, |$))?")
_CAUSE = re.compile(r" caused by previous Xid (\d{1,6})\s*$")

_CHANNEL = re.compile(r"(?:Ch|Channel) ([0-9a-fA-F]{8})\b")
_SM = re.compile(r"Graphics SM (?P<scope>Warp|Global) Exception on \(GPC (\d+), TPC (\d+), SM (\d+)\): (.+)")
_ESR = re.compile(r"(0x[0-9a-f]+)=(0x[0-9a-f]+)")
_MMU = re.compile(
    r"MMU Fault: ENGINE (\S+)(?: GPC(\d+))? (\S+) faulted @ (0x[0-9a-f_]+)\. Fault is of type (\S+) (\S+)"
)
_FRAMEBUFFER = re.compile(
    r"in the framebuffer at (?:physAddr (?P<address>0x[0-9a-f]+) )?"
    r"partition (?P<partition>\d+), subpartition (?P<sub>\d+)"
)
_ROW = re.compile(r"Row Remapper(?: Error)?: (?:New row )?\((0x[0-9a-f]+)\)")
_LINK = re.compile(r"\blink (\d+)\s?\(([^)]*)\)?")
_CONTAINMENT = re.compile(
    r"(?P<containment>Contained|Uncontained): (?P<unit>[^(]+?) \((?P<codes>[^)]*)\)\."
    r"(?: physAddr: (?P<address>0x[0-9a-f]+))? RST: (?P<reset>Yes|No), D-RST: (?P<drain>Yes|No)"
)
_CTXSW = re.compile(r"errorString (?P<error>.+?), Info (?P<info>0x[0-9a-f]+)")
_RPC = re.compile(
    r"Timeout after (?P<timeout>\d+)s of waiting for RPC response from GPU(?P<gpu>\d+) GSP! "
    r"Expected function (?P<function_no>\d+) \((?P<function>\w+)\)(?: sequence (?P<sequence>\d+))?"
)
_GSP_TASK = re.compile(r"GSP task timeout @ pc:(?P<pc>0x[0-9a-f]+), task: (?P<task>\d+)")
_ECC_COUNT = re.compile(r"\b(DRAM|LTC|MMU|PCIE):\s?(-?\d+)")
_RECOVERY = re.compile(
    r"GPU recovery action changed from (0x[0-9a-f]+) \(([^)]*)\) to (0x[0-9a-f]+) \(([^)]*)\)?", re.IGNORECASE
)


def read_xid(message: str, _following: Following) -> Reading | None:
    """The Xid that a driver line or tracepoint reports; None for any other text, whatever it mentions."""
    head = _HEAD.match(message)
    pci = None if head is None else gpu_address(head["device"])
    if head is None or pci is None:
        return None
    code = int(head["code"])
    rest = head["rest"]
    process = _PROCESS.match(rest)
    text = rest[process.end() :] if process is not None else rest
    text = text.removeprefix(",").strip()
    cause = _CAUSE.search(text)
    return Reading(
        "xid",
        {
            "xid": code,
            "known": lookup(code) is not None,
            "pci": pci,
            "gpu_instance": number(head["gpu_instance"]),
            "compute_instance": number(head["compute_instance"]),
            "pid": None if process is None else _pid(process["pid"]),
            "process": None if process is None else _name(process["name"]),
            "text": text or None,
            "caused_by_xid": None if cause is None else int(cause[1]),
            **_detail(code, text),
        },
    )


def _pid(text: str) -> int | None:
    """NVRM prints 0 where the error came from no process, as it does `<unknown>`."""
    return int(text) or None if text.isdigit() else None


def _name(text: str | None) -> str | None:
    return None if not text or text == "<unknown>" else text


def _detail(code: int, text: str) -> dict[str, Json]:
    fields: dict[str, Json] = {}
    channel = _CHANNEL.search(text)
    if channel is not None:
        fields["channel"] = channel[1]
    fields.update(_DETAILS.get(code, _nothing)(text))
    return fields


def _nothing(_text: str) -> dict[str, Json]:
    return {}


def _exception(text: str) -> dict[str, Json]:
    found = _SM.search(text)
    if found is not None:
        gpc, tpc, sm = (int(found[i]) for i in (2, 3, 4))
        return {"sm": {"gpc": gpc, "tpc": tpc, "sm": sm, "error": found[5]}, "sm_scope": found["scope"]}
    registers = _ESR.findall(text)
    return {"esr": dict(registers)} if registers else {}


def _page_fault(text: str) -> dict[str, Json]:
    found = _MMU.search(text)
    if found is None:
        return {}
    engine, gpc, client, address, fault, access = found.groups()
    return {
        "mmu": {
            "engine": engine,
            "gpc": number(gpc),
            "client": client,
            "address": address,
            "fault": fault,
            "access": access,
        }
    }


def _double_bit(text: str) -> dict[str, Json]:
    found = _FRAMEBUFFER.search(text)
    if found is None:
        return {}
    return {
        "phys_addr": found["address"],
        "partition": int(found["partition"]),
        "subpartition": int(found["sub"]),
    }


def _row_remap(text: str) -> dict[str, Json]:
    found = _ROW.search(text)
    return {"row_address": None if found is None else found[1]}


def _link(text: str) -> dict[str, Json]:
    found = _LINK.search(text)
    if found is None:
        return {}
    return {"link": int(found[1]), "registers": [word.strip() for word in found[2].split(",") if word.strip()]}


def _containment(text: str) -> dict[str, Json]:
    found = _CONTAINMENT.search(text)
    if found is None:
        return {}
    return {
        "containment": found["containment"],
        "unit": found["unit"],
        "unit_codes": [word.strip() for word in found["codes"].split(",") if word.strip()],
        "phys_addr": found["address"],
        "reset_required": found["reset"] == "Yes",
        "drain_reset": found["drain"] == "Yes",
    }


def _context_switch(text: str) -> dict[str, Json]:
    found = _CTXSW.search(text)
    return {} if found is None else {"error_string": found["error"], "info": found["info"]}


def _rpc_timeout(text: str) -> dict[str, Json]:
    found = _RPC.search(text)
    if found is None:
        return {}
    return {
        "gsp_gpu_index": int(found["gpu"]),
        "timeout_s": int(found["timeout"]),
        "function_no": int(found["function_no"]),
        "function": found["function"],
        "sequence": number(found["sequence"]),
    }


def _gsp_task(text: str) -> dict[str, Json]:
    found = _GSP_TASK.search(text)
    return {} if found is None else {"gsp_pc": found["pc"], "gsp_task": int(found["task"])}


def _escaped_ecc(text: str) -> dict[str, Json]:
    counts: dict[str, Json] = {unit: int(count) for unit, count in _ECC_COUNT.findall(text)}
    return {"ecc_counts": counts} if counts else {}


def _recovery(text: str) -> dict[str, Json]:
    found = _RECOVERY.search(text)
    if found is None:
        return {}
    old, old_name, new, new_name = found.groups()
    return {"recovery": {"from_code": number(old), "from_name": old_name, "to_code": number(new), "to_name": new_name}}


_DETAILS: Mapping[int, Callable[[str], dict[str, Json]]] = {
    13: _exception,
    31: _page_fault,
    48: _double_bit,
    63: _row_remap,
    64: _row_remap,
    74: _link,
    94: _containment,
    95: _containment,
    109: _context_switch,
    119: _rpc_timeout,
    120: _gsp_task,
    136: _link,
    140: _escaped_ecc,
    154: _recovery,
    **dict.fromkeys(range(144, 151), nvlink5_fields),
}

SIGNATURES = (Signature(b"nvidia_dev_xid: Xid (", read_xid),)
