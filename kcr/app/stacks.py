"""SIGUSR1: a process writes where all its threads and tasks are, and goes on.

What a stuck process is doing is asked for while it is stuck, so the handler is Python's own and not the event loop's:
it also runs while a reconciler blocks the loop in Python code or in a system call. It only reads. A thread of its own
writes, because the signal may arrive in the middle of a write to stderr, which is not reentrant.
"""

import _thread
import asyncio
import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple

import structlog

from kcr.runnables import await_stack

# The innermost frames that are shown.
_MAX_FRAMES = 12


class Stacks(NamedTuple):
    """Where a process was at one moment.

    Attributes:
        threads: The calls of each thread by its id, the innermost last.
        tasks: Names of the event loop's tasks, and where each waits.
    """

    threads: dict[int, str]
    tasks: list[tuple[str, str]]


@contextmanager
def write_stacks_on_signal(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Log all stacks at each SIGUSR1 for as long as the context lives, at any log level; for the main thread only."""

    def answer(number: int, frame: FrameType | None) -> None:
        # Not `threading.Thread`: it takes a lock that the main thread may hold just now.
        _thread.start_new_thread(_write, (_collect(loop, frame),))

    before = signal.signal(signal.SIGUSR1, answer)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def _collect(loop: asyncio.AbstractEventLoop, interrupted: FrameType | None) -> Stacks:
    # The main thread is in this handler; what counts is what the signal has interrupted.
    frames = {**sys._current_frames(), _thread.get_ident(): interrupted}
    threads = {ident: _calls(frame) for ident, frame in frames.items() if frame is not None}
    waiting = ((task.get_name(), await_stack(task, _MAX_FRAMES)) for task in asyncio.all_tasks(loop))
    return Stacks(threads, sorted(waiting))


def _calls(frame: FrameType | None) -> str:
    calls: list[str] = []
    while frame is not None and len(calls) < _MAX_FRAMES:
        code = frame.f_code
        calls.append(f"{code.co_filename.rpartition('/')[2]}:{frame.f_lineno} {code.co_name}")
        frame = frame.f_back
    return " > ".join(reversed(calls))


def _write(stacks: Stacks) -> None:
    # Whoever sends the signal wants to see the lines, whatever the level of the others.
    log: Any = structlog.wrap_logger(None, wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET))
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    log.info("stacks, because of SIGUSR1", threads=len(stacks.threads), tasks=len(stacks.tasks))
    for ident, calls in stacks.threads.items():
        log.info("thread", thread=names.get(ident, str(ident)), where=calls)
    for name, where in stacks.tasks:
        log.info("task", task=name, where=where)
