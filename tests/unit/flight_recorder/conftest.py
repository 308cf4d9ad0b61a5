"""Where the shared material is, and the dumps written by hand that the tests of this folder import."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

SHARED = Path(os.environ.get("ONCALL_SHARED", Path(__file__).resolve().parents[4] / "shared"))


@pytest.fixture(autouse=True)
def _one_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever terminal the tests are run in, text is as wide as it is without one."""
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture(scope="session")
def material() -> Path:
    """The folder of recorded and simulated Flight Recorder material."""
    if not (SHARED / "fr").is_dir():
        pytest.skip("the shared Flight Recorder material is not on this machine")
    return SHARED / "fr"
