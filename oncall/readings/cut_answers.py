"""Did a node's answer come whole? What is missing at its end may hold what a reading looks for."""

from collections.abc import Sequence

from oncall.bundle.evidence import NodeAnswer, Part


def why_cut(answer: NodeAnswer | None, parts: Sequence[Part]) -> str | None:
    """Why a node's answer is not whole; None where it is, or where there is none.

    The scripts end with a part named `end`, so that an answer without it was cut short, whatever its outcome says.
    """
    if answer is None or not parts:
        return None
    if not answer.whole:
        return answer.reason or str(answer.outcome)
    return None if any(part.name == "end" for part in parts) else "its answer was cut short"
