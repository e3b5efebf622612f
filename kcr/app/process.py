"""A command as a process: its event loop, signals that end it, and SIGUSR1, which logs its stacks.

Users send SIGUSR1 to a process that is stuck, so its handler is Python's own and not the event loop's: it
also runs while a reconciler blocks the loop in Python code or in a system call. It only reads. A thread of its own
writes, because the signal may arrive in the middle of a write to stderr, which is not reentrant.

The process has a grace period to end, from its first signal, failure or the end of its command. After it the process
exits by force, and the log names the cause: a task that ignores its cancellation, code that blocks the event loop, a
thread that is no daemon (Python waits for its end, as for those of executors, and it could write beside the next
leader), a function of `atexit`. A raw thread watches, which runs until the interpreter is finalized. A program that
does something else after the command, or around it, is left to itself.
"""

import _thread
import asyncio
import errno
import gc
import logging
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import structlog

from kcr.app.faults import unexpected
from kcr.errors import KcrError
from kcr.log import get_logger
from kcr.log.ratelimited import RateLimitedLogger
from kcr.stacks import Stacks, await_stack, calls_of, collect_stacks, stuck_tasks

_log = get_logger()

# A process has five seconds to end; hanging parts are left behind by force.
GRACE_SECONDS = 4.5
# So much later the thread ends a process whose event loop is blocked, or closed, and has not done so itself.
_BLOCKED_SECONDS = 0.2
# So long a process that ends by force may take to log why: the reader of its stderr may have stalled.
_LOG_SECONDS = 0.2
# Lines of a stack that are shown.
_FRAMES = 3


class GracePeriod:
    """The time that the process has to end.

    Attributes:
        seconds: Its length; changed before it begins.
    """

    def __init__(self) -> None:
        """Make one on the main thread, for a command that it is about to run."""
        self.seconds = GRACE_SECONDS
        # The program that calls the command: its outermost frame, and all others' while it runs.
        self._program = _outermost(sys._getframe())
        # None before it begins; the first reason to end decides.
        self._code: int | None = None
        self._failure: Exception | None = None
        self._is_loop_closed = False
        # What the second thread logs once the time is over.
        self._event = ""
        self._lines: Sequence[Mapping[str, str]] = ()
        self._is_over, self._written = threading.Event(), threading.Event()

    def begin(self, code: int, failure: Exception | None = None) -> None:
        """Begin, at the first call; in a signal handler of Python, or on any thread.

        Args:
            code: The exit code of a process that is ended by force.
            failure: The exception that ends the program: a forced end logs it, unless the program has printed it.
        """
        if self._code is None:
            self._code, self._failure = code, failure
            with suppress(RuntimeError):  # there is no room for another thread
                _thread.start_new_thread(self._watch, ())
                # Now: once the interpreter ends, Python 3.12 starts no thread.
                _thread.start_new_thread(self._write, ())

    def begin_on_loop(self, code: int, failure: Exception | None = None) -> None:
        """Begin, and let the event loop name the tasks that do not end: it knows them best.

        Args:
            code: As for `begin`.
            failure: As for `begin`.
        """
        self.begin(code, failure)
        asyncio.get_running_loop().call_later(self.seconds, self._give_up)

    def end_loop(self) -> None:
        """Note that the event loop is closed, and that only threads and functions of `atexit` can keep the process."""
        self._is_loop_closed = True

    def _give_up(self) -> None:
        tasks = asyncio.all_tasks()
        stuck = [{"task": task.get_name(), "where": await_stack(task)} for task in stuck_tasks(tasks)]
        if not any(task.cancelling() for task in tasks) and (threads := _threads()):
            # The loop is being closed, and waits for its executor.
            self._end("thread does not end", threads)
        self._end("task does not end", stuck)

    def _watch(self) -> None:
        time.sleep(self.seconds + _BLOCKED_SECONDS)
        where = [{"where": calls_of(_main_frame(), _FRAMES)}]
        if not self._is_loop_closed:
            self._end("event loop is blocked, ending by force", where)
        outermost = outermost_of(_main_frame)
        if outermost is None or outermost is self._program or outermost.f_code.co_name == "<module>":
            self._is_over.set()
            return
        if outermost.f_code.co_filename == threading.__file__:
            self._end("thread does not end", _threads())
        self._end("exit handler does not end", where)

    def _end(self, event: str, lines: Sequence[Mapping[str, str]]) -> None:
        """End the process; before that, log an event for each of the lines, as far as stderr takes them in time."""
        if not self._is_over.is_set():
            self._event, self._lines = event, lines
            self._is_over.set()
        self._written.wait(_LOG_SECONDS)
        os._exit(self._code or 0)

    def _write(self) -> None:
        """Log why the process ends by force: a thread's work, for a write blocks when the pipe of stderr is full."""
        self._is_over.wait()
        try:
            if self._lines and self._failure is not None and not self._is_loop_closed:
                is_told = isinstance(self._failure, KcrError)
                _log.error("failed", error=str(self._failure) if is_told else unexpected(self._failure))
            for fields in self._lines:
                _log.error(self._event, **fields)
            sys.stdout.flush()
        finally:
            self._written.set()


def _main_frame() -> FrameType | None:
    return sys._current_frames().get(threading.main_thread().ident or 0)


def outermost_of(frame_of: Callable[[], FrameType | None]) -> FrameType | None:
    """Return the outermost frame of a thread that runs on meanwhile.

    It may suspend a coroutine while this climbs to its callers, and then that frame has none: it seems the outermost.
    The next climb begins with another frame, so two that agree are right.

    Args:
        frame_of: Returns the frame that the thread executes just now.
    """
    before, found = None, _outermost(frame_of())
    while found is not before:
        before, found = found, _outermost(frame_of())
    return found


def _outermost(frame: FrameType | None) -> FrameType | None:
    while frame is not None and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _threads() -> list[dict[str, str]]:
    """Return the threads for which Python waits at the end, and the lines at which they are.

    Those that wait for the end of another one are left out, unless all do.
    """
    frames = sys._current_frames()
    kept = [one for one in threading.enumerate() if not one.daemon and one is not threading.main_thread()]
    found = [(one.name, frames.get(one.ident or 0)) for one in kept]
    causes = [(name, frame) for name, frame in found if not _joins(frame)]
    return [{"thread": name, "where": calls_of(frame, _FRAMES)} for name, frame in causes or found]


def _joins(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_filename == threading.__file__:
        if frame.f_code.co_name == "join":
            return True
        frame = frame.f_back
    return False


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
