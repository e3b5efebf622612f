"""A mount namespace for one container: mounts its volumes at their absolute paths, and becomes its program.

It runs in a Python of its own, in the place of the container's program, and imports nothing that takes time: not even
`typing`. util-linux has no way to do the same as another user than root: its mount(8) refuses.

- As root the process unshares its mount namespace. Any other user makes a user namespace first, in which the user and
  group ids are mapped to themselves; the program has no capabilities in it.
- A mountPath that exists is mounted over. For one that does not, the deepest directory above it that exists is rebuilt:
  a tmpfs with each of its entries bound to the machine's, and the missing directories made in it. So nothing is
  made on the machine, and files that the program creates in a rebuilt directory are its own. Symbolic links above
  are resolved first: `/var/run/secrets` is made in `/run`.
- Volumes are directories of the node, so a directory missing in one is made there, as container runtimes do.
- Everything else of the machine stays as it is: this is a view for programs that expect their paths, no isolation.
"""

from __future__ import annotations

import errno
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    # The source on the machine, the mountPath, and whether the container may not write.
    Mount = tuple[str, str, bool]

# Source: linux/include/uapi/linux/sched.h and mount.h.
_NEW_MOUNTS, _NEW_USER = 0x00020000, 0x10000000
_READ_ONLY, _REMOUNT, _BIND, _MOVE, _RECURSIVE, _PRIVATE, _UNBINDABLE = 1, 32, 4096, 8192, 16384, 1 << 18, 1 << 17
_DETACH = 2
# Numbers of system calls newer than libc's names for them, alike on all architectures; and their flags.
_OPEN_TREE, _MOVE_MOUNT = 428, 429
_HERE, _CLONE, _WHOLE, _FROM_DESCRIPTOR = -100, 1 | os.O_CLOEXEC, 0x8000, 4
# Flags that a remount in a user namespace must not drop: flags of statvfs, which are those of mount.
_LOCKED = os.ST_NOSUID | 4 | 8 | os.ST_RDONLY  # nodev, noexec: not on every system
_NOATIME = {1024: 1024, 2048: 2048, 4096: 1 << 21}  # noatime, nodiratime, relatime

_PROGRAM = "import sys; sys.path.append(sys.argv[1]); import mount_namespace; mount_namespace.main(sys.argv[2:])"
# Signals that Python ignores and other programs do not; `signal` takes as long to import as all the rest.
_IGNORED_SIGNALS = (13, 25)  # SIGPIPE, SIGXFSZ

MOUNTS_ONLY, WITH_USER = "mounts", "user"


class NamespaceError(Exception):
    """The namespace cannot be made; the message says which step failed, and why."""


def unstartable(program: str, path: str, directory: str) -> str:
    """Return why a program cannot be started, as container runtimes say it; empty when it can.

    Args:
        program: The program.
        path: The search path for programs.
        directory: The working directory.
    """
    if not os.path.isdir(directory):
        return f'working directory "{directory}": no such directory'
    if "/" not in program:
        places = (os.path.join(place, program) for place in path.split(os.pathsep) if place)
        found = any(os.path.isfile(place) and os.access(place, os.X_OK) for place in places)
        return "" if found else f'exec: "{program}": executable file not found in $PATH'
    file = os.path.join(directory, program)
    if not os.path.exists(file):
        return f'exec: "{program}": no such file or directory'
    if not os.access(file, os.X_OK) or os.path.isdir(file):
        return f'exec: "{program}": permission denied'
    return ""


def arguments(kind: str, report: int, staging: str, directory: str, mounts: Iterable[Mount]) -> tuple[str, ...]:
    """Return the argument vector that starts this program; the container's argument vector is to follow it.

    Args:
        kind: `MOUNTS_ONLY` as root, or `WITH_USER`.
        report: The descriptor of a pipe: it is closed when the container's program starts, after one message if
            it cannot.
        staging: An empty directory of the pod.
        directory: The working directory, in the namespace.
        mounts: In any order.
    """
    words = [word for source, target, is_fixed in mounts for word in (source, target, "ro" if is_fixed else "rw")]
    # As a module it is compiled once, other than a script.
    python = (sys.executable, "-I", "-S", "-c", _PROGRAM, os.path.dirname(__file__))
    return (*python, kind, str(report), staging, directory, str(len(words)), *words)


