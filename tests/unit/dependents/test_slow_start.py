import asyncio

import pytest

from kcr.dependents import Attempts, Failure, slow_start
from kcr.errors import Cause, ForbiddenError, NotFoundError, ServerError, TransportError

pytestmark = pytest.mark.kcr_virtual


class Server:
    """Answers each call after a second; refuses some."""

    def __init__(self, refused: set[int] = frozenset()) -> None:  # type: ignore[assignment]  # never changed
        self.batches: dict[float, list[int]] = {}
        self._refused = refused

    async def call(self, number: int) -> str:
        self.batches.setdefault(asyncio.get_running_loop().time(), []).append(number)
        await asyncio.sleep(1)
        if number in self._refused:
            raise ForbiddenError(403, "Forbidden", "quota") if number % 2 else TransportError("cut")
        return f"pod-{number}"


@pytest.mark.parametrize(
    ("count", "sizes"),
    [
        pytest.param(0, [], id="nothing"),
        pytest.param(-2, [], id="less-than-nothing"),
        pytest.param(1, [1], id="one"),
        pytest.param(7, [1, 2, 4], id="full-batches"),
        pytest.param(10, [1, 2, 4, 3], id="rest"),
    ],
)
async def test_batches_double_in_size(count: int, sizes: list[int]) -> None:  # EX-18, EX-21
    server = Server()
    attempts = await slow_start(count, server.call)
    assert [len(batch) for batch in server.batches.values()] == sizes
    assert attempts.done == tuple(f"pod-{number}" for number in range(count))
    assert (attempts.failures, attempts.skipped) == ((), 0)


async def test_batch_with_a_failure_is_finished_and_the_last() -> None:  # EX-18, EX-19
    attempts = await slow_start(10, Server({4, 5}).call)
    assert attempts.done == ("pod-0", "pod-1", "pod-2", "pod-3", "pod-6")
    assert [(failure.number, type(failure.error)) for failure in attempts.failures] == [
        (4, TransportError),
        (5, ForbiddenError),
    ]
    assert attempts.skipped == 3


async def test_first_batch_may_be_all_there_is() -> None:  # EX-22
    server = Server({0})
    attempts = await slow_start(5, server.call, initial=5)
    assert len(server.batches) == 1
    assert len(attempts.done) == 4


async def test_bug_in_a_call_is_raised() -> None:
    async def call(number: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as caught:
        await slow_start(3, call)
    assert caught.group_contains(ZeroDivisionError)


async def test_cancelled_calls_report_nothing_so_that_expectations_stay() -> None:  # EX-23
    server, reported = Server(), []

    async def reconcile() -> None:
        reported.append(await slow_start(10, server.call))

    async with asyncio.TaskGroup() as group:
        task = group.create_task(reconcile())
        await asyncio.sleep(1.5)
        task.cancel()
    assert reported == []
    assert [len(batch) for batch in server.batches.values()] == [1, 2]


async def test_outcome_that_nobody_knows_is_told_from_a_refusal() -> None:  # EX-19, EX-23
    errors = (ForbiddenError(403, "Forbidden", "quota"), TransportError("cut"), ServerError(500, "", "down"))

    async def call(number: int) -> None:
        raise errors[number]

    attempts = await slow_start(5, call, initial=3)
    assert [failure.error for failure in attempts.failures] == list(errors)
    assert attempts.undone == 1 + 2


def test_missing_objects_and_terminating_namespaces_need_no_retry() -> None:
    gone = Failure(0, NotFoundError(404, "NotFound", "gone"))
    cause = Cause("metadata.namespace", "NamespaceTerminating", "ends")
    ending = Failure(1, ForbiddenError(403, "Forbidden", "ends", causes=(cause,)))
    refused = Failure(2, ForbiddenError(403, "Forbidden", "quota"))
    assert Attempts((), (gone, ending, refused), 0).error is refused.error
    assert Attempts((), (gone, ending), 0).error is None
    assert Attempts((), (), 1).error is None
