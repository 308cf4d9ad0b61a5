"""The incidents that come with the product: bundles of real jobs that were made to hang."""

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from oncall.bundle.store import Bundle


@dataclass(frozen=True, slots=True)
class Incident:
    """One recorded incident: what happened in one line, and its bundle."""

    title: str
    bundle: Bundle


def incidents() -> dict[str, Incident]:
    """Name → recorded incident, by name."""
    folder = Path(str(resources.files("oncall.rehearse"))) / "incidents"
    found = {}
    for path in sorted(folder.iterdir()):
        if (path / "manifest.json").is_file():
            title = (path / "title").read_text(encoding="utf-8").strip()
            found[path.name] = Incident(title, Bundle.open(path))
    return found
