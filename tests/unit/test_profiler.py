import asyncio
import sys
import threading
from types import FrameType

import pytest

from kcr.stacks import IDLE, LOOP, collapsed, profile


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


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_waiting_loop_is_idle(loop: str) -> None:
    waiting: list[str] = []

    async def wait() -> None:
        await asyncio.sleep(0.3)

    def look(ident: int) -> None:
        waiting.append(collapsed(sys._current_frames()[ident]))

    timer = threading.Timer(0.1, look, (threading.get_ident(),))
    timer.start()
    factory = pytest.importorskip("uvloop").new_event_loop if loop == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(wait())
    timer.join()
    assert waiting == [IDLE]


@pytest.mark.asyncio
async def test_code_of_the_loop_itself_is_its_own_line() -> None:
    found: list[str] = []

    class Probe:
        def __del__(self) -> None:
            found.append(collapsed(sys._getframe(1)))

    loop = asyncio.get_running_loop()
    probe = Probe()
    # The last reference is dropped by the loop, when it discards the handle.
    loop.call_soon(id, probe)
    del probe
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert found == [LOOP]


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
