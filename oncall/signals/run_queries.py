"""The PromQL of a run: each signal's default or the run file's own, for this run's series alone."""

from oncall.errors import ConfigError
from oncall.run.model import Run
from oncall.signals.signal import Matchers
from oncall.signals.vocabulary import queries


def run_queries(run: Run) -> dict[str, str]:
    """Signal → PromQL of this run, "" for one that the site is without.

    Raises ConfigError where the run file's `[signals]` are wrong.
    """
    settings = run.prometheus
    train = settings.train if settings.train is not None else f'run="{_quoted(run.name)}"'
    return queries(Matchers(train, settings.dcgm, settings.node, settings.window), run.signals)


def checked_queries(run: Run, file: str) -> dict[str, str]:
    """As `run_queries`, with the run file named in what is raised."""
    try:
        return run_queries(run)
    except ConfigError as error:
        raise ConfigError([f"{file}: {problem}" for problem in error.problems], error.hint) from error


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
