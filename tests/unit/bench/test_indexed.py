"""How the cost of a reconcile and the size of a store are found out."""

import asyncio

import pytest

import kcr
from bench.indexed import Timed, reachable
from kcr.api.meta import Key


class Reconciler:
    """Waits for something; then fails, or asks to come back."""

    def __init__(self, waits_for: asyncio.Future[kcr.Result]) -> None:
        self._waits_for = waits_for

    async def reconcile(self, key: Key) -> kcr.Result:
        return await self._waits_for


@pytest.mark.kcr_virtual
async def test_timed_reconciler_answers_as_the_inner_one() -> None:
    answer: asyncio.Future[kcr.Result] = asyncio.get_running_loop().create_future()
    timed = Timed(Reconciler(answer))
    asyncio.get_running_loop().call_soon(answer.set_result, kcr.Result())
    assert await timed.reconcile(Key("default", "pi")) == kcr.Result()
    assert timed.syncs == 1
    assert timed.seconds > 0


@pytest.mark.kcr_virtual
async def test_error_passes_through_a_timed_reconciler() -> None:
    answer: asyncio.Future[kcr.Result] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(answer.set_exception, ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        await Timed(Reconciler(answer)).reconcile(Key("default", "pi"))


@pytest.mark.kcr_virtual
async def test_cancellation_reaches_the_inner_reconciler() -> None:
    answer: asyncio.Future[kcr.Result] = asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(Timed(Reconciler(answer)).reconcile(Key("default", "pi")))
        asyncio.get_running_loop().call_soon(task.cancel)
    assert answer.cancelled()


def test_what_is_shared_counts_once() -> None:
    shared = ("a", "tuple")
    assert reachable([shared, shared]) == reachable([shared]) + reachable([None, None]) - reachable([None])


def test_parts_of_frozen_values_count() -> None:
    labels = {"app": "web"}
    with_labels, without = kcr.ObjectMeta(labels=labels), kcr.ObjectMeta()
    assert reachable(with_labels) > reachable(without)