class _System:
    """The system calls that Python has no names for."""

    def __init__(self) -> None:
        import ctypes  # noqa: PLC0415  # only this program needs it, not who starts it

        self._libc, self._errno, self._flags = ctypes.CDLL(None, use_errno=True), ctypes.get_errno, ctypes.c_ulong

    def unshare(self, flags: int) -> None:
        # ENOSPC is the limit of user namespaces, which is 0 where they are disabled.
        self._check(self._libc.unshare(flags), "unshare", {errno.ENOSPC: "user.max_user_namespaces is reached"})

    def mount(self, source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
        words = (text.encode() if text else None for text in (source, target, kind))
        result = self._libc.mount(*words, self._flags(flags), data.encode() if data else None)
        self._check(result, f"mount {target}")

    def clone(self, path: str) -> int:
        """Return the descriptor of a copy of the mount at a path, itself mounted nowhere."""
        descriptor = self._libc.syscall(_OPEN_TREE, _HERE, path.encode(), _CLONE | _WHOLE)
        self._check(min(descriptor, 0), f"open_tree {path}")
        return int(descriptor)

    def attach(self, descriptor: int, target: str) -> None:
        """Mount the copy that `clone` has returned."""
        result = self._libc.syscall(_MOVE_MOUNT, descriptor, b"", _HERE, target.encode(), _FROM_DESCRIPTOR)
        self._check(result, f"mount {target}")

    def pivot_root(self) -> None:
        """Make the working directory the root, and drop the root of before."""
        self._check(self._libc.pivot_root(b".", b"."), "pivot_root")
        self._check(self._libc.umount2(b".", _DETACH), "umount")

    def _check(self, result: int, step: str, meanings: Mapping[int, str] | None = None) -> None:
        if result != 0:
            number = self._errno()
            raise NamespaceError(f"{step}: {(meanings or {}).get(number) or os.strerror(number)}")

    def restore_signals(self) -> None:
        """Restore the default action of the signals that Python ignores."""
        for number in _IGNORED_SIGNALS:
            self._libc.signal(number, None)


class _View:
    """The tree of one container, in a mount namespace of this process."""

    def __init__(self, system: _System, staging: str) -> None:
        self._system = system
        self._staging = staging
        # Devices of the tmpfs that stand for directories, and where volumes are mounted: both may be written to.
        self._rebuilt: set[int] = set()
        self._volumes: list[str] = []

    def mount(self, mounts: Sequence[Mount]) -> None:
        """Mount volumes at their paths, outer ones first."""
        # Before all: a mount may hide the source of the next.
        sources = [(self._system.clone(source), target, is_fixed) for source, target, is_fixed in mounts]
        sources.sort(key=_depth)
        outer: list[str] = []
        for source, path, _ in sources:
            target = os.path.realpath(path)
            if not _is_below(target, outer):
                outer.append(target)
                # Before the first volume is mounted, for it may hide the staging directory.
                self._make(target, is_directory=_is_directory(source))
        fixed = []
        for source, path, is_fixed in sources:
            target = os.path.realpath(path)
            self._make(target, is_directory=_is_directory(source))
            self._system.attach(source, target)
            os.close(source)
            self._volumes.append(target)
            if is_fixed:
                fixed.append(target)
        for target in fixed:
            # Last, for the places of inner mounts are made in outer ones.
            self._system.mount("", target, flags=_BIND | _REMOUNT | _READ_ONLY | _flags(target))

    def _make(self, target: str, *, is_directory: bool) -> None:
        """Have a place to mount at."""
        if f"{target}/".startswith("/proc/"):  # as runc refuses it
            raise NamespaceError(f'mount: "{target}" cannot be mounted because it is inside /proc')
        if os.path.lexists(target):
            if os.path.isdir(target) != is_directory:
                kinds = ("a directory", "a file") if is_directory else ("a file", "a directory")
                raise NamespaceError(f"mount {target}: {kinds[0]} cannot be mounted onto {kinds[1]}")
            return
        above = os.path.dirname(target)
        while not os.path.lexists(above):
            above = os.path.dirname(above)
        if not self._is_own(above):
            self._rebuild(above)
        os.makedirs(target if is_directory else os.path.dirname(target), exist_ok=True)
        if not is_directory:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))

    def _is_own(self, directory: str) -> bool:
        if os.stat(directory).st_dev in self._rebuilt:
            return True
        return directory in self._volumes or _is_below(directory, self._volumes)

    def _rebuild(self, directory: str) -> None:
        """Replace a directory of the machine by a tmpfs with the same entries."""
        staging, mode = self._staging, stat.S_IMODE(os.stat(directory).st_mode)
        self._system.mount("tmpfs", staging, "tmpfs", data=f"mode={mode:o}")
        # It may be below the directory: no copy of itself in itself.
        self._system.mount("", staging, flags=_UNBINDABLE)
        with os.scandir(directory) as entries:
            for entry in entries:
                self._bind_entry(entry, f"{staging}/{entry.name}")
        self._rebuilt.add(os.stat(staging).st_dev)
        self._system.mount("", staging, flags=_PRIVATE)
        if directory == "/":
            os.chdir(staging)
            self._system.pivot_root()
            os.chdir("/")
        else:
            self._system.mount(staging, directory, flags=_MOVE)

    def _bind_entry(self, entry: os.DirEntry[str], place: str) -> None:
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), place)
            return
        if entry.is_dir():
            os.mkdir(place)
        else:
            os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o644))
        try:
            self._system.mount(entry.path, place, flags=_BIND | _RECURSIVE)
        except NamespaceError:  # it was deleted, or may not be bound: the container sees an empty one
            return


