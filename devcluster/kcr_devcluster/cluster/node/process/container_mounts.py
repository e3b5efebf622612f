"""How a container gets its mounts: in a mount namespace where the system allows it, else by other paths.

Linux allows it to root, and to every user where unprivileged user namespaces are enabled. That is found out once, with
the first container that has mounts, by making a namespace. Elsewhere the program is pointed to where the volumes are:
mountPaths in its command, arguments and variables are replaced by directories of the node.
"""

import asyncio
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kcr_devcluster.cluster.node.process.mount_namespace import MOUNTS_ONLY, WITH_USER, arguments

# Names the directory of each volume, by the volume's name.
VARIABLE = "KCR_MOUNT_"


class Mount(NamedTuple):
    """A volume, or a part of it, in a container.

    Attributes:
        volume: The volume's name; empty for a mount that is no volume.
        source: Where it is on the machine.
        target: The mountPath.
        read_only: Whether the container may not write.
    """

    volume: str
    source: str
    target: str
    read_only: bool


class NamespaceSupport(NamedTuple):
    """Whether mount namespaces can be made here.

    Attributes:
        kind: How, as `mount_namespace.arguments` takes it; empty where they cannot.
        reason: Why they cannot.
    """

    kind: str
    reason: str = ""


class MountNamespace(NamedTuple):
    """The mount namespace that a container is to have.

    Attributes:
        kind: How it is made, as `mount_namespace.arguments` takes it.
        staging: An empty directory of the pod.
        mounts: The mounts.
    """

    kind: str
    staging: Path
    mounts: tuple[Mount, ...]

    def starter(self, report: int, directory: str) -> tuple[str, ...]:
        """Return the words before the container's argument vector; see `mount_namespace.arguments`."""
        mounts = ((mount.source, mount.target, mount.read_only) for mount in self.mounts)
        return arguments(self.kind, report, str(self.staging), directory, mounts)

    def enter(self, process: int, directory: Path) -> tuple[str, ...]:
        """Return the words before the argument vector of another command in the running container.

        Args:
            process: The container's process, which must live.
            directory: The container's working directory in its namespace; the command starts there.
        """
        user = ("--user", "--preserve-credentials") if self.kind == WITH_USER else ()
        # In the namespace: nsenter's own option for it is newer than the util-linux of Debian 12.
        change_directory = ("sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", str(directory))
        # By its path, for the container may have another PATH.
        program = shutil.which("nsenter") or "nsenter"
        return (program, "--target", str(process), "--mount", *user, "--", *change_directory)


async def detect_namespaces(staging: Path) -> NamespaceSupport:
    """Find out whether mount namespaces can be made, by making one whose root is replaced.

    Args:
        staging: An empty directory.
    """
    if sys.platform != "linux":
        return NamespaceSupport("", "only Linux has mount namespaces")
    reason = ""
    for kind in (MOUNTS_ONLY, WITH_USER) if os.geteuid() == 0 else (WITH_USER,):
        reason = await _try_namespace(kind, staging)
        if not reason:
            return NamespaceSupport(kind)
    return NamespaceSupport("", reason)


async def _try_namespace(kind: str, staging: Path) -> str:
    """Return why a namespace cannot be made; empty when it can."""
    mount = (str(staging.parent), "/.kcr-mount-probe/volume", True)
    read_end, write_end = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *arguments(kind, write_end, str(staging), "/", (mount,)), "true",
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
            pass_fds=(write_end,),
        )  # fmt: skip
        code = await process.wait()
        os.set_blocking(read_end, False)
        os.close(write_end)
        write_end = -1
        return os.read(read_end, 4096).decode(errors="replace") or (f"exit code {code}" if code else "")
    except OSError as error:
        return str(error)
    finally:
        os.close(read_end)
        if write_end >= 0:
            os.close(write_end)


def kept_visible(mounts: Iterable[Mount], paths: Iterable[Path]) -> tuple[Mount, ...]:
    """Return further mounts, for paths that a container needs and one of its mounts would hide.

    Args:
        mounts: The container's mounts.
        paths: The paths that it needs.
    """
    targets = [os.path.realpath(mount.target) for mount in mounts]
    present = [path for path in paths if path.exists()]
    hidden = (path for path in present if any(path.resolve().is_relative_to(target) for target in targets))
    return tuple(Mount("", str(path), str(path), read_only=False) for path in hidden)


def mount_variables(mounts: Iterable[Mount]) -> dict[str, str]:
    """Return `KCR_MOUNT_<VOLUME>` for each volume: where it is, or the part of it that is mounted."""
    named = {mount.volume: mount.source for mount in mounts if mount.volume}
    return {VARIABLE + re.sub(r"\W", "_", volume.upper(), flags=re.ASCII): source for volume, source in named.items()}


def rewrite_paths(texts: Iterable[str], mounts: Iterable[Mount]) -> tuple[str, ...]:
    """Replace mountPaths, wherever they stand as whole path segments, by where the volumes are.

    Args:
        texts: Arguments or values of variables.
        mounts: The container's mounts.
    """
    by_target = {mount.target.rstrip("/"): mount.source for mount in mounts}
    longest_first = sorted(filter(None, by_target), key=len, reverse=True)
    if not longest_first:
        return tuple(texts)
    # Not within a longer path: neither a segment before it, nor a longer name.
    pattern = re.compile(r"(?<![\w./-])(" + "|".join(map(re.escape, longest_first)) + r")(?![\w.-])")
    return tuple(pattern.sub(lambda found: by_target[found[1]], text) for text in texts)


def rewritten(
    argv: Sequence[str], variables: Mapping[str, str], mounts: Sequence[Mount]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return a container's argument vector and variables with the directories of its volumes for their mountPaths.

    Args:
        argv: The argument vector.
        variables: The variables that its spec gives it.
        mounts: Its mounts.
    """
    values = dict(zip(variables, rewrite_paths(variables.values(), mounts), strict=True))
    return rewrite_paths(argv, mounts), {**mount_variables(mounts), **values}
