"""Chooses the playbook of an incident for which nobody named one, and remembers the choice in its bundle."""

from oncall.bundle.store import AUTOMATIC, Bundle
from oncall.playbook.engine import Source
from oncall.playbook.loader import shipped
from oncall.playbook.sources import LiveSource
from oncall.readings.case import Case
from oncall.readings.placement import settle_ranks
from oncall.readings.symptom import HANG, by_alerts, by_metrics, symptom

_SERVERS = ("alerts", "metrics", "baseline")
_NODES = ("processes", "gpus", "logs")


async def chosen_playbook(bundle: Bundle, source: Source, case: Case) -> str:
    """The playbook that the bundle names, else the one that the evidence calls for.

    What servers tell is enough if it tells something; else the logs of the nodes are waited for.
    """
    if bundle.manifest.playbook != AUTOMATIC:
        return bundle.manifest.playbook
    await _gather(_SERVERS, source, case)
    if by_alerts(case) is None and by_metrics(case) is None:
        await _gather(_NODES, source, case)
        case.ranks = settle_ranks(case)
    wanted = symptom(case).playbook
    name = wanted if wanted in shipped() else HANG
    if isinstance(source, LiveSource):
        bundle.choose(name)
    return name


async def _gather(probes: tuple[str, ...], source: Source, case: Case) -> None:
    for probe in probes:
        evidence = await source.evidence(probe, case)
        if evidence is not None and evidence is not case.evidence(probe):
            case.add(evidence)
