"""Whether a run consumes its data in order: each step at or after the place where that step was before."""

from bisect import bisect_right

_STEPS = 4096
"""Steps remembered. A rollback further than this cannot be judged."""


class DataPosition:
    """Samples consumed at each of the last steps."""

    def __init__(self) -> None:
        self._steps: list[int] = []
        self._consumed: list[float] = []

    def goes_back(self, step: int, consumed: float) -> bool:
        """Note that `step` ended with `consumed` samples; whether that lies before where it should.

        Going back in step, as from a checkpoint, forgets the steps from there on; the data must go back no further
        than the steps do.
        """
        place = bisect_right(self._steps, step)
        behind = place > 0 and consumed < self._consumed[place - 1]
        if place > 0 and self._steps[place - 1] == step:
            place -= 1
        del self._steps[place:], self._consumed[place:]
        self._steps.append(step)
        self._consumed.append(consumed)
        if len(self._steps) > _STEPS:
            del self._steps[0], self._consumed[0]
        return behind
