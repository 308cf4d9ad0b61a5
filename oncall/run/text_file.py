"""Reads the files that a site writes by hand: run files, rank maps, playbooks."""

from pathlib import Path

from oncall.errors import ConfigError, UsageError


def read_text(path: Path, most_bytes: int, form: str) -> str:
    """The text of a file; `form` says, in messages, what it should be.

    Raises:
        UsageError: it cannot be read, or is larger than `most_bytes`; a device has no end.
        ConfigError: it is no UTF-8, with file and line.
    """
    try:
        with path.open("rb") as file:
            data = file.read(most_bytes + 1)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", form) from error
    if len(data) > most_bytes:
        raise UsageError(f"{path} is larger than {most_bytes >> 20} MiB", form)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError([f"{path}:{line}: byte {error.start} is no UTF-8"], form) from error
