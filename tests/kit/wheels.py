"""Wheels and sdists, built as pip builds them."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def checkout(target: Path) -> Path:
    """Copy the sources of the distributions, so that builds leave their traces there."""
    ignored = shutil.ignore_patterns(".*", "*.egg-info", "__pycache__", "build", "dist", "docs", "tests")
    return Path(shutil.copytree(ROOT, target, symlinks=True, ignore=ignored))


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
