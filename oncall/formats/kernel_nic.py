"""Network adapters in the kernel's words: links that go up and down, cables, heat, failed commands, health.

Wordings of mlx5_core (drivers/net/ethernet/mellanox/mlx5: events.c, en_main.c, cmd.c, health.c), of IPv6 address
set-up, and of the drivers that print `NIC Link is`.
"""

import re
from collections.abc import Callable

from oncall.formats.event import Json
from oncall.formats.kernel_address import device_address
from oncall.formats.kernel_line import Following, Reading, Signature, number

_MLX5 = re.compile(r"mlx5_core (?P<device>[0-9a-fA-F:]{7,13}\.[0-7])(?: (?P<ifname>[^\s:]{1,15}))?: (?P<text>.*)$")
_SOURCE = r"(?:\w+:\d+:\(pid \d+\): )?"
_LINK = re.compile(r"Link (?P<state>up|down)\b")
_MODULE = re.compile(rf"{_SOURCE}Port module event(?:\[(?P<level>\w+)\])?: module (?P<module>\d+), (?P<event>.+?)\s*$")
_SLOT_POWER = re.compile(rf"{_SOURCE}Detected insufficient power on the PCIe slot \((?P<watts>\d+)W\)")
_HEAT = re.compile(rf"{_SOURCE}High temperature on sensors(?: with bit set (?P<sensors>0x[0-9a-f]+(?: 0x[0-9a-f]+)?))?")
_COMMAND = re.compile(
    rf"{_SOURCE}(?P<command>\w+)\((?P<opcode>0x[0-9a-f]+)\) (?:op_mod\(0x[0-9a-f]+\) )?(?:uid\(\d+\) )?failed, "
    r"status (?P<status>[^(]+?)\(0x[0-9a-f]+\), syndrome \((?P<syndrome>0x[0-9a-f]+)\)(?:, err\((?P<err>-?\d+)\))?"
)
_COMMAND_TIMEOUT = re.compile(
    rf"{_SOURCE}(?P<command>\w+)\((?P<opcode>0x[0-9a-f]+)\) timeout\. Will cause a leak of a command resource"
)
_HEALTH = re.compile(
    rf"{_SOURCE}(?P<text>(?:device's health compromised|Health issue observed|Fatal error|handling bad device here|"
    r"health recovery|start handling|synd 0x).*?)\s*$",
    re.IGNORECASE,
)
_READY = re.compile(r"IPv6: ADDRCONF\(NETDEV_CHANGE\): (?P<ifname>\S{1,15}): link becomes ready")
_NIC_LINK = re.compile(
    r"(?P<driver>\w+) (?P<device>[0-9a-f:]{7,13}\.[0-7])(?: (?P<ifname>[^\s:]{1,15}))?: NIC Link is (?P<state>Up|Down)",
    re.IGNORECASE,
)


def _read_mlx5(message: str, _following: Following) -> Reading | None:
    head = _MLX5.match(message)
    if head is None:
        return None
    for pattern, kind, fields in _OF_MLX5:
        found = pattern.match(head["text"])
        if found is not None:
            own = {"ifname": head["ifname"]} if kind == "nic_link" else {}
            return Reading(kind, {"device": device_address(head["device"]), **own, **fields(found)})
    return None


def _module(found: re.Match[str]) -> dict[str, Json]:
    return {"level": found["level"], "module": int(found["module"]), "event": found["event"]}


def _command(found: re.Match[str]) -> dict[str, Json]:
    said = found.groupdict()
    return {
        "command": said["command"],
        "opcode": said["opcode"],
        "status": said.get("status", "timeout"),
        "syndrome": said.get("syndrome"),
        "err": number(said.get("err")),
    }


_OF_MLX5: tuple[tuple[re.Pattern[str], str, Callable[[re.Match[str]], dict[str, Json]]], ...] = (
    (_LINK, "nic_link", lambda found: {"state": found["state"]}),
    (_MODULE, "mlx5_port_module", _module),
    (_SLOT_POWER, "mlx5_slot_power", lambda found: {"watts": int(found["watts"])}),
    (_HEAT, "mlx5_temperature", lambda found: {"sensors": found["sensors"]}),
    (_COMMAND, "mlx5_cmd_error", _command),
    (_COMMAND_TIMEOUT, "mlx5_cmd_error", _command),
    (_HEALTH, "mlx5_health", lambda found: {"text": found["text"]}),
)


def _read_ready(message: str, _following: Following) -> Reading | None:
    found = _READY.match(message)
    return None if found is None else Reading("nic_link", {"device": None, "ifname": found["ifname"], "state": "up"})


def _read_nic_link(message: str, _following: Following) -> Reading | None:
    found = _NIC_LINK.match(message)
    if found is None:
        return None
    device = device_address(found["device"])
    return Reading("nic_link", {"device": device, "ifname": found["ifname"], "state": found["state"].lower()})


SIGNATURES = (
    Signature(b"mlx5_core ", _read_mlx5),
    Signature(b": link becomes ready", _read_ready),
    Signature(b": NIC Link is ", _read_nic_link),
)
