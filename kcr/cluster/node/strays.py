"""Processes that left their container's group and session. Their environment still tells where they come from."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PROCESSES = Path("/proc")


def kill_strays(marker: bytes) -> None:
    """Kill all processes of this user one of whose variables begins with `marker`, such as `NAME=value`.

    Where the system does not show environments (it is Linux that does) nothing happens.
    """
    for pid in strays(marker):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def strays(marker: bytes) -> Iterator[int]:
    """Yield the processes one of whose variables begins with `marker`."""
    try:
        entries = list(PROCESSES.iterdir())
    except OSError:
        return
    own = os.getpid()
    for entry in entries:
        if entry.name.isdigit() and int(entry.name) != own and _is_marked(entry / "environ", marker):
            yield int(entry.name)


def _is_marked(environment: Path, marker: bytes) -> bool:
    try:
        variables = environment.read_bytes().split(b"\0")
    except OSError:  # it has ended, or is somebody else's
        return False
    return any(variable.startswith(marker) for variable in variables)
