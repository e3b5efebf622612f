"""The root directory of a node: locked while its node lives, and swept by the next one.

The processes of its containers have a path below it in their environment, so they are found and killed with it.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kcr_devcluster.cluster.node.process.processes import kill_orphaned_processes

PREFIX = "kcr-node-"
_LOCK = ".lock"
# Names the file for a container's termination message. The path is unique, so it also identifies its processes.
MARK = "KCR_TERMINATION_LOG"


def marker(path: Path) -> bytes:
    """Return the beginning of the variable that marks the processes of a container, or of all below a directory."""
    return f"{MARK}={path}".encode()


@contextmanager
def node_root(parent: Path | None = None) -> Iterator[Path]:
    """Make the root directory of a node; at the end it is removed, and its processes are killed.

    The directory is locked for as long as its node lives. One that is not locked belonged to a node that was
    killed: it is removed first, with its processes. Without a parent, it is in the system's place for temporary files.
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
    # Locked before it gets its name, so that no other node finds it unlocked.
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
    kill_orphaned_processes(marker(root))
    shutil.rmtree(root, ignore_errors=True)
