"""Reads of a store on another thread, as webhooks make them, while the informer writes."""

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.informer import Store
from kcr.testing import build

ROUNDS = 40


@pytest.fixture(autouse=True)
def _eager_threads() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def pod(name: str, version: int, host: str) -> Pod:
    return build.pod(name, resource_version=str(version), uid=f"{name}-{version}", labels={"host": host})


def filled() -> Store[Pod]:
    store = Store[Pod]()
    store.synced = True
    for number in range(300):
        store.put(pod(f"kept-{number}", 1, "same"))
    return store


async def read_while_written(store: Store[Pod], read: Callable[[], object], write: Callable[[int], object]) -> int:
    """Read on a thread until the writer, on this one, has written for long enough; return how often it read."""
    store.own(asyncio.get_running_loop())
    over = threading.Event()

    def reads() -> int:
        for number in count(1):
            read()
            if over.is_set():
                return number
        raise AssertionError

    task = asyncio.get_running_loop().run_in_executor(None, reads)
    for number in range(ROUNDS):
        for place in range(100):
            write(number * 100 + place)
        await asyncio.sleep(0)
    over.set()
    return await task


def churn(store: Store[Pod]) -> Callable[[int], None]:
    def write(number: int) -> None:
        store.put(pod(f"new-{number}", number, f"host-{number % 7}"))
        if number >= 50:
            store.remove(Key("default", f"new-{number - 50}"))

    return write


@pytest.mark.asyncio
async def test_lists_have_all_that_stays_while_others_come_and_go() -> None:
    store = filled()

    def read() -> None:
        for found in (store.list(), store.list("default"), store.list(labels={"host": "same"}), store.snapshot()):
            assert sum(obj.metadata.name.startswith("kept-") for obj in found) == 300

    assert await read_while_written(store, read, churn(store)) > 1


@pytest.mark.asyncio
async def test_index_that_a_reader_asks_for_is_complete_at_once() -> None:
    store, number = filled(), count()

    def read() -> None:
        # Another one each time, at first: the informer's thread makes it later, while it writes.
        assert store.by_index(f"field:metadata.labels.x{next(number) % 20}", "none") == ()
        assert len(store.by_index("label:host", "same")) == 300

    assert await read_while_written(store, read, churn(store)) > 1


@pytest.mark.asyncio
async def test_index_of_ones_own_is_refused_on_another_thread() -> None:
    store = filled()
    store.own(asyncio.get_running_loop())
    with pytest.raises(RuntimeError, match="index image: add it before the manager runs"):
        await asyncio.to_thread(store.add_index, "image", lambda pod: ("x",))
