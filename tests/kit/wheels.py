"""Wheels and sdists, built as pip builds them."""

import subprocess
import sys
import zipfile
from pathlib import Path


def build(tree: Path, hook: str, target: Path) -> Path:
    """Call a hook of the build backend (PEP 517) in a source tree, and return what it made."""
    target.mkdir()
    code = f"import sys; from setuptools import build_meta; build_meta.{hook}(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", code, target], cwd=tree, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (made,) = target.iterdir()
    return made


def contents(wheel: Path) -> dict[str, int]:
    """The files of a wheel, each with its checksum; all but the record, which repeats them."""
    with zipfile.ZipFile(wheel) as archive:
        return {info.filename: info.CRC for info in archive.infolist() if not info.filename.endswith("/RECORD")}
