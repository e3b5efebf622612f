"""Starting programs: the checks before the start, and the errors of the system as one line."""

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kcr_devcluster.cluster.node.process.mount_namespace import unstartable

_NOWHERE = "executable file not found in $PATH"
_SHORTAGES = frozenset({errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM})


class StartError(Exception):
    """A program cannot be started; the message says why."""


class BusyError(Exception):
    """The machine cannot start another process just now; the message names the shortage."""


def check_program(program: str, environment: Mapping[str, str], directory: Path) -> None:
    """Check that a program can be started: it exists, is executable, and its directory exists.

    Args:
        program: Searched for in the environment's PATH, unless it is a path.
        environment: Its variables.
        directory: Where it starts.

    Raises:
        StartError: One of these checks fails.
    """
    if why := unstartable(program, environment.get("PATH", os.defpath), str(directory)):
        raise StartError(why)


def check_program_inside(program: str, environment: Mapping[str, str], directory: Path, root: str) -> None:
    """Check, from outside, that a program exists in a container with mounts; it may still not be executable.

    Cases that cannot be decided from outside are left to the start.

    Args:
        program: Searched for in the environment's PATH, unless it is a path.
        environment: Its variables.
        directory: Where it starts, in the container.
        root: The container's root as this process sees it, such as `/proc/7/root`.

    Raises:
        StartError: It is nowhere.
    """
    if not os.path.isdir(root):
        return
    if "/" in program:
        places, why = [str(directory / program)], "no such file or directory"
    else:
        path = environment.get("PATH", os.defpath)
        places, why = [os.path.join(place, program) for place in path.split(os.pathsep)], _NOWHERE
    # A mountPath is resolved on the machine before it is mounted, so its links are followed here, not below the root.
    if not any(os.path.lexists(f"{root}{os.path.realpath(place)}") or os.path.lexists(place) for place in places):
        raise StartError(f'exec: "{program}": {why}')


@contextmanager
def start_errors(program: str) -> Iterator[None]:
    """Translate the errors of the system while a program is started.

    Raises:
        StartError: It cannot be started.
        BusyError: It cannot be started now.
    """
    try:
        yield
    except (OSError, ValueError) as error:
        if getattr(error, "errno", None) in _SHORTAGES:
            raise BusyError(f'exec: "{program}": {error}') from error
        raise StartError(f'exec: "{program}": {getattr(error, "strerror", None) or error}') from error
