"""Virtual time: an event loop whose time jumps to the next timer, and a clock that follows it.

Ten minutes of backoff pass in a microsecond, and always in the same order: time moves only while every
task waits and nothing is left to do. Sockets and threads do not follow virtual time, so both are refused.

Timers fire at their very moment. Those of uvloop, on which `kcr run` may run, do not: `VirtualLoop(coarse_timers=…)`
imitates them.

Two controllers that write against each other, and one that requeues its key at once, always leave something to do. So
a moment ends after `MOST_PASSES` passes of the loop. From then on passes take time, little at first and more with every
round, so that hours pass as well; a moment of very much work is hardly changed by it.

`eventually` and `consistently` poll on whatever loop a test runs.
"""

import asyncio
import inspect
import itertools
import math
import selectors
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor
from contextvars import Context
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, TypeVar, TypeVarTuple, overload

from kcr.annotations import NotNegative
from kcr.arguments import checked, ran
from kcr.errors import NotFoundError
from kcr.log import get_logger
from kcr.stacks import await_stack

T = TypeVar("T")
# Between two looks of `eventually` and `consistently`.
POLL_SECONDS = 0.05
Arguments = TypeVarTuple("Arguments")

# So many passes of the loop take no time. A thousand pods that run side by side take some six hundred.
MOST_PASSES = 20_000
# After them, so many passes take so long; with each round of passes twice as long.
_STEP_PASSES, _STEP_SECONDS, _ROUND_PASSES = 100, 0.001, 2_000
# The longest delay of a coarse timer, which is uvloop's: a hundred years.
_LONGEST_SECONDS = 100 * 365.25 * 86_400
# Coarse timers of one millisecond are this far apart at most, in a drawn order, and fire together.
_APART_SECONDS = 0.0001

_log = get_logger()


class StallError(RuntimeError):
    """Every task waits, and no timer would ever wake one."""


class _NoWait(selectors.SelectSelector):
    """Reports nothing and never sleeps; where a real selector would sleep, time jumps instead."""

    def __init__(self) -> None:
        super().__init__()
        self.idle: Callable[[float | None], None] = lambda timeout: None
        self.busy: Callable[[], None] = lambda: None

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        # The loop registers one file of its own, the pipe through which threads and signals wake it.
        if self.get_map():
            raise RuntimeError("virtual time knows no sockets or pipes: run this test on an ordinary loop")
        return super().register(fileobj, events, data)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self.idle(timeout)
        else:
            self.busy()
        return []


