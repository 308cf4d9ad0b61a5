"""What speaks against a conclusion, in words: what contradicts it, and what an operator's word was put in place of."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncall.report.model import Report, StepReport


def against(report: "Report") -> tuple[str, ...]:
    """One text for each contradicting finding, cited by its name, and for each overruled step; none is good news."""
    texts = {each.id: each.finding.text for each in report.findings}
    told = [f"{texts[name]} ({name})" for name in report.verdict.against]
    return (*told, *(_overruled(step) for step in report.steps if step.overruled_because is not None))


def _overruled(step: "StepReport") -> str:
    """What an overruled step was read as, and why its operator knew better."""
    return f"{step.step} was read as {step.read_as} ({step.reason}); overruled because {step.overruled_because}"
