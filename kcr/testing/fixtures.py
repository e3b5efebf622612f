"""Fixtures of tests in virtual time: their clock, their seed, and the checks at their end."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pytest
import pytest_asyncio

from kcr.testing.loop import VirtualClock, VirtualLoop
from kcr.testing.plugin import SEED, TIMELINE

if TYPE_CHECKING:
    from kcr.api.meta import Key, Resource


class MutatedError(AssertionError):
    """An object in a store was mutated, instead of a copy of it."""


@contextmanager
def unchanged_stores() -> Iterator[None]:
    """Raise MutatedError at the end if an object in a store has been mutated.

    Maps inside frozen values are protected by the type checker only. A controller that mutates one anyway changes the
    objects of all other readers, without a watch event. Only objects that are put while the context lives are compared.
    """
    # Not at the top: pytest imports this module in every project, and the store brings the HTTP client.
    from kcr.api import codec  # noqa: PLC0415  # see above
    from kcr.informer import Store  # noqa: PLC0415  # see above

    given: WeakKeyDictionary[Store[Any], dict[Key, tuple[Resource, bytes]]] = WeakKeyDictionary()
    put = Store.put

    def noting_put(store: Store[Any], obj: "Resource") -> Any:
        given.setdefault(store, {})[obj.key] = (obj, codec.encode(obj))
        return put(store, obj)

    Store.put = noting_put  # type: ignore[method-assign,assignment]  # for the length of a test
    try:
        yield
    finally:
        Store.put = put  # type: ignore[method-assign]  # put back at the end
    for store, objects in given.items():
        present = {obj.key: obj for obj in store.snapshot()}
        for key, (obj, encoded) in objects.items():
            if present.get(key) is obj and codec.encode(obj) != encoded:
                raise MutatedError(f"{obj.resource.display} {key}: changed inside the store; change a copy")


@pytest_asyncio.fixture
async def kcr_clock(request: pytest.FixtureRequest) -> AsyncIterator[VirtualClock]:
    """Give the virtual clock of the test; at the end no task may be left, and no stored object changed."""
    clock = VirtualClock()
    with unchanged_stores(), _recording(request.node):
        yield clock
    loop = asyncio.get_running_loop()
    if isinstance(loop, VirtualLoop) and not loop.stalled:
        await clock.settle()
        left = sorted(task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task())
        if left:
            pytest.fail(f"tasks left behind: {', '.join(left)}")


@pytest.fixture
def kcr_seed(pytestconfig: pytest.Config) -> int:
    """Give the seed of `--kcr-seed`, for a test that draws by itself: `random.Random(kcr_seed)`."""
    return pytestconfig.stash[SEED]


@contextmanager
def _recording(test: pytest.Item) -> Iterator[None]:
    """Record the writes of a test to embedded servers, where their package is installed."""
    try:
        from kcr_devcluster.testing.timeline import Timeline  # noqa: PLC0415  # see above
    except ModuleNotFoundError:
        yield
        return
    timeline = test.stash[TIMELINE] = Timeline()
    with timeline.recording():
        yield
