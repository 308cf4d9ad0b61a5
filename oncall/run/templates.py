"""Fills the site's command templates, every value quoted for the shell."""

import shlex
import string
from collections.abc import Mapping

from oncall.run.nodes import fold_hosts

FIELDS = ("host", "hosts", "run", "step", "reason")
"""What a template may hold in braces."""


def unknown_fields(template: str) -> list[str]:
    """The fields of a template that nothing fills; raises ValueError where its braces do not match."""
    return [name for _, name, _, _ in string.Formatter().parse(template) if name is not None and name not in FIELDS]


def fill(template: str, run: str, hosts: tuple[str, ...], texts: Mapping[str, str]) -> list[str | None]:
    """The commands of a template: one for each host where it holds `{host}`, else one."""
    step = texts["step"].strip(" ()").removeprefix("step ").replace(",", "") or "latest"
    values = {
        "run": run,
        "hosts": fold_hosts(hosts),
        "step": step,
        "reason": f"oncall: {texts['what'].split('; ')[0]}"[:160],
    }
    quoted = {name: shlex.quote(value) for name, value in values.items()}
    if "{host}" in template:
        return [template.format(host=shlex.quote(host), **quoted) for host in hosts]
    return [template.format(**quoted)]
