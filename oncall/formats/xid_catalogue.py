"""What NVIDIA's Xid and SXid codes mean for a training run, what to do, and where published advice disagrees.

The table `xid_catalogue.json` beside this module holds codes 1-176 and 185, the NVLink5 units of 144-150, and the
NVSwitch codes. Drivers newer than any table are in use, so a code that is not in it is a fact too: `lookup` says None.
"""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Literal, TypeAlias

import msgspec

CauseClass: TypeAlias = Literal["hardware", "driver", "user-app", "thermal", "link", "firmware"]
Severity: TypeAlias = Literal["info", "warn", "job_fatal", "node_fatal"]
Action: TypeAlias = Literal["ignore", "restart_app", "reset_gpu", "drain_node", "rma_check"]
Level: TypeAlias = Literal["soft", "hard", "ask", "decode"]

FIRST_SXID = 10_000
"""NVSwitch codes have five digits, Xids three."""


class XidMeaning(msgspec.Struct, frozen=True, kw_only=True):
    """One Xid code.

    `severity` is the effect on a running training job: `info` none, `warn` watch it, `job_fatal` the job on that GPU
    dies or hangs, `node_fatal` no job can use the GPU until somebody acts. `page` says whether it should wake somebody.
    All of `meaning`, `cause_class`, `severity`, `action` and `page` are None for a code that is reserved without a
    published meaning. `sources` maps a source's name to its advice in its own terms. `levels` is filled where they
    disagree: soft = nothing or restart the job, hard = reset, reboot or inspect, ask = the vendor, decode = by the
    fields of the line.
    """

    code: int
    mnemonic: str | None
    meaning: str | None
    cause_class: CauseClass | None = None
    severity: Severity | None = None
    action: Action | None = None
    page: bool | None = None
    note: str | None = None
    unused: bool = False
    sources: Mapping[str, str] = {}
    levels: Mapping[str, Level] = {}

    @property
    def sources_disagree(self) -> bool:
        """Whether one source would leave the GPU alone where another would not."""
        return bool(self.levels)


class SXidMeaning(msgspec.Struct, frozen=True, kw_only=True):
    """One NVSwitch code; `meaning` is None where only a name is published. The driver's own verdict goes first."""

    code: int
    mnemonic: str
    meaning: str | None
    page: bool
    note: str | None = None
    sources: Mapping[str, str] = {}
    disagree: bool = False


class NvlinkVariant(msgspec.Struct, frozen=True, array_like=True):
    """What NVIDIA's catalogue advises for one status (bits 25:20) and error word of an NVLink5 unit."""

    status: int
    error_status: str
    severity: Literal["fatal", "nonfatal"]
    immediate: str
    follow_up: str
    side: str


class NvlinkUnit(msgspec.Struct, frozen=True):
    """One NVLink5 unit: its number in bits 9:0 before R575 (`v1_bits`), in bits 6:0 since (`v2_bits`)."""

    unit: str
    xid: int
    v1_bits: frozenset[int]
    v2_bits: frozenset[int]
    variants: tuple[NvlinkVariant, ...]

    def variant(self, status: int, error_status: str | None) -> NvlinkVariant | None:
        """The row for a status and an error word in `0x%08x`; None when no row is published."""
        rows = (row for row in self.variants if (row.status, row.error_status) == (status, error_status))
        return next(rows, None)


class _Table(msgspec.Struct, frozen=True):
    schema: Literal["oncall.xid-catalogue/1"]
    sources: Mapping[str, str]
    xid: tuple[XidMeaning, ...]
    nvlink5: tuple[NvlinkUnit, ...]
    recovery_actions: tuple[tuple[int, str], ...]
    sxid_families: tuple[tuple[int, int, str], ...]
    sxid: tuple[SXidMeaning, ...]


@cache
def _table() -> _Table:
    return msgspec.json.decode(resources.files(__package__).joinpath("xid_catalogue.json").read_bytes(), type=_Table)


@cache
def _xids() -> Mapping[int, XidMeaning]:
    return {meaning.code: meaning for meaning in _table().xid}


@cache
def _sxids() -> Mapping[int, SXidMeaning]:
    return {meaning.code: meaning for meaning in _table().sxid}


@cache
def _nvlink_units() -> Mapping[str, NvlinkUnit]:
    return {unit.unit: unit for unit in _table().nvlink5}


def lookup(code: int) -> XidMeaning | None:
    """What an Xid code means; None for a code that no table knows."""
    return _xids().get(code)


def lookup_sxid(code: int) -> SXidMeaning | None:
    """What an NVSwitch code means; None for a code that no table knows, though `sxid_unit` may still place it."""
    return _sxids().get(code)


def sxid_unit(code: int) -> str | None:
    """The part of the switch that a code's range belongs to; None outside every range."""
    return next((unit for first, last, unit in _table().sxid_families if first <= code <= last), None)


def nvlink5_unit(name: str) -> NvlinkUnit | None:
    """The NVLink5 unit that a line of Xid 144-150 names; None for a unit newer than the table."""
    return _nvlink_units().get(name)


def nvlink5_units_from(beginning: str) -> tuple[str, ...]:
    """The NVLink5 units whose names begin so: a line that was cut may name any of them."""
    return tuple(name for name in _nvlink_units() if name.startswith(beginning))


def recovery_action(code: int) -> str | None:
    """The driver's name for the action of an Xid 154, by its number; None for a newer one."""
    return dict(_table().recovery_actions).get(code)


def source_names() -> Mapping[str, str]:
    """What the short names of `XidMeaning.sources` stand for, with version or date."""
    return _table().sources
