"""The program that is sent to nodes to reduce dumps there, as text."""

from importlib import resources


def reducer_source() -> str:
    """The source of `reduce.py`, which needs nothing but a Python of 3.8 or newer."""
    return resources.files("oncall.flight_recorder").joinpath("reduce.py").read_text(encoding="utf-8")
