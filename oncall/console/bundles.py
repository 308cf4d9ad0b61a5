"""Which bundle comes before this one, and a fresh one for the next triage of the same run."""

from datetime import UTC, datetime

from oncall.bundle.store import Bundle, Manifest
from oncall.errors import UsageError


def fresh_bundle(bundle: Bundle) -> Bundle:
    """A new bundle of the same run, rank map and playbook, in the usual place."""
    manifest = Manifest(run=bundle.manifest.run, started=datetime.now(UTC), playbook=bundle.manifest.playbook)
    fresh = Bundle.create(manifest, bundle.read_text("run.toml") or "")
    ranks = bundle.read_text("ranks.json")
    if ranks is not None:
        fresh.write("ranks.json", ranks.encode())
    return fresh


def earlier_bundle(bundle: Bundle) -> Bundle | None:
    """The newest bundle of the same run that lies beside this one and began before it."""
    found = []
    for folder in bundle.path.resolve().parent.iterdir():
        try:
            other = Bundle.open(folder)
        except UsageError:
            continue
        if other.manifest.run == bundle.manifest.run and other.manifest.started < bundle.manifest.started:
            found.append(other)
    return max(found, key=lambda each: each.manifest.started, default=None)
