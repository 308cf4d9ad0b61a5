"""Host memory and CPU errors: machine checks, EDAC counts, firmware reports, pages taken out of use, heat.

Wordings of Linux 5 and 6: arch/x86/kernel/cpu/mce, drivers/edac/edac_mc.c, drivers/firmware/efi/cper.c,
mm/memory-failure.c, drivers/thermal/thermal_core.c.
"""

import re

from oncall.formats.kernel_line import Following, Reading, Signature

_MCE_LOGGED = re.compile(r"mce: \[Hardware Error\]: Machine check events logged")
_MCE = re.compile(
    r"(?:mce: )?\[Hardware Error\]: CPU (?P<cpu>\d+): Machine Check(?P<exception> Exception)?: \S+ "
    r"Bank (?P<bank>\d+): (?P<status>[0-9a-f]{1,16})"
)
_GHES = re.compile(
    r"\{\d+\}\[Hardware Error\]: Hardware error from APEI Generic Hardware Error Source: (?P<source>\d+)"
)
_GHES_SEVERITY = re.compile(r"\{\d+\}\[Hardware Error\]: event severity: (?P<severity>\w+)")
_EDAC = re.compile(r"EDAC MC(?P<mc>\d+): (?P<count>\d+) (?P<type>CE|UE) (?P<error>.{0,120}?) on (?P<label>\S+)")
_FAILURE = re.compile(r"Memory failure: (?P<pfn>0x[0-9a-f]+): recovery action for (?P<page>.{1,80}?): (?P<result>\w+)")
_FAILURE_KILL = re.compile(
    r"Memory failure: (?P<pfn>0x[0-9a-f]+): (?:Sending SIGBUS to|Killing) (?P<process>.{1,60}?):(?P<pid>\d+) "
    r"due to hardware memory corruption"
)
_THERMAL = re.compile(
    r"(?:mce: )?CPU(?P<cpu>\d+): (?P<what>Core|Package) temperature (?:is )?above threshold, "
    r"cpu clock (?:is )?throttled(?: \(total events = (?P<events>\d+)\))?"
)
_TOO_HOT = re.compile(
    r"thermal (?P<zone>\S{1,40}): (?:(?P<sensor>[^:]{1,40}): )?critical temperature reached"
    r"(?: ?\((?P<celsius>-?\d{1,4}) C\))?"
)

_UNCORRECTED = 1 << 61
"""MCi_STATUS.UC, Intel SDM volume 3B, 15.3.2.2."""
_CONTEXT_CORRUPT = 1 << 57
"""MCi_STATUS.PCC: the processor's state cannot be trusted."""


def _read_hardware_error(message: str, following: Following) -> Reading | None:
    if _MCE_LOGGED.match(message):
        return Reading("mce", {"logged": True})
    mce = _MCE.match(message)
    if mce is not None:
        status = int(mce["status"], 16)
        fatal = mce["exception"] is not None and bool(status & (_UNCORRECTED | _CONTEXT_CORRUPT))
        fields = {"cpu": int(mce["cpu"]), "bank": int(mce["bank"]), "status": mce["status"], "fatal": fatal}
        return Reading("mce", {"logged": False, **fields})
    ghes = _GHES.match(message)
    if ghes is None:
        return None
    severity = next((found["severity"] for line in following(3) if (found := _GHES_SEVERITY.match(line))), None)
    return Reading("ghes", {"source": int(ghes["source"]), "severity": severity})


def _read_edac(message: str, _following: Following) -> Reading | None:
    found = _EDAC.match(message)
    if found is None:
        return None
    fields = {"mc": int(found["mc"]), "count": int(found["count"]), "type": found["type"]}
    return Reading("edac", {**fields, "error": found["error"], "label": found["label"]})


def _read_failure(message: str, _following: Following) -> Reading | None:
    killed = _FAILURE_KILL.match(message)
    if killed is not None:
        fields = {"pfn": killed["pfn"], "process": killed["process"], "pid": int(killed["pid"])}
        return Reading("memory_failure_kill", fields)
    found = _FAILURE.match(message)
    return None if found is None else Reading("memory_failure", found.groupdict())


def _read_thermal(message: str, _following: Following) -> Reading | None:
    found, too_hot = _THERMAL.match(message), _TOO_HOT.match(message)
    if too_hot is not None:
        celsius = too_hot["celsius"]
        shown = {"zone": too_hot["zone"], "sensor": too_hot["sensor"]}
        return Reading("thermal_shutdown", {**shown, "celsius": None if celsius is None else int(celsius)})
    if found is None:
        return None
    events = found["events"]
    fields = {
        "cpu": int(found["cpu"]),
        "sensor": found["what"].lower(),
        "events": None if events is None else int(events),
    }
    return Reading("cpu_thermal", fields)


SIGNATURES = (
    Signature(b"[Hardware Error]: ", _read_hardware_error),
    Signature(b"EDAC MC", _read_edac),
    Signature(b"Memory failure: ", _read_failure),
    Signature(b"temperature", _read_thermal),
)
