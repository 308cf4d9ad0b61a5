"""What stderr shows while a triage runs: who has answered, and what is waited for."""

from typing import TextIO

from oncall.bundle.evidence import Outcome, answerers
from oncall.playbook.events import Concluded, NodeAnswered, ProbeFinished, ProbeStarted, StepJudged, Waiting, WalkEvent

_CLEAR_LINE = "\r\x1b[K"


class ProgressLine:
    """Listens to a walk. On a terminal one line is rewritten; elsewhere each finished probe and step is a line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._counts: dict[str, tuple[int, int, int]] = {}

    def __call__(self, event: WalkEvent) -> None:
        """Take in one event."""
        match event:
            case ProbeStarted():
                self._counts[event.probe] = (0, 0, len(event.asked))
            case NodeAnswered():
                done, failed, asked = self._counts[event.probe]
                good = event.outcome is Outcome.OK
                self._counts[event.probe] = (done + good, failed + (not good), asked)
            case ProbeFinished() if not self._live:
                self._say(f"{event.probe}: {event.answered} of {event.asked} {answerers(event.probe)}")
            case StepJudged() if not self._live:
                self._say(f"{event.step}: {event.verdict}")
            case Waiting() if not self._live:
                self._say(f"{event.what}; at most {event.left_s:.0f} s more")
            case Concluded() if self._live:
                self._stream.write(_CLEAR_LINE)
                return
            case _:
                pass
        if self._live:
            self._rewrite(event)

    def _say(self, text: str) -> None:
        self._stream.write(f"oncall: {text}\n")

    def _rewrite(self, event: WalkEvent) -> None:
        shown = [
            f"{probe} {done}/{asked}" + (f" ({failed} failed)" if failed else "")
            for probe, (done, failed, asked) in self._counts.items()
        ]
        waiting = f"  {event.what}, at most {event.left_s:.0f} s more" if isinstance(event, Waiting) else ""
        self._stream.write(f"{_CLEAR_LINE}{'  '.join(shown)}{waiting}"[:200])
        self._stream.flush()
