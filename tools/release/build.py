"""Builds of both distributions and of the chart that depend on the sources alone: two builds have one hash.

Wheels take the times of their entries from `SOURCE_DATE_EPOCH`. setuptools writes the present time, the user and his
umask into an sdist, so that its archive is written again here; the wheel is built from it.
"""

import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# The folder of each distribution in a checkout.
DISTRIBUTIONS = (".", "devcluster")


def export(root: Path, commit: str, target: Path) -> int:
    """Write the files of a commit into a folder, and return the time of the commit in seconds.

    Raises:
        subprocess.CalledProcessError: The folder is no repository that has the commit.
    """

    def git(*words: str) -> bytes:
        return subprocess.run(["git", *words], cwd=root, capture_output=True, check=True).stdout

    unpack(git("archive", "--format=tar", commit), target)
    return int(git("show", "--no-patch", "--format=%ct", commit))


def build_all(tree: Path, target: Path, epoch: int) -> None:
    """Build the sdists and wheels of a checkout.

    Args:
        tree: The checkout, in which builds leave their traces.
        target: A folder for the files.
        epoch: The time that all entries of the archives have.

    Raises:
        RuntimeError: A build failed; the message has its output.
    """
    for place in DISTRIBUTIONS:
        (made,) = _call(tree / place, "build_sdist", tree / ".sdist" / place, epoch)
        sdist = target / made.name
        with tarfile.open(made) as archive:
            files = [
                (info.name, archive.extractfile(info).read(), bool(info.mode & 0o100))  # type: ignore[union-attr]  # a file
                for info in archive
                if info.isfile()
            ]
        sdist.write_bytes(pack(files, epoch))
        unpacked = tree / ".unpacked" / place
        unpack(gzip.decompress(sdist.read_bytes()), unpacked)
        (source,) = unpacked.iterdir()
        _call(source, "build_wheel", target, epoch)


def pack_chart(chart: Path, epoch: int) -> bytes:
    """Return the archive of a chart, as `helm package` makes it but for its times."""
    names = sorted(path for path in chart.rglob("*") if path.is_file() and path.name != ".helmignore")
    return pack([(f"{chart.name}/{path.relative_to(chart)}", path.read_bytes(), False) for path in names], epoch)


def pack(files: Iterable[tuple[str, bytes, bool]], epoch: int) -> bytes:
    """Return a compressed archive of files, sorted by name.

    Args:
        files: The name and the contents of each, and whether it is a program.
        epoch: The time of all entries.
    """
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, contents, is_program in sorted(files):
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.mode = len(contents), epoch, 0o755 if is_program else 0o644
            archive.addfile(info, io.BytesIO(contents))
    return gzip.compress(raw.getvalue(), mtime=epoch)


def unpack(archive: bytes, target: Path) -> None:
    """Write the entries of an archive into a folder."""
    # Python before 3.11.4 has no filters, and one since 3.14 needs none.
    checked: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as found:
        found.extractall(target, **checked)


def checksums(folder: Path) -> str:
    """Return the lines of `SHA256SUMS` for the files of a folder."""
    return "".join(f"{sha256(path)}  {path.name}\n" for path in sorted(folder.iterdir()) if path.name != "SHA256SUMS")


def sha256(path: Path) -> str:
    """Return the hash of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _call(tree: Path, hook: str, target: Path, epoch: int) -> list[Path]:
    """Call a hook of the build backend (PEP 517), and return the files that it made."""
    target.mkdir(parents=True, exist_ok=True)
    before = set(target.iterdir())
    code = f"import os, sys; os.umask(0o022); from setuptools import build_meta; build_meta.{hook}(sys.argv[1])"
    environ = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code, target], cwd=tree, env=environ, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{tree}: {hook} failed:\n{done.stdout}{done.stderr}")
    return sorted(set(target.iterdir()) - before)
