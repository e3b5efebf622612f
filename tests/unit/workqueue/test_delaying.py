import asyncio
from collections.abc import Callable
from contextvars import Context

from kcr.workqueue import WorkQueue


class CoarseLoop(asyncio.SelectorEventLoop):
    """A loop that rounds delays to milliseconds, as uvloop does: what is due within half of one has no timer."""

    def call_at(  # type: ignore[override]  # a plain handle is what uvloop returns as well
        self, when: float, callback: Callable[..., object], *arguments: object, context: Context | None = None
    ) -> asyncio.Handle:
        if when - self.time() < 0.0005:
            return self.call_soon(callback, *arguments, context=context)
        return super().call_at(when, callback, *arguments, context=context)


async def keys_come() -> list[str]:
    queue: WorkQueue[str] = WorkQueue()
    # In the order of their deadlines, for a busy machine may take longer from one line to the next than these delays.
    queue.add_after("sooner", 0.00005)
    queue.add_after("soon", 0.0001)
    queue.add_after("later", 0.005)
    return [await queue.get() for _ in range(3)]


def test_delays_too_short_for_a_timer_lose_no_key() -> None:  # WQ-12, WQ-15
    with asyncio.Runner(loop_factory=CoarseLoop) as runner:
        assert runner.run(asyncio.wait_for(keys_come(), 5)) == ["sooner", "soon", "later"]
