"""A command as a process: its event loop, signals that end it, and SIGUSR1, which logs its stacks.

Users send SIGUSR1 to a process that is stuck, so its handler is Python's own and not the event loop's: it
also runs while a reconciler blocks the loop in Python code or in a system call. It only reads. A thread of its own
writes, because the signal may arrive in the middle of a write to stderr, which is not reentrant.
"""

import _thread
import asyncio
import errno
import gc
import logging
import os
import resource
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import structlog

from kcr.app.grace import GracePeriod
from kcr.log import get_logger
from kcr.log.ratelimited import RateLimitedLogger
from kcr.stacks import Stacks, collect_stacks

_log = get_logger()

# `gc.set_threshold`: so many allocations more than deallocations start a collection.
_YOUNG_OBJECTS = 20_000
# The errors of `accept` when there is no room for another connection.
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def run_to_end(
    main: Callable[[], Coroutine[Any, Any, int]],
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
    *,
    force_on_second_signal: bool = True,
    grace: GracePeriod | None = None,
) -> int | None:
    """Run a command until it ends, or SIGTERM, SIGINT or SIGHUP ends it.

    The first signal cancels `main`, which gets a few seconds to end in order; so does the rest of the process when
    `main` has ended. SIGUSR1 writes the stacks to the log.

    Args:
        main: The command.
        loop_factory: Makes the event loop; None for the standard one.
        force_on_second_signal: Whether a second signal ends the process at once. Not for a process that would leave
            others behind.
        grace: How long the process has to end, for a command that changes it or begins to end; None for the usual time.

    Returns:
        The exit code of `main`, or None when a signal ended it.
    """
    grace = grace or GracePeriod()
    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            return runner.run(_until_signal(main, force_on_second_signal, grace))
    finally:
        grace.end_loop()


async def _until_signal(
    main: Callable[[], Coroutine[Any, Any, int]], force_on_second_signal: bool, grace: GracePeriod
) -> int | None:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    loop.set_exception_handler(LoopErrors().handle)
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        """Python's own handler: it runs also while the event loop is blocked."""
        received.append(number)
        if len(received) == 1:
            grace.begin(128 + number)
        elif force_on_second_signal:
            os._exit(128 + number)

    def stop(number: int) -> None:
        """Begin to stop: the event loop's handler, for the first signal."""
        if not task.cancelling():
            grace.begin_on_loop(128 + number)
            task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop, number)
        # The loop gets the signal all the same, by a file that it reads.
        signal.signal(number, note)
    with write_stacks_on_signal(loop):
        try:
            code = await main()
        except asyncio.CancelledError:
            if not received:
                raise
            task.uncancel()
            return None
        except Exception as error:
            grace.begin_on_loop(1, error)
            raise
        grace.begin_on_loop(code)
        return code


class LoopErrors:
    """The event loop's exception handler: logs the exception, and the process continues."""

    def __init__(self) -> None:
        self._exhausted = RateLimitedLogger(_log)

    def handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log one exception; of connections that cannot be accepted one line in 30 s, for the loop tries again."""
        error = context.get("exception")
        if not (isinstance(error, OSError) and error.errno in _EXHAUSTED):
            loop.default_exception_handler(context)
        else:
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            self._exhausted.error(
                loop.time(),
                "cannot accept connections, retrying until some are closed",
                error=os.strerror(error.errno), open_files_limit=limit, remedy="raise the limit with ulimit -n",
            )  # fmt: skip


def tune_gc() -> None:
    """Freeze imported objects (`gc.freeze`), and collect garbage less often; called after the imports.

    Modules are never garbage, and to walk over them in every full collection stops the loop for 40 ms and more.
    Requests make many objects that others refer to and hardly a cycle: to look every 700 of them, as Python does,
    takes an eighth of a busy controller's time and finds nothing.
    """
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS)


def fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's factory when it is installed, else None."""
    try:
        import uvloop  # noqa: PLC0415  # an extra
    except ImportError:
        return None
    return uvloop.new_event_loop


@contextmanager
def write_stacks_on_signal(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Log all stacks at each SIGUSR1 for as long as the context lives, at any log level; for the main thread only."""

    def answer(number: int, frame: FrameType | None) -> None:
        stacks = collect_stacks(loop, frame)
        try:
            # Not `threading.Thread`: it takes a lock that the main thread may hold just now.
            _thread.start_new_thread(_write, (stacks,))
        except RuntimeError:
            # A further thread does not fit, and the interrupted code must not fail for that reason. So the loop
            # writes them as soon as it is not busy; one that has been closed has no reader.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_write, stacks)

    before = signal.signal(signal.SIGUSR1, answer)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def _write(stacks: Stacks) -> None:
    # The sender of the signal wants to see the lines, whatever the level of the others.
    log: Any = structlog.wrap_logger(None, wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET))
    log.info("stacks, because of SIGUSR1", threads=len(stacks.threads), tasks=len(stacks.tasks))
    for name, calls in stacks.named_threads():
        log.info("thread", thread=name, where=calls)
    for name, where in stacks.tasks:
        log.info("task", task=name, where=where)
