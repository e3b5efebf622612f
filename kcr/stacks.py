"""Call stacks of threads and tasks: where a process is at one moment, and which of the lines are the user's.

Everything here only reads, because a stuck process is inspected while it is stuck, in a signal handler or in another
thread than the event loop's.

A sampling profiler of the program's thread has collapsed stacks as output. Another thread samples the stack some 100
times a second, which costs the program a few percent while it lasts, and nothing otherwise. C code that keeps the
interpreter lock is seen at the line that calls it.
"""

import _thread
import asyncio
import selectors
import site
import sys
import sysconfig
import threading
import traceback
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NamedTuple

from kcr.arguments import is_mistake

# The innermost frames of a stack that are shown.
MAX_FRAMES = 12

# Where installed packages lie, and where code lies that is no user's own: Python's library and kcr.
_SITES = tuple(
    f"{path}/"
    for path in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages(),
                 site.getusersitepackages()}
)  # fmt: skip
# The installed packages that kcr calls itself: none of them is the program.
_LIBRARIES = {
    "aiohttp", "click", "cryptography", "kubernetes_asyncio", "msgspec", "opentelemetry",
    "prometheus_client", "rich", "structlog", "tenacity", "uvloop", "yaml",
}  # fmt: skip
_KCR = f"{Path(__file__).parent}/"
_DEVCLUSTER = "/kcr_devcluster/"
_STDLIB = f"{Path(threading.__file__).parent}/"
# The files of the event loop itself.
LOOP_FILES = (f"{Path(asyncio.__file__).parent}/", selectors.__file__)

# Of a profile: how often the stack is read, how long at most, and how many of its frames.
SAMPLES_PER_SECOND = 100
MAX_PROFILE_SECONDS = 60
_SAMPLED_FRAMES = 100

# Where a loop waits for something to do; the second is the innermost Python of uvloop, and of a loop that has ended.
_WAITING = (selectors.__file__, asyncio.runners.__file__)
# The stacks of a program that has nothing to do, and of the loop's own code.
IDLE, LOOP = "(idle)", "(event loop)"


class Line(NamedTuple):
    """A line of code that a stack has.

    Attributes:
        file: The path of its file.
        number: Its number.
        function: The function that it is in.
    """

    file: str
    number: int
    function: str

    def __str__(self) -> str:
        """Return the line as it is shown: `server.py:12 serve`."""
        return f"{self.file.rpartition('/')[2]}:{self.number} {self.function}"


def shown(lines: Sequence[Line], max_frames: int) -> str:
    """Return the innermost lines of a stack; the innermost line of the user's own code is always among them.

    Which line of his called a library tells a user more than where in the library it waits.

    Args:
        lines: The stack, the innermost line last.
        max_frames: How many lines; with one, it is the innermost of all.
    """
    is_own = own_lines(lines)
    own = next((place for place in reversed(range(len(lines))) if is_own[place]), None)
    if own is None or own >= len(lines) - max_frames or max_frames < 2:
        return " > ".join(map(str, lines[-max_frames:]))
    # Its callers are most likely the user's, too; the innermost of the library's lines names the awaited operation.
    outer = [line for place, line in enumerate(lines[: own + 1]) if is_own[place]]
    return " > ".join([*map(str, outer[1 - max_frames :]), "…", str(lines[-1])])


def own_lines(lines: Sequence[Line]) -> list[bool]:
    """Return of each line of a stack whether it is the user's own code; it may be installed.

    Args:
        lines: The stack, the innermost line last.
    """
    package = _package(_entry(lines))
    return [_is_program(line.file, package) for line in lines]


def own_place(trace: TracebackType | None) -> str:
    """Return the innermost place of a traceback in the user's own code, `server.py:12 in serve`; empty for none."""
    codes = ((frame.f_code, number) for frame, number in traceback.walk_tb(trace))
    lines = [Line(code.co_filename, number, code.co_name) for code, number in codes]
    own = [line for line, is_own in zip(lines, own_lines(lines), strict=True) if is_own]
    if not own:
        return ""
    inside = "" if own[-1].function == "<module>" else f" in {own[-1].function}"
    return f"{own[-1].file.rpartition('/')[2]}:{own[-1].number}{inside}"


def _entry(lines: Sequence[Line]) -> str:
    """Return the file at which the program begins; empty when none of it is on the stack.

    Of installed packages that call each other the outermost is the program: its reconciler is called by kcr.
    Functions that kcr's own libraries call are theirs.
    """
    by_library = False
    for file in (line.file for line in lines):
        package = _package(file)
        if package.rpartition("/")[2] in _LIBRARIES:
            by_library = True
        elif _is_kcr(file):
            by_library = False
        elif _is_program(file, package) and not (package and by_library):
            return file
    return ""


def _is_program(file: str, package: str) -> bool:
    if file.startswith("<") or _is_kcr(file):
        return False
    return _package(file) == package if file.startswith(_SITES) else not file.startswith(_STDLIB)


def _is_kcr(file: str) -> bool:
    return file.startswith(_KCR) or _DEVCLUSTER in file


def _package(file: str) -> str:
    """Return the installed package that a file is of, as its path; empty for none, and for kcr."""
    root = next((path for path in _SITES if file.startswith(path) and not _is_kcr(file)), None)
    return "" if root is None else root + file[len(root) :].partition("/")[0]


