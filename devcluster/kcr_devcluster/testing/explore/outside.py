"""What a scenario and an operator must not do in virtual time: named at its line instead of a hang or a chance.

Real sleeps, calls out of the process and random numbers raise an error where they happen, and the error is raised once
more at the end of the run: a reconciler may have caught it, and tried again. Code that never awaits is interrupted, and
a call that is not awaited, which does nothing, is named.
"""

import asyncio
import ctypes
import os
import random
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from types import FrameType
from typing import Any

from kcr.stacks import Line, await_stack, loop_calls, own_lines

# The name of the task that plays the scenario.
SCENARIO_TASK = "scenario"
# A run that takes so many seconds of the processor does not end.
_MOST_SECONDS = 30.0
_SLEEP = "use asyncio.sleep, which passes in virtual time"
_OUT = "give the operator a fake that lives in the process"
_DRAW = "draw from manager.random, which each run begins anew"
# That of the manager can be guessed.
_DRAW_SECRETS = f"{_DRAW}, and passwords from a function that is given to the reconciler, by the test another one"
# So many frames of a coroutine's call are remembered: kcr's own checks of arguments are among them.
_ORIGIN = 4
_AUDITED = {
    "time.sleep": ("sleeps in real time", _SLEEP),
    "socket.connect": ("connects to another process", _OUT),
    "socket.getaddrinfo": ("resolves a name", _OUT),
    "subprocess.Popen": ("starts a process", _OUT),
    "os.system": ("starts a process", _OUT),
    "os.posix_spawn": ("starts a process", _OUT),
    "os.fork": ("starts a process", _OUT),
}
_DRAWS = ("random", "uniform", "randint", "randrange", "choice", "choices", "shuffle", "sample", "getrandbits", "gauss")


class ScenarioError(RuntimeError):
    """The scenario or the operator cannot be explored; the message names the line and the remedy."""


class _Guard:
    """Refuses what reaches out of virtual time, and keeps the first refusal."""

    def __init__(self) -> None:
        self.refusal: ScenarioError | None = None

    def refuse(self, what: str, remedy: str) -> None:
        """Raise an error if the innermost code that is not Python's own is the user's."""
        line = _own_line(sys._getframe(2))
        if line is None:
            return
        error = ScenarioError(f"explore: {line} {what}: {remedy}")
        self.refusal = self.refusal or error
        raise error


# The guards of the runs in progress: hooks of the interpreter cannot be removed.
_GUARDS: list[_Guard] = []


@cache
def _install_hook() -> None:
    def audit(event: str, _arguments: object) -> None:
        if _GUARDS and event in _AUDITED and threading.current_thread() is threading.main_thread():
            _GUARDS[-1].refuse(*_AUDITED[event])

    sys.addaudithook(audit)


@contextmanager
def guarded(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Refuse it while the context lives.

    Args:
        loop: The loop of the run.

    Raises:
        ScenarioError: It was done.
    """
    _install_hook()
    guard = _Guard()
    with ExitStack() as stack:
        for name in _DRAWS:
            stack.enter_context(_refused(guard, random, name, f"draws from random.{name}", _DRAW))
        # The interpreter reports it from Python 3.13 on.
        stack.enter_context(_refused(guard, time, "sleep", *_AUDITED["time.sleep"]))
        # `uuid` and `secrets` draw from these.
        for module, name in ((os, "urandom"), (random, "_urandom")):
            stack.enter_context(_refused(guard, module, name, "draws from the system's randomness", _DRAW_SECRETS))
        stack.enter_context(_interrupted(loop))
        _GUARDS.append(guard)
        stack.callback(_GUARDS.remove, guard)
        try:
            yield
        except BaseException as error:
            if guard.refusal is not None:
                raise guard.refusal from error
            raise
    if guard.refusal is not None:
        raise guard.refusal


@contextmanager
def all_awaited() -> Iterator[None]:
    """Refuse calls of the user's code whose coroutines are never awaited, while the context lives.

    Not for runs with a fault: a crash leaves tasks that have not begun.

    Raises:
        ScenarioError: There was one; the message has the line.
    """
    forgotten: list[ScenarioError] = []
    hook, depth = "_warn_unawaited_coroutine", sys.get_coroutine_origin_tracking_depth()
    original: Callable[[Any], None] = getattr(warnings, hook)

    def report(coroutine: Any) -> None:
        line = _own_call([Line(*frame) for frame in coroutine.cr_origin or ()])
        if line is None:
            return original(coroutine)
        call = f"calls {coroutine.__qualname__} and does not await it"
        return forgotten.append(ScenarioError(f"explore: {line} {call}, so nothing is done: write `await` before it"))

    setattr(warnings, hook, report)
    sys.set_coroutine_origin_tracking_depth(_ORIGIN)
    try:
        yield
    except BaseException as error:
        if forgotten:
            raise forgotten[0] from error
        raise
    finally:
        sys.set_coroutine_origin_tracking_depth(depth)
        setattr(warnings, hook, original)
    if forgotten:
        raise forgotten[0]


@contextmanager
def _refused(guard: _Guard, module: Any, name: str, what: str, remedy: str) -> Iterator[None]:
    """Refuse a function of a module to the user's code."""
    original: Callable[..., Any] = getattr(module, name)

    def call(*arguments: Any, **named: Any) -> Any:
        guard.refuse(what, remedy)
        return original(*arguments, **named)

    setattr(module, name, call)
    try:
        yield
    finally:
        setattr(module, name, original)


def _own_line(frame: FrameType | None) -> Line | None:
    """Return the innermost line of the user's code, None where kcr or a library calls."""
    lines: list[Line] = []
    while frame is not None:
        lines.append(Line(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return _own_call(lines)


def _own_call(lines: list[Line]) -> Line | None:
    """Return the first line of the user's code of a stack, the innermost line first."""
    own = own_lines(lines[::-1])[::-1]
    for line, is_own in zip(lines, own, strict=True):
        if is_own:
            return line
        if "/kcr/" in line.file or "/kcr_devcluster/" in line.file or "site-packages" in line.file:
            return None
    return None


class _StuckError(BaseException):
    """Code that never awaits was interrupted."""


@contextmanager
def _interrupted(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Interrupt the thread when a run has used the processor for too long.

    Args:
        loop: The loop of the run.

    Raises:
        ScenarioError: It was; the message has the line.
    """
    thread, over, began = threading.get_ident(), threading.Event(), time.process_time()
    where: list[str] = []

    def watch() -> None:
        while not over.wait(0.5):
            if time.process_time() - began > _MOST_SECONDS:
                waits = (await_stack(task) for task in asyncio.all_tasks(loop) if task.get_name() == SCENARIO_TASK)
                where.append(loop_calls(sys._current_frames().get(thread)) or next(waits, "the loop"))
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(_StuckError))
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    except BaseException:
        if not where:
            raise
        text = f"explore: a run does not end: after {_MOST_SECONDS:.0f} s of the processor it was at {where[0]}"
        raise ScenarioError(text) from None
    finally:
        over.set()
        watcher.join()
