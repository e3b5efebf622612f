"""Starting programs: what is checked before, and the errors of the system as one line."""

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kcr.cluster.node.process.mount_namespace import unstartable

_SHORTAGES = frozenset({errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM})


class StartError(Exception):
    """A program cannot be started; the message says why."""


class BusyError(Exception):
    """The machine cannot start another process just now; the message says what it is short of."""


def check_program(program: str, environment: Mapping[str, str], directory: Path) -> None:
    """Check what a program needs to start.

    Args:
        program: Looked for in the environment's PATH, unless it is a path.
        environment: Its variables.
        directory: Where it starts.

    Raises:
        StartError: The program or the directory is not there.
    """
    if why := unstartable(program, environment.get("PATH", os.defpath), str(directory)):
        raise StartError(why)


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
