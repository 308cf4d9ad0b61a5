"""What `nvidia-smi -q -x` and `nvidia-smi nvlink -e` say of each GPU's health.

Tags as printed by the drivers of R450 to R580: the reasons that hold the clocks down were called throttle reasons
before R535, and each GPU's memory errors are told as rows remapped since Ampere, as pages retired before.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from xml.etree.ElementTree import Element, ParseError, fromstring

from oncall.formats.kernel_address import gpu_address
from oncall.run.numbers import whole

MAX_BYTES = 16 * 1024 * 1024
_REASON_PREFIXES = ("clocks_event_reason_", "clocks_throttle_reason_")
_LINK_GPU = re.compile(r"GPU \d+: .*\(UUID: (?P<uuid>GPU-[0-9a-f-]+)\)")
_LINK_COUNT = re.compile(r"\s*Link (?P<link>\d+): (?P<what>[A-Za-z0-9 ()]+?) ?Errors?: (?P<count>\d+)")


@dataclass(frozen=True, slots=True)
class GpuHealth:
    """One GPU as the driver describes it; what it does not tell is None.

    `held_down_by` names the active reasons that hold the clocks down, such as `hw_thermal_slowdown`. Clocks in MHz,
    temperature in °C. `uncorrected` counts memory errors since the driver was loaded. `remap_pending` and
    `remap_failed` are of remapped rows, or of retired pages before Ampere.
    """

    uuid: str | None
    pci_address: str | None
    held_down_by: tuple[str, ...]
    sm_clock_mhz: int | None
    max_sm_clock_mhz: int | None
    temperature_c: int | None
    uncorrected: int | None
    remap_pending: bool | None
    remap_failed: bool | None


def read_query(data: bytes) -> tuple[GpuHealth, ...] | None:
    """The GPUs of one `nvidia-smi -q -x`; None where the output is no such document, or declares entities."""
    if len(data) > MAX_BYTES or b"<!ENTITY" in data:
        return None
    try:
        root = fromstring(data.strip())  # noqa: S314  entities are refused above, the size is bounded
    except (ParseError, ValueError):
        return None
    return tuple(_gpu(element) for element in root.iter("gpu")) if root.tag == "nvidia_smi_log" else None


def read_link_errors(text: str) -> Mapping[tuple[str, int, str], int]:
    """(GPU UUID, link, what) → errors counted, from `nvidia-smi nvlink -e`."""
    counts: dict[tuple[str, int, str], int] = {}
    uuid = ""
    for line in text.split("\n"):
        if head := _LINK_GPU.match(line):
            uuid = head["uuid"]
        elif found := _LINK_COUNT.match(line):
            link, count = whole(found["link"]), whole(found["count"])
            if link is not None and count is not None:
                counts[uuid, link, found["what"].strip()] = count
    return counts


def _gpu(gpu: Element) -> GpuHealth:
    return GpuHealth(
        uuid=_text(gpu, "uuid"),
        pci_address=gpu_address(gpu.get("id", "")),
        held_down_by=tuple(_reasons(gpu)),
        sm_clock_mhz=_number(gpu, "clocks/sm_clock"),
        max_sm_clock_mhz=_number(gpu, "max_clocks/sm_clock"),
        temperature_c=_number(gpu, "temperature/gpu_temp"),
        uncorrected=_uncorrected(gpu),
        remap_pending=_either(
            gpu,
            "remapped_rows/remapped_row_pending",
            "retired_pages/pending_retirement",
            "retired_pages/pending_blacklist",
        ),
        remap_failed=_either(gpu, "remapped_rows/remapped_row_failure"),
    )


def _reasons(gpu: Element) -> Iterator[str]:
    for group in ("clocks_event_reasons", "clocks_throttle_reasons"):
        for reason in gpu.iterfind(f"{group}/*"):
            for prefix in _REASON_PREFIXES:
                if reason.tag.startswith(prefix) and (reason.text or "").strip() == "Active":
                    yield reason.tag.removeprefix(prefix)


def _uncorrected(gpu: Element) -> int | None:
    """Older drivers tell a sum of device and SRAM, newer ones DRAM and SRAM apart, SRAM by two kinds of check."""
    counts = [
        number
        for element in gpu.iterfind("ecc_errors/volatile/*")
        if "uncorrectable" in element.tag and (number := whole((element.text or "").strip())) is not None
    ]
    return sum(counts) if counts else None


def _text(gpu: Element, path: str) -> str | None:
    found = (gpu.findtext(path) or "").strip()
    return found if found and found != "N/A" else None


def _number(gpu: Element, path: str) -> int | None:
    """`1980 MHz` → 1980."""
    text = _text(gpu, path)
    return whole(text.split(" ", 1)[0]) if text else None


def _either(gpu: Element, *paths: str) -> bool | None:
    told = [text for path in paths if (text := _text(gpu, path)) in {"Yes", "No"}]
    return "Yes" in told if told else None
