"""Replay of requests."""

import asyncio
from itertools import count
from typing import Any

import pytest

from kcr_devcluster.apiserver.protocol.replay import PendingError, answer_to, drawn, kept, remember, replay, suspended
from kcr_devcluster.apiserver.protocol.responses import StatusError


def ask(question: str) -> Any:
    async def resolve() -> None:
        remember({question: question.upper()})

    found = answer_to(question)
    if found is None:
        raise PendingError(resolve)
    return found


@pytest.mark.asyncio
async def test_answers_are_remembered_until_the_request_ends() -> None:
    runs = count()

    async def run() -> list[Any]:
        next(runs)
        return [ask("a"), ask("b"), ask("a")]

    assert await replay(run) == ["A", "B", "A"]
    assert next(runs) == 3
    assert answer_to("a") is None


@pytest.mark.asyncio
async def test_draws_are_the_same_in_each_run() -> None:
    numbers = count()
    seen = []

    async def run() -> None:
        seen.append([drawn("uid", lambda: next(numbers)), drawn("uid", lambda: next(numbers))])
        ask("a")
        seen.append([drawn("uid", lambda: next(numbers))])

    await replay(run)
    assert seen == [[0, 1], [0, 1], [2]]


@pytest.mark.asyncio
async def test_part_of_a_request_runs_again_alone() -> None:
    runs = []

    async def part() -> Any:
        runs.append("part")
        return ask("b")

    async def run() -> list[Any]:
        runs.append("run")
        return [ask("a"), await replay(part), ask("b")]

    assert await replay(run) == ["A", "B", "B"]
    assert runs == ["run", "run", "part", "part"]


@pytest.mark.asyncio
async def test_draws_outside_of_requests_are_new() -> None:
    numbers = count()
    assert [drawn("uid", lambda: next(numbers)) for _ in range(2)] == [0, 1]


@pytest.mark.asyncio
async def test_endless_questions_end_with_a_timeout() -> None:
    numbers = count()

    async def run() -> None:
        ask(str(next(numbers)))

    with pytest.raises(StatusError) as caught:
        await replay(run)
    assert caught.value.code == 504


@pytest.mark.asyncio
async def test_task_that_an_answer_starts_draws_for_itself() -> None:
    numbers, started = count(), asyncio.Event()

    async def outlive() -> int:
        await started.wait()
        return drawn("uid", lambda: next(numbers))

    async def run() -> int:
        uid = drawn("uid", lambda: next(numbers))
        if answer_to("a") is None:
            raise PendingError(resolve)
        # Between two runs of a request, the task must not take what the request draws.
        started.set()
        await asyncio.sleep(0)
        return uid

    async with asyncio.TaskGroup() as group:
        tasks: list[asyncio.Task[int]] = []

        async def resolve() -> None:
            with suspended():
                tasks.append(group.create_task(outlive()))
            remember({"a": "A"})

        assert await replay(run) == 0
    assert tasks[0].result() == 1


@pytest.mark.asyncio
async def test_what_a_request_keeps_is_released_when_it_ends() -> None:
    made, released = count(), list[int]()

    async def run() -> int | None:
        found = kept("number", lambda: next(made), released.append)
        ask("a")
        ask("b")
        assert released == []
        return found

    async def fail() -> None:
        await run()
        raise StatusError(403, "Forbidden", "no")

    assert (await replay(run), released) == (0, [0])
    released.clear()
    with pytest.raises(StatusError):
        await replay(fail)
    assert released == [1]
    # A request that runs once keeps nothing.
    assert kept("number", lambda: next(made), released.append) is None
    assert next(made) == 2
