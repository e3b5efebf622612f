import asyncio
import sys
import threading
from types import FrameType

import pytest

from kcr.debug.profiler import IDLE, collapsed, profile


def innermost() -> FrameType:
    return sys._getframe()


def outer() -> FrameType:
    return innermost()


@pytest.mark.asyncio
async def test_stack_begins_above_the_event_loop() -> None:
    calls = collapsed(outer()).split(";")
    names = [call.partition(" ")[0] for call in calls]
    assert names[-3:] == ["test_stack_begins_above_the_event_loop", "outer", "innermost"]
    assert "test_profiler.py:" in calls[-1]
    assert not [call for call in calls if "base_events" in call]


def test_waiting_loop_is_one_line() -> None:
    waiting: list[str] = []

    async def wait() -> None:
        await asyncio.sleep(0.3)

    def look(ident: int) -> None:
        waiting.append(collapsed(sys._current_frames()[ident]))

    timer = threading.Timer(0.1, look, (threading.get_ident(),))
    timer.start()
    asyncio.run(wait())
    timer.join()
    assert waiting == [IDLE]


def busy(ended: threading.Event) -> None:
    while not ended.is_set():
        sum(range(1000))


@pytest.mark.asyncio
async def test_profile_names_what_a_thread_does() -> None:
    ended = threading.Event()
    thread = threading.Thread(target=busy, args=(ended,))
    thread.start()
    assert thread.ident is not None
    text = await profile(thread.ident, 0.3)
    ended.set()
    stack, count = text.splitlines()[0].rsplit(" ", 1)
    assert ";busy (test_profiler.py:" in stack
    assert int(count) >= 1