def trace_of(error: BaseException) -> Any:
    """Return the `exc_info` of an exception, from the author's first line on.

    Of an author's mistake it has the lines of his code alone; None if there are none.

    Args:
        error: The exception; its innermost cause may be the mistake.
    """
    origin = error
    while origin.__cause__ is not None:
        origin = origin.__cause__
    found = origin if is_mistake(origin) else error
    frames = list(traceback.walk_tb(found.__traceback__))
    is_own = own_lines([Line(frame.f_code.co_filename, number, frame.f_code.co_name) for frame, number in frames])
    trace: TracebackType | None = None
    if not is_mistake(found):
        trace = error.__traceback__
        for _ in range(is_own.index(True) if True in is_own else 0):
            trace = trace.tb_next if trace else None
        return type(error), error, trace
    for (frame, number), own in zip(reversed(frames), reversed(is_own), strict=True):
        trace = TracebackType(trace, frame, frame.f_lasti, number) if own else trace
    return None if trace is None else (type(origin), origin, trace)


def await_stack(task: asyncio.Task[Any], max_frames: int = 3) -> str:
    """Name the lines at which a task waits, the innermost last; see `shown`.

    Args:
        task: The task. Of one that runs just now only the outermost line is known.
        max_frames: How many of the innermost lines.
    """
    frames: list[Line] = []
    awaited: Any = task.get_coro()
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is None:
            frame = getattr(awaited, "ag_frame", None)
        if frame is not None:
            frames.append(Line(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return shown(frames, max_frames) or "not started"


def stuck_tasks(tasks: Collection[asyncio.Task[Any]]) -> list[asyncio.Task[Any]]:
    """Return the tasks that keep a shutdown from its end: cancelled, not ended, and waiting for no other task.

    All others wait for these, or are to be cancelled after them. Where there are none, it is all tasks.
    """
    stuck = [task for task in tasks if task.cancelling() and not _waits_for_tasks(task)]
    return sorted(stuck or tasks, key=asyncio.Task.get_name)


def _waits_for_tasks(task: asyncio.Task[Any]) -> bool:
    innermost = await_stack(task, 1)
    return innermost.startswith("taskgroups.py:") or (innermost.startswith("tasks.py:") and innermost.endswith("_wait"))


class Stacks(NamedTuple):
    """Where a process was at one moment.

    Attributes:
        threads: The calls of each thread by its id, the innermost last.
        tasks: Names of the event loop's tasks, and where each waits.
    """

    threads: dict[int, str]
    tasks: list[tuple[str, str]]

    def named_threads(self) -> list[tuple[str, str]]:
        """Return the names of the threads, and the calls of each."""
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        return [(names.get(ident, str(ident)), calls) for ident, calls in self.threads.items()]


def collect_stacks(loop: asyncio.AbstractEventLoop, interrupted: FrameType | None = None) -> Stacks:
    """Return where all threads are, and all tasks of an event loop.

    Args:
        loop: The event loop.
        interrupted: In a signal handler the frame that the signal has interrupted: the thread is in the handler itself,
            and the interrupted frame counts. None otherwise.
    """
    frames = dict(sys._current_frames())
    if interrupted is not None:
        frames[_thread.get_ident()] = interrupted
    threads = {ident: calls_of(frame) for ident, frame in frames.items()}
    waiting = ((task.get_name(), await_stack(task, MAX_FRAMES)) for task in asyncio.all_tasks(loop))
    return Stacks(threads, sorted(waiting))


def calls_of(frame: FrameType | None, max_frames: int = MAX_FRAMES) -> str:
    """Return the innermost calls of a frame, the innermost last: `server.py:12 serve > server.py:40 read`."""
    lines: list[Line] = []
    while frame is not None:
        lines.append(Line(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return shown(lines[::-1], max_frames)


def loop_calls(frame: FrameType | None, max_frames: int = 3) -> str:
    """Return the innermost calls that the event loop makes just now, the innermost last; empty when it only waits.

    Args:
        frame: The innermost frame of the loop's thread.
        max_frames: How many lines; see `shown`.
    """
    lines: list[Line] = []
    while frame is not None and not frame.f_code.co_filename.startswith(LOOP_FILES):
        lines.append(Line(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return shown(lines[::-1], max_frames)


async def profile(thread: int, seconds: float) -> str:
    """Return how often each stack of a thread was seen, a line each, most often first: `outer;inner 12`.

    Tools for flame graphs read this format. The frames below the event loop are left out; when its own code runs, the
    stack is `(event loop)`, and `(idle)` when it waits. (uvloop's own code is no Python: all of its time without a
    callback is idle.)

    Args:
        thread: The thread.
        seconds: How long to sample.
    """
    counts: Counter[str] = Counter()
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while loop.time() < end:
        await asyncio.sleep(1 / SAMPLES_PER_SECOND)
        counts[collapsed(sys._current_frames().get(thread))] += 1
    return "".join(f"{stack} {count}\n" for stack, count in counts.most_common())


def collapsed(frame: FrameType | None) -> str:
    """Return a stack on one line, the outermost call first: `run (worker.py:130);reconcile (website.py:12)`."""
    codes: list[tuple[str, str]] = []
    is_waiting = frame is None or frame.f_code.co_filename in _WAITING
    while frame is not None and len(codes) < _SAMPLED_FRAMES:
        code = frame.f_code
        codes.append((code.co_filename, f"{code.co_qualname} ({code.co_filename.rpartition('/')[2]}:{frame.f_lineno})"))
        frame = frame.f_back
    codes.reverse()
    # The program up to its event loop, and the loop, are the same in all.
    first = next((number for number, (file, _) in enumerate(codes) if file.startswith(LOOP_FILES)), len(codes))
    calls = [(file, call) for file, call in codes[first:]] if first < len(codes) else codes
    while calls and calls[0][0].startswith(LOOP_FILES):
        calls.pop(0)
    return ";".join(call.replace(";", ":") for _, call in calls) or (IDLE if is_waiting else LOOP)
