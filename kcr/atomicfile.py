"""Atomic writes: temporary file, fsync, rename, so that readers find the former content or the new one.

A write that fails, on a full disk say, leaves the former content and no temporary file. Errors name the file that was
to be written, which the system's own leave out where a disk is full.
"""

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

# The longest name in the usual file systems, and the length that the name of the temporary file adds to it.
_MAX_NAME_BYTES = 255
_SUFFIX_BYTES = 10
# The last one stands for a file that is larger than its process may write.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
# A shell's descriptor behind one of them would keep the former file.
_DESCRIPTOR = re.compile(r"/dev/(?!shm/)|/proc/[^/]+/(task/[^/]+/)?fd/")


def replace_files(contents: Mapping[Path, bytes], *, mode: int | None = None) -> None:
    """Write files, each whole or not at all; none of them when there is no room for all.

    Without a mode, a file that exists keeps its owner where possible. Behind a symbolic link its target is replaced.
    Writes into a path that is not a regular file, such as a pipe, or is one of another process, such as `/dev/stdout`.

    Args:
        contents: The contents by path; the folders exist.
        mode: The permissions; None for those of the present file, and those that the umask leaves to a new one.

    Raises:
        OSError: One cannot be written; `filename` is its path.
    """
    with ExitStack() as stack:
        renames: list[tuple[Path, Path, Path]] = []
        for path, content in contents.items():
            with name_in_errors(path):
                if _is_replaceable(path, is_private=mode is not None):
                    # In the folder of the target: a rename does not leave its file system.
                    target = Path(os.path.realpath(path))
                    renames.append((stack.enter_context(temporary_file(target, content, mode=mode)), target, path))
                else:
                    path.write_bytes(content)
        for temporary, target, path in renames:
            with name_in_errors(path):
                _rename(temporary, target)


@contextmanager
def temporary_file(path: Path, content: bytes, *, mode: int | None = None) -> Iterator[Path]:
    """Write a temporary file in the folder of a path, for the caller to rename; one that is left is removed at the end.

    Args:
        path: The path that it is to replace; without a mode, a file there gives it its owner.
        content: The whole content.
        mode: Its permissions; None for those of that file, and those that the umask leaves to a new one.

    Raises:
        OSError: It cannot be written; `filename` is the path that it is to replace.
    """
    shortened = os.fsdecode(os.fsencode(path.name)[: _MAX_NAME_BYTES - _SUFFIX_BYTES])
    temporary = path.with_name(f".{shortened}.{secrets.token_hex(4)}")
    try:
        with (
            name_in_errors(path),
            open(os.open(temporary, _CREATE, 0o666 if mode is None else mode), "wb") as file,
        ):
            if mode is None:
                _keep_attributes(path, file.fileno())
            file.write(content)
            file.flush()
            # The rename may reach the disk before the content does, and some file systems find no room only now.
            os.fsync(file.fileno())
        yield temporary
    finally:
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def name_in_errors(path: Path) -> Iterator[None]:
    """Give an `OSError` the path that the user named, whatever file it happened at."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise


def is_full(error: OSError) -> bool:
    """Return whether the disk or the quota is full."""
    return error.errno in _NO_ROOM


def _is_replaceable(path: Path, *, is_private: bool) -> bool:
    """Return whether the path is free or a regular file, without a descriptor in the path.

    Raises:
        PermissionError: One that may not be written is: the folder's permissions would allow to replace it. Or a
            private file is to replace that of another user, who may wait for it in a folder of all, such as `/tmp`.
    """
    try:
        # Of the path: behind that of a pipe's descriptor there is a name that leads nowhere.
        found = path.stat()
    except FileNotFoundError:
        return True
    if is_private and stat.S_ISREG(found.st_mode) and found.st_uid != os.geteuid() and os.geteuid() != 0:
        raise PermissionError(errno.EACCES, "it belongs to another user")
    if stat.S_ISREG(found.st_mode) and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return stat.S_ISREG(found.st_mode) and _DESCRIPTOR.match(os.path.abspath(path)) is None


def _rename(temporary: Path, target: Path) -> None:
    """Rename a file; a target that is a mount point, as in a container, is overwritten instead."""
    try:
        temporary.replace(target)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        mode = stat.S_IMODE(temporary.stat().st_mode)
        if stat.S_IMODE(target.stat().st_mode) != mode:
            target.chmod(mode)
        target.write_bytes(temporary.read_bytes())


def _keep_attributes(path: Path, descriptor: int) -> None:
    """Give an open file the owner and the permissions of the file that it replaces."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return
    # Only root gives files away, and in a namespace only to users that it maps; other users become the owner.
    with suppress(OSError):
        os.fchown(descriptor, found.st_uid, found.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(found.st_mode))
