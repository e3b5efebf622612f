"""Blocking code in threads: results, deadlines, cancellation, and calls that run on."""

import asyncio
import threading
from collections.abc import Callable
from contextvars import ContextVar

import pytest
from structlog.testing import capture_logs

import kcr
from kcr.controller import ThreadBusyError, ThreadTimeoutError, is_abandoned
from kcr.controller.threads import MOST_ABANDONED
from kcr.testing import VirtualClock, eventually

COLOR: ContextVar[str] = ContextVar("color")


class Blocking:
    """A function that blocks until it is let go."""

    def __init__(self, *, fails: bool = False) -> None:
        self.begun, self.let_go = threading.Event(), threading.Event()
        self.saw_abandoned: bool | None = None
        self._fails = fails

    def __call__(self, value: str = "done") -> str:
        self.begun.set()
        assert self.let_go.wait(10)
        self.saw_abandoned = is_abandoned()
        if self._fails:
            raise OSError("the provider is away")
        return value


async def abandoned(blocking: Blocking, key: object = None) -> None:
    """Begin a call, and cancel its caller."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(kcr.in_thread(blocking, key=key))
        await asyncio.sleep(0)
        task.cancel()


async def ended(event: str, *blocking: Blocking) -> None:
    """Let abandoned calls end, and wait for their log lines."""
    with capture_logs() as logs:
        for one in blocking:
            one.let_go.set()
        await eventually(lambda: [line["event"] for line in logs] == [event] * len(blocking))


@pytest.mark.asyncio
async def test_result_and_exception_are_those_of_the_function() -> None:
    assert await kcr.in_thread(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await kcr.in_thread(divmod, 7, 0)


@pytest.mark.asyncio
async def test_loop_continues_while_the_function_blocks() -> None:
    blocking = Blocking()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(kcr.in_thread(blocking, "x"))
        await eventually(blocking.begun.is_set)
        assert not task.done()
        blocking.let_go.set()
    assert (task.result(), blocking.saw_abandoned) == ("x", False)


@pytest.mark.asyncio
async def test_function_has_the_context_of_its_caller() -> None:
    COLOR.set("red")
    assert await kcr.in_thread(COLOR.get) == "red"
    await kcr.in_thread(COLOR.set, "blue")
    assert COLOR.get() == "red"


@pytest.mark.asyncio
async def test_call_ends_at_its_deadline_and_the_function_runs_on() -> None:
    blocking = Blocking()
    with pytest.raises(ThreadTimeoutError, match=r"Blocking.* took longer than 0.01 s in its thread, and runs on"):
        await kcr.in_thread(blocking, timeout=0.01)
    await ended("abandoned call ended", blocking)
    assert blocking.saw_abandoned


@pytest.mark.asyncio
async def test_timeout_error_of_the_function_is_its_own() -> None:
    def late() -> None:
        raise TimeoutError("of the library")

    with pytest.raises(TimeoutError, match="of the library"):
        await kcr.in_thread(late, timeout=10)


@pytest.mark.asyncio
async def test_cancelled_caller_does_not_wait() -> None:
    blocking = Blocking(fails=True)
    await abandoned(blocking)
    await ended("abandoned call failed", blocking)
    assert blocking.saw_abandoned


@pytest.mark.asyncio
async def test_key_has_one_call_at_a_time() -> None:
    blocking, calls = Blocking(), list[str]()
    key, other = kcr.Key("default", "shop"), kcr.Key("default", "other")
    await abandoned(blocking, key)
    with pytest.raises(ThreadBusyError, match=r"is not called for default/shop: .* was abandoned for it"):
        await kcr.in_thread(calls.append, "same", key=key)
    await kcr.in_thread(calls.append, "other", key=other)
    await kcr.in_thread(calls.append, "none")
    await ended("abandoned call ended", blocking)
    await kcr.in_thread(calls.append, "again", key=key)
    assert calls == ["other", "none", "again"]


@pytest.mark.asyncio
async def test_abandoned_calls_are_bounded() -> None:
    many = [Blocking() for _ in range(MOST_ABANDONED)]
    for blocking in many:
        await abandoned(blocking)
    with pytest.raises(ThreadBusyError, match=f"{MOST_ABANDONED} abandoned calls still run: give the library a"):
        await kcr.in_thread(int)
    await ended("abandoned call ended", *many)
    assert await kcr.in_thread(int) == 0


@pytest.mark.kcr_virtual
async def test_virtual_time_calls_the_function_on_the_loop(kcr_clock: VirtualClock) -> None:
    COLOR.set("red")

    def work(read: Callable[[], str]) -> tuple[str, int]:
        return read(), threading.get_ident()

    assert await kcr.in_thread(work, COLOR.get, timeout=1, key="a") == ("red", threading.get_ident())
