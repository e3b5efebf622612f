"""What all tests share."""

from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from kcr.app.logs import configure_logs

if TYPE_CHECKING:
    from tests.kit.traces import Traces

pytest_plugins = ("pytester",)

# No deadline per example: how long one takes says more about the machine's other work than about the code.
settings.register_profile("kcr", deadline=None)
settings.load_profile("kcr")


def pytest_configure(config: pytest.Config) -> None:
    """Log as `kcr run --log-level debug` does: every line of every test is rendered."""
    configure_logs("json", "debug")


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> "Traces":
    """Record the spans of a test."""
    # Imported by those who use it: the SDK takes a tenth of a second.
    from tests.kit.traces import Traces  # noqa: PLC0415  # see above

    return Traces(monkeypatch)
