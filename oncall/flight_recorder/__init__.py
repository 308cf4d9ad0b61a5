"""Reads PyTorch Flight Recorder dumps and names the origin of a hang, not its victims.

Pure: values in, values out. Facts on the format are from pytorch/pytorch 2.13.0, `torch/csrc/distributed/c10d`.
"""

from oncall.flight_recorder.analysis import analyse
from oncall.flight_recorder.answer import as_json
from oncall.flight_recorder.load import load_blobs, load_paths
from oncall.flight_recorder.model import Analysis, DumpSet, Grade, Kind, Origin, Undecided
from oncall.flight_recorder.snapshots import Movement, Pace, compare

__all__ = [
    "Analysis",
    "DumpSet",
    "Grade",
    "Kind",
    "Movement",
    "Origin",
    "Pace",
    "Undecided",
    "analyse",
    "as_json",
    "compare",
    "load_blobs",
    "load_paths",
]