class _NumberedTask(asyncio.Task[Any]):
    """A task whose hash is its number on the loop.

    A task group keeps its tasks in a set, and cancels them in the order of their hashes. Those of usual tasks are
    addresses in memory, which differ from process to process.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Any], *, loop: "VirtualLoop", **options: Any) -> None:
        # First: asyncio keeps tasks in a set as well.
        self._number = next(loop.task_numbers)
        super().__init__(coroutine, loop=loop, **options)

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop for tests; `time()` starts at 0 and moves in jumps.

    Attributes:
        runs_threads_inline: `kcr.in_thread` calls its function on the loop.
        task_numbers: The number of the next task.

    When every task waits and no timer is set, the loop raises `StallError`, which names the tasks and where
    they wait: nothing could ever happen again.
    """

    def __init__(self, *, coarse_timers: Random | None = None) -> None:
        """Begin at 0.

        Args:
            coarse_timers: None for timers that fire at their very moment. Otherwise they are those of uvloop: in whole
                milliseconds, so that a timer fires up to half a millisecond before its time, and timers of one
                millisecond in an order of their own, which this draws. A delay of half a millisecond or less is a
                `call_soon`, and has a handle without `when`. `time()` is in whole milliseconds as well.
        """
        self.runs_threads_inline: bool = True
        self.task_numbers: itertools.count[int] = itertools.count()
        selector = _NoWait()
        self._virtual_now = 0.0
        self._coarse_timers = coarse_timers
        self.stalled: bool = False
        # Futures for the end of the present moment, and for the next one.
        self._settled: list[asyncio.Future[None]] = []
        self._jumped: list[asyncio.Future[None]] = []
        # The passes of the loop since nothing was left to do.
        self._passes = 0
        super().__init__(selector)
        self.set_task_factory(lambda loop, coroutine, **options: _NumberedTask(coroutine, loop=self, **options))
        self._move_to(0.0)
        selector.idle, selector.busy = self._jump, self._count_pass

    def time(self) -> float:
        """Return the seconds that have passed on this loop."""
        return self._virtual_now if self._coarse_timers is None else _whole_milliseconds(self._virtual_now)

    def exact_time(self) -> float:
        """Return the same, never rounded: the system's clock is exact whatever the loop's is."""
        return self._virtual_now

    def call_at(
        self,
        when: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call back at a time of this loop; coarse timers return a plain handle when that is now."""
        if self._coarse_timers is not None:
            milliseconds = round(min(when - self.time(), _LONGEST_SECONDS) * 1000)
            if milliseconds <= 0:
                return self.call_soon(callback, *args, context=context)  # type: ignore[return-value]  # as uvloop does
            when = self.time() + milliseconds / 1000 + self._coarse_timers.random() * _APART_SECONDS
        return super().call_at(when, callback, *args, context=context)

    def settled(self) -> asyncio.Future[None]:
        """Return a future that is done once nothing is left to do at the present moment."""
        future = self.create_future()
        self._settled.append(future)
        return future

    async def jumped(self, limit: float) -> None:
        """Return after time has moved to the next timer, at the latest at the moment `limit`."""
        future = self.create_future()
        self._jumped.append(future)
        # Coarse timers would come before a moment that is near, and time would never reach it.
        soonest = limit if self._coarse_timers is None else self.time() + 0.001
        alarm = self.call_at(max(limit, soonest), lambda: None)
        try:
            await future
        finally:
            alarm.cancel()

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Arguments], T], *args: *Arguments
    ) -> asyncio.Future[T]:
        """Refuse: a thread's work takes no virtual time, so its order among events is not deterministic."""
        raise RuntimeError("virtual time knows no threads: use kcr.in_thread, or run this test on an ordinary loop")

    def _count_pass(self) -> None:
        self._passes += 1
        if self._passes > MOST_PASSES and self._passes % _STEP_PASSES == 0:
            self._pass_time()

    def _pass_time(self) -> None:
        """Let time pass although work is left: at the latest the next timer is due then."""
        too_many = self._passes - MOST_PASSES
        if too_many == _STEP_PASSES:
            _log.warning(
                "the event loop is never idle, so virtual time passes although work is left",
                passes=self._passes,
                remedy="see which controllers write against each other, or requeue their keys at once",
            )
        end = self._virtual_now + _STEP_SECONDS * 2 ** min(too_many // _ROUND_PASSES, 20)
        self._move_to(max(self._virtual_now, min(end, self._next_timer())))
        _wake(self._settled)
        _wake(self._jumped)

    def _jump(self, timeout: float | None) -> None:
        self._passes = 0
        if self._settled:
            _wake(self._settled)
        elif timeout is None:
            self.stalled = True
            raise StallError(self._describe_stall())
        else:
            # The timer's own moment, not `now + timeout`: a callback that compares must find itself due.
            moment = self._next_timer()
            if self._coarse_timers is not None:
                # A loop wakes at some time of a timer's millisecond.
                moment = _whole_milliseconds(moment) + self._coarse_timers.random() * (0.001 - _APART_SECONDS)
            self._move_to(max(self._virtual_now, moment))
            _wake(self._jumped)

    def _move_to(self, moment: float) -> None:
        self._virtual_now = moment
        # The loop fires timers that are due within its clock's resolution. None may be early, and after some months
        # the usual nanosecond would vanish in the sum, so that nothing would ever come at all.
        self._clock_resolution = math.ulp(moment) if self._coarse_timers is None else 2 * _APART_SECONDS

    def _next_timer(self) -> float:
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]  # asyncio keeps its heap private
        return scheduled[0].when() if scheduled else math.inf

    def _describe_stall(self) -> str:
        lines = sorted(f"  {task.get_name()}: {await_stack(task)}" for task in asyncio.all_tasks(self))
        return "every task waits and no timer is set:\n" + "\n".join(lines)


def _whole_milliseconds(moment: float) -> float:
    # A whole number of milliseconds may be a hair less as a fraction of a second.
    return math.floor(moment * 1000 + 1e-3) / 1000


def _wake(waiting: list[asyncio.Future[None]]) -> None:
    for future in waiting:
        if not future.done():
            future.set_result(None)
    waiting.clear()


START = datetime(2026, 1, 1, tzinfo=UTC)


class VirtualClock:
    """A clock that shows `start` when its loop begins, and moves only as the loop's time does."""

    @checked
    def __init__(self, start: datetime = START) -> None:
        self._start = start

    def now(self) -> datetime:
        """Return the present moment of the running loop, timezone-aware UTC."""
        return self._start + timedelta(seconds=self.boottime())

    def boottime(self) -> float:
        """Return the running loop's time: a virtual machine is never suspended."""
        loop = asyncio.get_running_loop()
        return loop.exact_time() if isinstance(loop, VirtualLoop) else loop.time()

    @checked
    async def advance(self, seconds: NotNegative) -> None:
        """Let time pass, and return when everything due by then has been done."""
        await self.settle()
        await asyncio.sleep(seconds)
        await self.settle()

    async def settle(self) -> None:
        """Return when nothing is left to do at the present moment; no time passes."""
        await _virtual_loop().settled()

    @checked
    async def run_until(self, check: Callable[[], bool], *, seconds: NotNegative = 3600) -> None:
        """Let time pass until `check` holds, and stop at the very moment.

        Raises:
            AssertionError: It still does not hold after `seconds`.
        """
        loop = _virtual_loop()
        limit = loop.time() + seconds
        await loop.settled()
        while not ran(check(), "check"):
            if loop.time() >= limit:
                raise AssertionError(f"{check} does not hold after {seconds} s of virtual time")
            await loop.jumped(limit)
            await loop.settled()


def _virtual_loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        raise RuntimeError(
            "time passes by itself on this loop: mark the test with pytest.mark.kcr_virtual, and give an async fixture "
            "of its own loop_scope='function'"
        )
    return loop


@overload
async def eventually(check: Callable[[], Awaitable[T]], *, seconds: float = 30) -> T: ...
@overload
async def eventually(check: Callable[[], T], *, seconds: float = 30) -> T: ...
@checked
async def eventually(check: Callable[[], Any], *, seconds: NotNegative = 30) -> Any:
    """Poll until `check` returns something true, and return that.

    A check that raises AssertionError or NotFoundError does not hold yet. It may be a coroutine function.

    Raises:
        AssertionError: The last one raised by the check, or one that names it, after `seconds` of the loop's time.
    """
    loop = asyncio.get_running_loop()
    limit = loop.time() + seconds
    while True:
        failure: Exception | None = None
        try:
            answer = check()
            if ran(answer := await answer if inspect.isawaitable(answer) else answer, "check"):
                return answer
            last = repr(answer)
        except (AssertionError, NotFoundError) as error:
            failure, last = error, str(error)
        if loop.time() >= limit:
            name = getattr(check, "__name__", repr(check))
            raise AssertionError(f"{name}: not fulfilled after {seconds} s: {last}") from failure
        polls = 1.0
        if isinstance(loop, VirtualLoop):  # nothing changes before the next timer
            await loop.settled()
            polls += (min(loop._next_timer(), limit, loop.time() + 1) - loop.time()) // POLL_SECONDS
        await asyncio.sleep(polls * POLL_SECONDS)


@checked
async def consistently(check: Callable[[], Any], *, seconds: NotNegative = 5) -> None:
    """Poll for so many seconds of the loop's time, and require that `check` returns something true every time.

    It may be a coroutine function. Its exceptions are raised at once.

    Raises:
        AssertionError: It returned something false; the message says when.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    while (passed := loop.time() - began) <= seconds:
        answer = check()
        if not ran(answer := await answer if inspect.isawaitable(answer) else answer, "check"):
            name = getattr(check, "__name__", repr(check))
            raise AssertionError(f"{name}: no longer fulfilled after {passed:.3g} s: {answer!r}")
        await asyncio.sleep(POLL_SECONDS)
