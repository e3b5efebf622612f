"""A manager whose reconcilers a test can ask for explanations."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kcr.api.explanation import Explanation
from kcr.api.meta import Key
from kcr.controller import Controller
from kcr.manager import Manager


class OpenManager(Manager):
    """A manager that tells its controllers by name."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.by_name: dict[str, Controller] = {}

    def add_controller(self, *args: Any, **options: Any) -> Controller:
        controller = super().add_controller(*args, **options)
        self.by_name[controller.name] = controller
        return controller


@asynccontextmanager
async def running(manager: Manager) -> AsyncIterator[Manager]:
    """Run a manager for as long as the context lives; no reconcile may meet a programming error.

    A retry repairs nearly everything, so that the rest of a test may see nothing of it.
    """
    async with manager.running():
        yield manager
    assert not [name for name, controller in manager.controllers.items() if controller.metrics.panics]


async def explanation_of(manager: Manager, controller: str, key: Key) -> Explanation:
    """Return what a controller's reconciler says of a key."""
    assert isinstance(manager, OpenManager)
    explain: Any = manager.by_name[controller].reconciler
    found = await explain.explain(key)
    assert isinstance(found, Explanation)
    return found
