import asyncio

import pytest

from kcr.dependents import slow_start
from kcr.errors import ForbiddenError, TransportError

pytestmark = pytest.mark.virtual


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
        pytest.param(1, [1], id="one"),
        pytest.param(7, [1, 2, 4], id="full-batches"),
        pytest.param(10, [1, 2, 4, 3], id="rest"),
    ],
)
async def test_batches_double_in_size(count: int, sizes: list[int]) -> None:
    server = Server()
    attempts = await slow_start(count, server.call)
    assert [len(batch) for batch in server.batches.values()] == sizes
    assert attempts.done == tuple(f"pod-{number}" for number in range(count))
    assert (attempts.failures, attempts.skipped) == ((), 0)


async def test_batch_with_a_failure_is_finished_and_the_last() -> None:
    attempts = await slow_start(10, Server({4, 5}).call)
    assert attempts.done == ("pod-0", "pod-1", "pod-2", "pod-3", "pod-6")
    assert [(failure.number, type(failure.error)) for failure in attempts.failures] == [
        (4, TransportError),
        (5, ForbiddenError),
    ]
    assert attempts.skipped == 3


async def test_first_batch_may_be_all_there_is() -> None:
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
