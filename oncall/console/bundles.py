"""A fresh bundle for the next triage of the same run."""

from datetime import UTC, datetime

from oncall.bundle.store import Bundle, Manifest


def fresh_bundle(bundle: Bundle) -> Bundle:
    """A new bundle of the same run, rank map and playbook, in the usual place."""
    manifest = Manifest(run=bundle.manifest.run, started=datetime.now(UTC), playbook=bundle.manifest.playbook)
    fresh = Bundle.create(manifest, bundle.read_text("run.toml") or "")
    ranks = bundle.read_text("ranks.json")
    if ranks is not None:
        fresh.write("ranks.json", ranks.encode())
    return fresh
