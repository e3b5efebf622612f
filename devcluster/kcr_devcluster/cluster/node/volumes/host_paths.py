"""hostPath volumes: files and directories of the machine, checked or made as their type says."""

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from kcr.api.full.core_v1 import HostPathVolumeSource
from kcr_devcluster.cluster.node.volumes.contents import VolumeError


class _Type(NamedTuple):
    """A hostPath type: its check, its name in messages, and how a missing path is made."""

    is_met: Callable[[int], bool]
    description: str
    make: Callable[[Path], None] | None = None


def _make_directory(path: Path) -> None:
    path.mkdir(mode=0o755, parents=True, exist_ok=True)


def _make_file(path: Path) -> None:
    # Its directory must be there.
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))


_TYPES: Mapping[str, _Type] = {
    "Directory": _Type(stat.S_ISDIR, "a directory"),
    "DirectoryOrCreate": _Type(stat.S_ISDIR, "a directory", _make_directory),
    "File": _Type(stat.S_ISREG, "a file"),
    "FileOrCreate": _Type(stat.S_ISREG, "a file", _make_file),
    "Socket": _Type(stat.S_ISSOCK, "a socket file"),
    "CharDevice": _Type(stat.S_ISCHR, "a character device"),
    "BlockDevice": _Type(stat.S_ISBLK, "a block device"),
}


def prepare_host_path(source: HostPathVolumeSource) -> Path:
    """Return the path of a hostPath volume, made if it is missing and its type says so.

    Without a type a missing directory is made.

    Raises:
        VolumeError: It is not of its type, or cannot be made.

    Source: kubernetes/pkg/volume/hostpath/host_path.go, checkTypeInternal; without a type the container runtime makes
        the directory: containerd/internal/cri/opts/spec_linux_opts.go, WithMounts.
    """
    path = Path(source.path)
    wanted = _TYPES.get(source.type or "")
    make = _make_directory if wanted is None else wanted.make
    try:
        if make is not None and not path.exists():
            make(path)
        if wanted is not None and not (path.exists() and wanted.is_met(path.stat().st_mode)):
            raise VolumeError(f"hostPath type check failed: {path} is not {wanted.description}")
    except OSError as error:
        raise VolumeError(f"{path}: {error.strerror}") from error
    return path
