"""The call site of an operation: the first recorded frame that is not PyTorch's own."""

import re

from oncall.flight_recorder.model import Frame, Op, Stack

_PYTORCH = re.compile(
    r"(site|dist)-packages/torch/|(^|/)torch/(_\w+|autograd|csrc|cuda|distributed|fx|nn|optim|utils)[/.]|^<frozen |^\?"
)


def is_pytorch(frame: Frame) -> bool:
    """Whether the frame belongs to an installed PyTorch or a source checkout of it."""
    return _PYTORCH.search(frame.file) is not None


def user_frames(stack: Stack) -> Stack:
    """The frames outside PyTorch, innermost first; empty for operations issued by the autograd thread."""
    return tuple(frame for frame in stack if not is_pytorch(frame))


def call_site(op: Op | None) -> Frame | None:
    """The first frame outside PyTorch; PyTorch's own innermost one when there is no other; None without a stack."""
    if op is None or not op.stack:
        return None
    return next(iter(user_frames(op.stack)), op.stack[0])


def left_the_loop(culprit: Stack, peer: Stack) -> bool:
    """Whether the culprit has gone past the place where its peers still loop.

    Both stacks are compared from the outside in: at the first difference the culprit must be in the same function as
    its peer, at a later line.
    """
    for mine, theirs in zip(reversed(user_frames(culprit)), reversed(user_frames(peer)), strict=False):
        if mine == theirs:
            continue
        return (mine.name, mine.file) == (theirs.name, theirs.file) and mine.line > theirs.line
    return False
