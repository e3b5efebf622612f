"""The grace period of a process: the time that it has to end, from its first signal, failure or the end of its command.

After it the process exits by force, and the log names the cause: a task that ignores its cancellation, code that blocks
the event loop, a thread that is no daemon (Python waits for its end, as for those of executors, and it could write
beside the next leader), a function of `atexit`. A raw thread watches, which runs until the interpreter is finalized. A
program that does something else after the command, or around it, is left to itself.
"""

import _thread
import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import FrameType

from kcr.app.faults import unexpected
from kcr.errors import KcrError
from kcr.log import get_logger
from kcr.stacks import await_stack, calls_of, stuck_tasks

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
