"""A fresh bundle for the next triage of the same run."""

from datetime import UTC, datetime

from oncall.bundle.store import AUTOMATIC, Bundle, Manifest


def fresh_bundle(bundle: Bundle) -> Bundle:
    """A new bundle of the same run and rank map, in the usual place; its playbook is chosen by what it will hold."""
    manifest = Manifest(run=bundle.manifest.run, started=datetime.now(UTC), playbook=AUTOMATIC)
    fresh = Bundle.create(manifest, bundle.read_text("run.toml") or "")
    ranks = bundle.read_text("ranks.json")
    if ranks is not None:
        fresh.write("ranks.json", ranks.encode())
    return fresh
