"""The child watcher of Python 3.11, which the node replaces: asyncio's own has a thread for each process."""

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self, TypeVarTuple

Ts = TypeVarTuple("Ts")

# The exit code of a process that was waited for elsewhere, as asyncio has it.
_UNKNOWN_CODE = 255

if sys.version_info < (3, 12):

    class _DescriptorWatcher(asyncio.AbstractChildWatcher):
        """Waits for processes by their descriptors, on the loop that starts them.

        It keeps no process and no loop: when another takes its place, processes of the program that still run are
        waited for all the same. asyncio's own of Python 3.11 belongs to one loop, and drops them with a warning.

        Source: cpython/Lib/asyncio/unix_events.py of 3.12, PidfdChildWatcher.
        """

        def __init__(self, before: asyncio.AbstractChildWatcher) -> None:
            self.before = before
            self.users = 0

        def add_child_handler(self, pid: int, callback: Callable[[int, int, *Ts], object], *args: *Ts) -> None:
            loop, descriptor = asyncio.get_running_loop(), os.pidfd_open(pid)

            def ended() -> None:
                loop.remove_reader(descriptor)
                os.close(descriptor)
                try:
                    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                except ChildProcessError:  # the program has waited for it by itself
                    code = _UNKNOWN_CODE
                callback(pid, code, *args)

            loop.add_reader(descriptor, ended)

        def remove_child_handler(self, pid: int) -> bool:
            return True

        def attach_loop(self, loop: asyncio.AbstractEventLoop | None) -> None:
            pass

        def close(self) -> None:
            pass

        def is_active(self) -> bool:
            return True

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *error: object) -> None:
            pass


@contextmanager
def process_descriptors() -> Iterator[None]:
    """Have asyncio wait for processes without a thread for each, as it does by itself from Python 3.12 on.

    All nodes of the program share the watcher; it lasts as long as the last of them. One that the program has chosen
    stays.
    """
    if sys.version_info >= (3, 12) or not _has_process_descriptors():
        yield
        return
    watcher = asyncio.get_child_watcher()
    if isinstance(watcher, asyncio.ThreadedChildWatcher):
        watcher = _DescriptorWatcher(watcher)
        asyncio.set_child_watcher(watcher)
    if not isinstance(watcher, _DescriptorWatcher):
        yield
        return
    watcher.users += 1
    try:
        yield
    finally:
        watcher.users -= 1
        if not watcher.users and asyncio.get_child_watcher() is watcher:
            asyncio.set_child_watcher(watcher.before)


def _has_process_descriptors() -> bool:
    if not hasattr(os, "pidfd_open"):
        return False
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:  # kernels before 5.3
        return False
    return True
