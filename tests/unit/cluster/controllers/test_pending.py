import asyncio

import pytest

from kcr.cluster.controllers.pending import Pending

pytestmark = pytest.mark.virtual


async def test_each_comes_once_in_order() -> None:
    pending: Pending[str] = Pending()
    pending.add("a", "b")
    pending.add("a", "c")
    assert [await pending.next() for _ in range(3)] == ["a", "b", "c"]


async def test_what_was_taken_may_come_again() -> None:
    pending: Pending[str] = Pending()
    pending.add("a")
    assert await pending.next() == "a"
    pending.add("a")
    assert await pending.next() == "a"


async def test_reader_waits_for_the_first() -> None:
    pending: Pending[str] = Pending()
    pending.add()
    async with asyncio.TaskGroup() as group:
        reader = group.create_task(pending.next())
        await asyncio.sleep(1)
        assert not reader.done()
        pending.add("a")
    assert reader.result() == "a"
