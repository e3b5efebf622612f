"""The directory under which a node keeps its pods' files, and what nodes leave behind that were killed."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kcr.cluster.node.strays import kill_strays

PREFIX = "kcr-node-"
_LOCK = ".lock"
# Where a container may leave its last words. The path is its own, so it also tells whose a process is.
MARK = "KCR_TERMINATION_LOG"


def marker(path: Path) -> bytes:
    """Return how the variable begins that marks the processes of a container, or of all below a directory."""
    return f"{MARK}={path}".encode()


@contextmanager
def node_root(parent: Path | None = None) -> Iterator[Path]:
    """Give a new directory; in the end it is removed, and no process that belongs to it is left.

    The directory is locked for as long as its node lives. One that is not locked belonged to a node that was
    killed: it is removed first, with its processes.

    Args:
        parent: Where to make it; None for the system's place for temporary files.
    """
    parent = parent or Path(tempfile.gettempdir())
    _sweep(parent)
    root = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    lock = _locked(root)
    try:
        yield root
    finally:
        _remove(root)
        os.close(lock)


def _locked(root: Path) -> int:
    """Return the descriptor of a lock that ends with this process; children do not inherit it."""
    # Locked before it gets its name: nobody finds it open.
    lock = os.open(root / f"{_LOCK}.new", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    (root / f"{_LOCK}.new").rename(root / _LOCK)
    return lock


def _sweep(parent: Path) -> None:
    for root in parent.glob(f"{PREFIX}*"):
        if _is_abandoned(root):
            _remove(root)


def _is_abandoned(root: Path) -> bool:
    try:
        if root.is_symlink() or root.stat().st_uid != os.getuid():
            return False
        lock = os.open(root / _LOCK, os.O_RDWR)
    except OSError:  # just begun, or just removed
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(lock)


def _remove(root: Path) -> None:
    kill_strays(marker(root))
    shutil.rmtree(root, ignore_errors=True)
