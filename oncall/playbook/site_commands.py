"""The commands that a site has for its scheduler, with capitals where only the incident can tell."""

import shlex

from oncall.playbook.model import Template
from oncall.run.model import Run
from oncall.run.templates import fill

LABELS: dict[Template, str] = {"exclude": "Exclude a node", "restart": "Restart the job", "stop": "Stop the job"}

_USUAL: dict[Template, tuple[str, ...]] = {
    "exclude": (
        "scontrol update nodename=HOST state=drain reason=oncall  # Slurm",
        "kubectl cordon HOST  # Kubernetes",
    ),
    "restart": ("sbatch JOB.sbatch  # Slurm", "kubectl replace --force -f JOB.yaml  # Kubernetes"),
    "stop": ("scancel --name={run}  # Slurm", "kubectl delete -f JOB.yaml  # Kubernetes"),
}
"""What a scheduler itself offers (scontrol(1), sbatch(1), scancel(1), kubectl 1.30)."""


def own_command(run: Run, name: Template) -> str | None:
    """The run file's own command; None where it names none."""
    template: str | None = getattr(run.actions, name)
    if not template:
        return None
    return fill(template, run.name, ("HOST",), {"step": " (step STEP)", "what": "found on call"})[0]


def site_commands(run: Run, name: Template) -> tuple[str, ...]:
    """The run file's own command, else what each of the usual schedulers has for it."""
    own = own_command(run, name)
    return (own,) if own else tuple(each.format(run=shlex.quote(run.name)) for each in _USUAL[name])