def _depth(mount: tuple[int, str, bool]) -> int:
    return os.path.realpath(mount[1]).count("/")


def _is_below(path: str, directories: Iterable[str]) -> bool:
    return any(path.startswith(f"{directory.rstrip('/')}/") for directory in directories)


def _is_directory(descriptor: int) -> bool:
    return stat.S_ISDIR(os.fstat(descriptor).st_mode)


def _flags(path: str) -> int:
    """Return the flags that a mount has now, as a remount has to give them."""
    given = os.statvfs(path).f_flag
    return (given & _LOCKED) | sum(flag for shown, flag in _NOATIME.items() if given & shown)


def enter(system: _System, kind: str, staging: str, mounts: Sequence[Mount]) -> None:
    """Put this process into a mount namespace of its own, with mounts.

    Args:
        system: The system calls.
        kind: `MOUNTS_ONLY` as root, or `WITH_USER`.
        staging: An empty directory.
        mounts: In any order.

    Raises:
        NamespaceError: It cannot be made; the process is not to be used any more.
    """
    user, group = os.getuid(), os.getgid()
    if kind == WITH_USER:
        system.unshare(_NEW_USER | _NEW_MOUNTS)
        try:
            for file, text in (
                ("setgroups", "deny"),
                ("uid_map", f"{user} {user} 1"),
                ("gid_map", f"{group} {group} 1"),
            ):
                with open(f"/proc/self/{file}", "w", encoding="ascii") as opened:
                    opened.write(text)
        except OSError as error:
            raise NamespaceError(f"user namespace: {error.strerror}") from error
    else:
        system.unshare(_NEW_MOUNTS)
    system.mount("", "/", flags=_RECURSIVE | _PRIVATE)
    try:
        _View(system, staging).mount(mounts)
    except OSError as error:
        raise NamespaceError(f"mount {error.filename}: {error.strerror}") from error


def _environment() -> Mapping[bytes, bytes]:
    """Return the environment that this program was given; Python may have added to it (PEP 538)."""
    with open("/proc/self/environ", "rb") as opened:
        pairs = (entry.partition(b"=") for entry in opened.read().split(b"\0") if entry)
        return {name: value for name, _, value in pairs}


def _read_mounts(words: Sequence[str]) -> list[Mount]:
    return [(words[at], words[at + 1], words[at + 2] == "ro") for at in range(0, len(words), 3)]


def main(words: Sequence[str]) -> None:
    """Enter a namespace and become the program; see `arguments`."""
    kind, report, staging, directory, count = words[:5]
    mounts, argv = _read_mounts(words[5 : 5 + int(count)]), words[5 + int(count) :]
    os.set_inheritable(int(report), False)
    environment, system = _environment(), _System()
    try:
        enter(system, kind, staging, mounts)
        path = environment.get(b"PATH", os.defpath.encode()).decode()
        why = unstartable(argv[0], path, directory)
        if not why:
            os.chdir(directory)
            system.restore_signals()
            os.execvpe(argv[0], list(argv), environment)
    except NamespaceError as error:
        why = str(error)
    except (OSError, ValueError) as error:
        why = f'exec: "{argv[0]}": {getattr(error, "strerror", None) or error}'
    os.write(int(report), why.encode())
    sys.exit(128)
