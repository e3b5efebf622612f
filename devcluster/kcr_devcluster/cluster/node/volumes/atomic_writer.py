"""The atomic writer: files of a volume, replaced all at once.

The layout is the kubelet's, and programs rely on it. The files are in a directory of their own for each version;
the symbolic link `..data` names the present one and is replaced by renaming, which is atomic; users see links
through it: `key -> ..data/key`. A program that watches `..data` by inotify sees each update.

Source: kubernetes/pkg/volume/util/atomic_writer.go, Write.
"""

import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

DATA = "..data"
_NEW_DATA = "..data_tmp"


class ProjectedFile(NamedTuple):
    """The content of one file, and its mode."""

    data: bytes
    mode: int


Payload = Mapping[str, ProjectedFile]


def write_payload(volume: Path, payload: Payload) -> None:
    """Make a volume consist of these files.

    Args:
        volume: The directory of the volume.
        payload: The files by their paths, relative to it; the API server has refused `..` and absolute ones.

    Raises:
        OSError: They cannot be written, and the volume is as it was: a path may be a file and a directory at once.
    """
    version = Path(tempfile.mkdtemp(prefix="..", dir=volume))
    try:
        _write_files(version, payload)
    except OSError:
        # It is tried again and again, so nothing may be left of it.
        shutil.rmtree(version, ignore_errors=True)
        raise
    before = _version_of(volume)
    visible = {Path(path).parts[0] for path in payload}
    for name in visible:
        with suppress(FileExistsError):
            (volume / name).symlink_to(f"{DATA}/{name}")
    _link_version(volume, version.name)
    for entry in os.scandir(volume):
        if entry.is_symlink() and entry.name not in {*visible, DATA}:
            Path(entry.path).unlink()
    if before:
        shutil.rmtree(volume / before, ignore_errors=True)


def _write_files(version: Path, payload: Payload) -> None:
    version.chmod(0o755)
    for path, file in payload.items():
        place = version / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.data)
        place.chmod(file.mode)


def _version_of(volume: Path) -> str:
    """Return the name of the present version's directory; empty before the first."""
    try:
        return str((volume / DATA).readlink())
    except FileNotFoundError:
        return ""


def _link_version(volume: Path, name: str) -> None:
    link = volume / _NEW_DATA
    link.unlink(missing_ok=True)
    link.symlink_to(name)
    link.rename(volume / DATA)
