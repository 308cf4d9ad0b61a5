"""The turns of the probes of one triage: each is put to its nodes, kept as it arrives, and told of."""

import secrets
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from oncall.bundle.evidence import Evidence, NodeAnswer, Outcome
from oncall.bundle.probe_folder import ProbeFolder
from oncall.bundle.store import Bundle
from oncall.playbook.engine import Listener
from oncall.playbook.events import NodeAnswered, ProbeFinished, ProbeStarted
from oncall.probes.probe import Probe
from oncall.reach.fanout import ask_all
from oncall.reach.protocol import Limits, Reach
from oncall.readings.case import Case


class Turns:
    """The newest turn of each probe, by the name that it is kept as; `listen` hears how each goes."""

    def __init__(self, bundle: Bundle, reach: Reach, listen: Listener) -> None:
        self._bundle = bundle
        self._reach = reach
        self._listen = listen
        self._folders: dict[str, ProbeFolder] = {}
        self._whole: dict[str, Evidence] = {}
        self._said: dict[str, dict[str, tuple[Outcome, str | None]]] = {}

    async def ask(
        self,
        probe: Probe,
        case: Case,
        hosts: Iterable[str],
        *,
        keep_as: str | None = None,
        folder: ProbeFolder | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> ProbeFolder:
        """Put a probe to these nodes; its turn is a new one, kept under `keep_as`, unless `folder` is given.

        Of one that is put again and again, and kept under another name, only what is new is told. `extra` are variables
        of the script, in place of the probe's own of the same names.
        """
        boundary = f"oncall-{secrets.token_hex(8)}"
        scripts = {host: probe.build(case.run, case.ranks, host, boundary, extra) for host in hosts}
        if folder is None:
            folder = self._bundle.probe_folder(keep_as or probe.name, scripts)
        repeated = keep_as is not None and probe.name in self._said
        if repeated:
            self._open(folder)
        else:
            self.begin(folder, probe.name, tuple(scripts))
        news: list[str] = []
        usual_s = case.run.reach.command_timeout_s
        await ask_all(
            self._reach,
            folder,
            scripts,
            boundary=boundary,
            limits=Limits(total_s=probe.deadline_s or usual_s, silence_s=usual_s),
            on_answer=lambda answer: news.extend(self._tell_news(probe.name, answer, repeated=repeated)),
        )
        if news or not repeated:
            self.end(folder, probe.name)
        return folder

    def begin(self, folder: ProbeFolder, probe: str, asked: tuple[str, ...]) -> None:
        """A turn begins, or goes on with those who are asked once more."""
        self._open(folder)
        self._listen(ProbeStarted(at=datetime.now(UTC), probe=probe, asked=asked))

    def _open(self, folder: ProbeFolder) -> None:
        self._folders[folder.probe] = folder
        self._whole.pop(folder.probe, None)

    def _tell_news(self, probe: str, answer: NodeAnswer, *, repeated: bool) -> tuple[str, ...]:
        """Tell of an answer; returns whose it was, unless that one answered the same way the time before."""
        if repeated:
            if self._said[probe].get(answer.host) == (answer.outcome, answer.reason):
                return ()
            self._listen(ProbeStarted(at=datetime.now(UTC), probe=probe, asked=(answer.host,)))
        self.tell(probe, answer)
        return (answer.host,)

    def tell(self, probe: str, answer: NodeAnswer) -> None:
        """One of those asked has answered."""
        self._said.setdefault(probe, {})[answer.host] = answer.outcome, answer.reason
        self._listen(
            NodeAnswered(
                at=datetime.now(UTC),
                probe=probe,
                host=answer.host,
                outcome=answer.outcome,
                reason=answer.reason,
                took_s=answer.took_s,
            )
        )

    def end(self, folder: ProbeFolder, probe: str) -> None:
        """Nobody is asked any more in this turn."""
        evidence = folder.evidence()
        answered = len(evidence.coverage.answered)
        self._listen(ProbeFinished(at=datetime.now(UTC), probe=probe, answered=answered, asked=len(evidence.asked)))

    def evidence(self, probe: str, *, ended: bool) -> Evidence | None:
        """What the newest turn has brought so far, the same object each time once it has `ended`; None before any."""
        folder = self._folders.get(probe)
        if folder is None:
            return None
        if probe not in self._whole:
            evidence = folder.evidence()
            if not ended:
                return evidence
            self._whole[probe] = evidence
        return self._whole[probe]

    def lacking(self, host: str) -> tuple[ProbeFolder, ...]:
        """The turns in which a node was asked and did not answer in full."""
        return tuple(folder for folder in self._folders.values() if host in folder.evidence().coverage.missing)

    def forget(self, probe: str) -> None:
        """What a probe brought is about to be asked anew."""
        self._whole.pop(probe, None)
