"""Network adapters in the kernel's words: links that go up and down, cables, heat, failed commands, health.

Wordings of mlx5_core (drivers/net/ethernet/mellanox/mlx5: events.c, en_main.c, cmd.c, health.c), of IPv6 address
set-up, and of the drivers that print `NIC Link is`.
"""

import re

from oncall.formats.event import Json
from oncall.formats.kernel_address import device_address
from oncall.formats.kernel_line import Following, Reading, Signature, number

_MLX5 = re.compile(r"mlx5_core (?P<device>[0-9a-f:]{7,13}\.[0-7])(?: (?P<ifname>[^\s:]{1,15}))?: (?P<text>.*)$")
_SOURCE = r"(?:\w+:\d+:\(pid \d+\): )?"
_LINK = re.compile(r"Link (?P<state>up|down)\b")
_MODULE = re.compile(rf"{_SOURCE}Port module event(?:\[(?P<level>\w+)\])?: module (?P<module>\d+), (?P<event>.+?)\s*$")
_SLOT_POWER = re.compile(rf"{_SOURCE}Detected insufficient power on the PCIe slot \((?P<watts>\d+)W\)")
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
    device, text = device_address(head["device"]), head["text"]
    link = _LINK.match(text)
    if link is not None:
        return Reading("nic_link", {"device": device, "ifname": head["ifname"], "state": link["state"]})
    module = _MODULE.match(text)
    if module is not None:
        fields: dict[str, Json] = {"level": module["level"], "module": int(module["module"]), "event": module["event"]}
        return Reading("mlx5_port_module", {"device": device, **fields})
    power = _SLOT_POWER.match(text)
    if power is not None:
        return Reading("mlx5_slot_power", {"device": device, "watts": int(power["watts"])})
    command = _COMMAND.match(text) or _COMMAND_TIMEOUT.match(text)
    if command is not None:
        return Reading("mlx5_cmd_error", {"device": device, **_command(command)})
    health = _HEALTH.match(text)
    return None if health is None else Reading("mlx5_health", {"device": device, "text": health["text"]})


def _command(found: re.Match[str]) -> dict[str, Json]:
    said = found.groupdict()
    return {
        "command": said["command"],
        "opcode": said["opcode"],
        "status": said.get("status", "timeout"),
        "syndrome": said.get("syndrome"),
        "err": number(said.get("err")),
    }


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
