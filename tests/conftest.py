"""What all tests share."""

import pytest
from hypothesis import settings

from kcr.app.logs import configure_logs

pytest_plugins = ("pytester",)

# No deadline per example: how long one takes says more about the machine's other work than about the code.
settings.register_profile("kcr", deadline=None)
settings.load_profile("kcr")


def pytest_configure(config: pytest.Config) -> None:
    """Log as `kcr run --log-level debug` does: every line of every test is rendered."""
    configure_logs("json", "debug")
