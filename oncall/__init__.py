"""oncall names the cause of a stopped or slowed training run from the evidence of every node."""

__version__ = "0.1.0"
