"""The triage of the same run before this one, and what has changed since."""

import msgspec

from oncall.bundle.store import Bundle
from oncall.errors import UsageError
from oncall.report.changes import changes
from oncall.report.model import Comparison, Report
from oncall.report.triage import replay


def earlier_bundle(bundle: Bundle) -> Bundle | None:
    """The newest bundle of the same run that lies beside this one and began before it."""
    found = []
    try:
        folders = list(bundle.path.resolve().parent.iterdir())
    except OSError:
        return None
    for folder in folders:
        try:
            other = Bundle.open(folder)
        except UsageError:
            continue
        if other.manifest.run == bundle.manifest.run and other.manifest.started < bundle.manifest.started:
            found.append(other)
    return max(found, key=lambda each: each.manifest.started, default=None)


async def compared(report: Report, bundle: Bundle) -> Report:
    """The report with what changed since the triage before it; as it is where there was none."""
    earlier = earlier_bundle(bundle)
    if earlier is None:
        return report
    before = await replay(earlier, lambda _: None)
    found = Comparison(bundle=before.bundle, started=before.started, changes=changes(before, report))
    return msgspec.structs.replace(report, compared=found)
