"""Files replaced whole: written beside, synced and renamed, so that readers find the former content or the new one.

A write that fails, on a full disk say, leaves the former content and nothing beside it. Errors name the file that was
to be written, which the system's own leave out where a disk is full.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

# The longest name in the usual file systems, and what the file beside adds to it.
_MAX_NAME_BYTES = 255
_SUFFIX_BYTES = 10
# The last one stands for a file that is larger than its process may write.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def replace_files(contents: Mapping[Path, bytes], *, mode: int | None = None) -> None:
    """Write files, each whole or not at all; none of them when there is no room for all.

    A file that exists keeps its owner where possible. Behind a symbolic link its target is replaced. What is no regular
    file, such as `/dev/stdout` or a pipe, is written to.

    Args:
        contents: What to write, by path; the folders exist.
        mode: The permissions; None for those of the present file, and those that the umask leaves to a new one.

    Raises:
        OSError: One cannot be written; `filename` is its path.
    """
    with ExitStack() as stack:
        renames: list[tuple[Path, Path, Path]] = []
        for path, content in contents.items():
            with naming(path):
                if _is_replaceable(path):
                    # In the folder of the target: a rename does not leave its file system.
                    target = Path(os.path.realpath(path))
                    renames.append((stack.enter_context(written_beside(target, content, mode=mode)), target, path))
                else:
                    path.write_bytes(content)
        for beside, target, path in renames:
            with naming(path):
                beside.replace(target)


@contextmanager
def written_beside(path: Path, content: bytes, *, mode: int | None = None) -> Iterator[Path]:
    """Write a file beside a path, for the caller to rename; it is removed at the end where it is still there.

    Args:
        path: What it shall replace; a file there gives it its owner.
        content: The whole content.
        mode: Its permissions; None for those of that file, and those that the umask leaves to a new one.

    Raises:
        OSError: It cannot be written; `filename` is the path that it shall replace.
    """
    beside = path.with_name(f".{_shortened(path.name)}.{secrets.token_hex(4)}")
    try:
        with (
            naming(path),
            open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else mode), "wb") as file,
        ):
            _keep_attributes(path, file.fileno(), keeps_mode=mode is None)
            file.write(content)
            file.flush()
            # The rename may reach the disk before the content does, and some file systems find no room only now.
            os.fsync(file.fileno())
        yield beside
    finally:
        with suppress(OSError):
            beside.unlink()


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Give an `OSError` the path that the user named, whatever file it happened at."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise


def is_full(error: OSError) -> bool:
    """Return whether there is no room for what was to be written."""
    return error.errno in _NO_ROOM


def _is_replaceable(path: Path) -> bool:
    """Return whether a regular file is there, or none.

    Raises:
        PermissionError: One that may not be written is: the folder's permissions would allow to replace it.
    """
    try:
        # Of the path: behind that of a pipe's descriptor there is a name that leads nowhere.
        found = path.stat()
    except FileNotFoundError:
        return True
    if stat.S_ISREG(found.st_mode) and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return stat.S_ISREG(found.st_mode)


def _keep_attributes(path: Path, descriptor: int, *, keeps_mode: bool) -> None:
    """Give an open file the owner, and the permissions, of the one that it shall replace."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return
    # Only root gives files away; anyone else becomes the owner.
    with suppress(PermissionError):
        os.fchown(descriptor, found.st_uid, found.st_gid)
    if keeps_mode:
        os.fchmod(descriptor, stat.S_IMODE(found.st_mode))


def _shortened(name: str) -> str:
    """Return as much of a name as leaves room for what is added to it."""
    return os.fsdecode(os.fsencode(name)[: _MAX_NAME_BYTES - _SUFFIX_BYTES])
