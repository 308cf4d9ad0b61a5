"""Imports point one way, and the pure part stays pure: what the architecture promises, held by reading the source."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "oncall"

LAYERS = [
    {"cli"},
    {"commands"},
    {"console", "rehearse"},
    {"report"},
    {"playbook"},
    {"probes", "readings", "signals"},
    {"reach", "flight_recorder", "bundle", "formats"},
    {"run"},
    {"errors", "neutral"},
]
"""From the front ends down; a package imports from its own layer and those below."""

PURE = ("readings", "flight_recorder", "formats")
IMPURE_MODULES = {"asyncio", "textual", "asyncssh", "socket", "subprocess", "requests", "prometheus_api_client"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def layer(part: str) -> int:
    return next(index for index, parts in enumerate(LAYERS) if part in parts)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_from_its_layer_and_below(path: Path) -> None:
    own = path.relative_to(PACKAGE).with_suffix("").parts[0]
    if own == "__init__":
        return
    for name in imported(path):
        parts = name.split(".")
        if parts[0] == "oncall" and len(parts) > 1:
            assert layer(parts[1]) >= layer(own), f"{own} imports {name}, which stands above it"


@pytest.mark.parametrize("package", PURE)
def test_the_pure_part_does_no_io(package: str) -> None:
    for path in (PACKAGE / package).rglob("*.py"):
        found = {name.split(".")[0] for name in imported(path)} & IMPURE_MODULES
        assert not found, f"{path.relative_to(PACKAGE)} imports {found}"


def test_help_needs_no_heavy_import() -> None:
    """`oncall --help` answers at once: the command line alone imports nothing but the standard library."""
    names = {name.split(".")[0] for name in imported(PACKAGE / "cli.py")}
    assert names <= {"argparse", "collections", "difflib", "importlib", "os", "signal", "sys", "oncall"}
