"""What does the fault's code mean for the job: must the node leave, is a restart enough, does no table know it?"""

from collections.abc import Iterator, Mapping

from oncall.flight_recorder.model import Grade
from oncall.formats.xid_catalogue import XidMeaning, lookup, lookup_sxid
from oncall.readings.case import Case
from oncall.readings.finding import Finding, Judgement, unknown
from oncall.readings.incident import run_incidents
from oncall.readings.incident_cause import told_causes
from oncall.readings.kernel_set import KernelEvent
from oncall.readings.kernel_words import asks_for_reset, wanted_action

_ACTIONS: Mapping[str, str] = {
    "ignore": "nothing to do about the GPU",
    "restart_app": "restart the job; drain the node when it is idle",
    "reset_gpu": "reset the GPU, or reboot the node",
    "drain_node": "drain the node and reboot it",
    "rma_check": "drain the node and have the GPU checked for replacement",
}
_MILD = frozenset({"ignore", "restart_app"})


def fault_meaning(case: Case) -> Judgement:
    """What does the gravest fault ask for?

    `leave`: the node must go. `restart`: only the process was lost. `uncatalogued`: no table knows the code. `unknown`:
    no fault is known.
    """
    hosts = {host for finding in case.origins() for host in finding.hosts}
    events = [event for cause in told_causes(run_incidents(case), hosts) for event in cause.events]
    if not events:
        return unknown("no fault in a kernel log is left to explain")
    verdicts = {_verdict(event) for event in events}
    verdict = next(each for each in ("leave", "uncatalogued", "restart") if each in verdicts)
    findings = tuple({finding.text: finding for event in events for finding in _meanings(event)}.values())[:8]
    reason = "; ".join(finding.text for finding in findings[:3]) or "a fault without a code: take it for grave"
    return Judgement(verdict=verdict, reason=reason, findings=findings)


def _verdict(event: KernelEvent) -> str:
    """A fault without a code is a host's, a link's or a lost GPU's: none of these passes by itself."""
    code, switch = event.event.number("xid"), event.event.number("sxid")
    if code is not None:
        return _verdict_of_xid(event, event.event.number("caused_by_xid") or code)
    return "uncatalogued" if switch is not None and lookup_sxid(switch) is None else "leave"


def _verdict_of_xid(event: KernelEvent, code: int) -> str:
    """What the driver itself asks for goes before what a table advises: a recovery action, a reset.

    A follow-up counts as the code that it names as its cause.
    """
    if wanted_action(event.event) is not None or asks_for_reset(event.event):
        return "leave"
    meaning = lookup(code)
    if meaning is None or meaning.action is None:
        return "uncatalogued"
    return "restart" if meaning.action in _MILD and event.pages is not False else "leave"


def _meanings(event: KernelEvent) -> Iterator[Finding]:
    code, switch = event.event.number("xid"), event.event.number("sxid")
    text = None
    if code is not None:
        text = _meaning_of_xid(event, code)
    elif switch is not None:
        known = lookup_sxid(switch)
        text = f"SXid {switch}: {(known.meaning if known else None) or 'in no table that this program has'}"
    if text is not None:
        yield Finding(kind="observation", text=text, grade=Grade.SURE, hosts=(event.host,), cites=(event.cite,))


def _meaning_of_xid(event: KernelEvent, code: int) -> str:
    """What the driver wants done, or the cause that it names, in place of what a table says of a code for either."""
    wanted, cause = wanted_action(event.event), event.event.number("caused_by_xid")
    if wanted is not None:
        return f"Xid {code}: the driver now wants {wanted!r} for this GPU"
    if cause is not None:
        return f"Xid {code}, caused by Xid {cause}: {_words(lookup(cause))}"
    reset = "; the driver asks for a reset of the GPU" if asks_for_reset(event.event) else ""
    return f"Xid {code}: {_words(lookup(code))}{reset}"


def _words(meaning: XidMeaning | None) -> str:
    if meaning is None or meaning.meaning is None:
        return "in no table that this program has; look it up in the driver's release notes"
    told = [
        meaning.meaning,
        *([_ACTIONS[meaning.action]] if meaning.action else []),
        *([meaning.note] if meaning.note else []),
    ]
    doubt = ["the sources disagree"] if meaning.sources_disagree else []
    return "; ".join(part.rstrip(".") for part in (*told, *doubt))
