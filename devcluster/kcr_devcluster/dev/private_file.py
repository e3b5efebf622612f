"""The private file that tells kubectl how to reach the cluster of `kcr dev`.

Several `kcr dev` of one user may run at a time. Each holds an advisory lock (flock) on its own file for as long as it
runs, so a file that is locked belongs to a process that is alive, and the kernel frees the file of one that was killed.
"""

import fcntl
import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from kcr.atomicfile import is_full, temporary_file
from kcr.errors import ConfigError

# The first line of a file that `kcr dev` may replace. It leaves every other kubeconfig as it is.
MARK = "# Written by kcr dev, which replaces and removes it.\n"


def default_path(environ: Mapping[str, str]) -> Path:
    """Return the default path of the file: the runtime directory of the session, else `~/.kcr`."""
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if runtime and os.access(runtime, os.W_OK):
        return Path(runtime) / "kcr" / "dev.kubeconfig"
    return Path("~/.kcr/dev.kubeconfig").expanduser()


def candidates(default: Path) -> Iterator[Path]:
    """Yield the default path and its alternatives: `dev-2.kubeconfig`, `dev-3.kubeconfig` and so on."""
    yield default
    for number in itertools.count(2):
        yield default.with_name(f"{default.stem}-{number}{default.suffix}")


class PrivateFile:
    """A file that this process holds locked.

    Attributes:
        path: Where it is.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        # Holds the lock until it is closed.
        self._descriptor = descriptor

    @property
    def is_there(self) -> bool:
        """Whether the file at the path is still this one."""
        return _is_at(self.path, self._descriptor)

    def write(self, text: str) -> None:
        """Put another text in its place; a file of the user's there stays.

        Raises:
            ConfigError: It cannot be written.
        """
        if not self.is_there:
            return
        try:
            descriptor = _place(self.path, MARK + text, os.replace)
        except OSError as error:
            raise _unwritable(self.path, error) from error
        os.close(self._descriptor)
        self._descriptor = descriptor

    def close(self) -> None:
        """Let others take the file."""
        os.close(self._descriptor)


@contextmanager
def private_file(paths: Iterator[Path], text: str, *, keep: bool = False) -> Iterator[PrivateFile]:
    """Keep a kubeconfig in a file that only its owner can read, for as long as the context lives.

    Args:
        paths: Where it may go: the first that no running `kcr dev` holds is used.
        text: The kubeconfig.
        keep: Whether the file stays at the end, for a cluster that comes again with the same credentials.

    Yields:
        The file. At the end it is removed, unless it is to stay or the user has put another one in its place.

    Raises:
        ConfigError: All are in use, one is not ours to replace, or it cannot be written.
    """
    for path in paths:
        try:
            descriptor = _claim(path, MARK + text)
        except OSError as error:
            raise _unwritable(path, error) from error
        if descriptor is not None:
            break
    else:
        raise ConfigError(f"{path} belongs to another kcr dev that still runs: name another file with --kubeconfig")
    file = PrivateFile(path, descriptor)
    try:
        yield file
    finally:
        with suppress(OSError):
            if not keep and file.is_there:
                path.unlink()
        file.close()


def _unwritable(path: Path, error: OSError) -> ConfigError:
    remedy = "free some space" if is_full(error) else "name another file with --kubeconfig"
    return ConfigError(f"cannot write {path}: {error.strerror}: {remedy}")


def _claim(path: Path, content: str) -> int | None:
    """Put a file that this process holds locked at a path.

    Returns:
        Its descriptor, which holds the lock until it is closed; None when another process holds the present file.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A new file appears with its content: clients wait for it. Below are a path in use, and file systems without links.
    with suppress(OSError):
        return _place(path, content, os.link)
    while True:
        present = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(present, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Between open and flock, its owner may have removed it or another process replaced it.
            if not _is_at(path, present):
                continue
            if (found := os.read(present, len(MARK.encode()))) and found != MARK.encode():
                raise ConfigError(f"{path} exists and is not of kcr dev: name another file with --kubeconfig")
            return _place(path, content, os.replace)
        except BlockingIOError:
            return None
        finally:
            os.close(present)


def _place(path: Path, content: str, move: Callable[[Path, Path], None]) -> int:
    """Move a complete and locked file to the path: no reader sees half of it, and no other process takes it."""
    with temporary_file(path, content.encode(), mode=0o600) as temporary:
        descriptor = os.open(temporary, os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            move(temporary, path)
        except OSError:
            os.close(descriptor)
            raise
    return descriptor


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether the path still leads to the open file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
