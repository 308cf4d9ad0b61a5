"""PCI addresses and GPUs: one spelling for the many that drivers, kernels and exporters use."""

import re

_ADDRESS = re.compile(
    r"(?:PCI:)?(?:(?P<domain>[0-9a-f]{4,8}):)?(?P<bus>[0-9a-f]{2}):(?P<device>[0-9a-f]{2})(?:\.(?P<function>[0-7]))?",
    re.IGNORECASE,
)


def gpu_address(text: str) -> str | None:
    """The address of a GPU or NVSwitch as `dddd:bb:dd`, lower case and without function number; None if it is none.

    Takes NVRM's `PCI:0000:4f:00`, the kernel's `0000:4f:00.0` and `4f:00.0`, and NVML's `00000000:4F:00.0`.
    """
    found = _ADDRESS.fullmatch(text)
    return None if found is None else f"{_domain(found)}:{found['bus']}:{found['device']}".lower()


def device_address(text: str) -> str | None:
    """The address of any PCI device as `dddd:bb:dd.f`, lower case; the function is left out where the text has none."""
    found = _ADDRESS.fullmatch(text)
    if found is None:
        return None
    function = "" if found["function"] is None else f".{found['function']}"
    return f"{_domain(found)}:{found['bus']}:{found['device']}{function}".lower()


def _domain(found: re.Match[str]) -> str:
    """Four digits unless more are needed: NVML pads the domain to eight."""
    return f"{int(found['domain'] or '0', 16):04x}"
