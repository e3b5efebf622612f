"""A Dockerfile carried out in a plain folder: its COPY and RUN steps, as far as these need no container.

Each stage finds an empty folder in place of `/`, with a fresh environment of this Python in place of the image that it
begins with. Absolute paths in the steps are paths in that folder, which is the same for all stages, one after the
other: programs know where they were installed.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

_INSTRUCTION = re.compile(r"^([A-Z]+) +((?:[^\n]*\\\n)*[^\n]*)$", re.MULTILINE)
# A path from the root: not behind a name, a dot, or another path.
_ABSOLUTE = re.compile(r"(?<![\w./$}-])/(?=\w)")


class Instruction(NamedTuple):
    """A line of a Dockerfile: its name in capitals, and the rest."""

    name: str
    text: str


def instructions(dockerfile: str) -> list[Instruction]:
    """Return the instructions of a Dockerfile, in order."""
    return [Instruction(*found) for found in _INSTRUCTION.findall(dockerfile)]


class PlainImage(NamedTuple):
    """What the last stage has made.

    Attributes:
        root: The folder in place of `/`.
        environ: The variables that the image sets.
    """

    root: Path
    environ: Mapping[str, str]


def build(dockerfile: str, context: Path, folder: Path) -> PlainImage:
    """Carry out a Dockerfile in a folder, which has to be empty.

    Raises:
        subprocess.CalledProcessError: A RUN step failed.
    """
    root, stages, stage, work = folder / "root", folder / "stages", "", folder
    environ: dict[str, str] = {}
    stages.mkdir()
    for name, text in instructions(dockerfile):
        match name:
            case "FROM":
                if stage:
                    root.rename(stages / stage)
                _, _, stage = text.partition(" AS ")
                root.mkdir()
                work, stage, environ = root, stage or "last", {}
                subprocess.run([sys.executable, "-m", "venv", root / "base"], check=True)
            case "WORKDIR":
                work = root / text.removeprefix("/")
                work.mkdir(parents=True)
            case "COPY":
                _copy(text, context, stages, root, work)
            case "ENV":
                environ |= dict(one.split("=", 1) for one in text.replace("$PATH", os.defpath).split())
            case "RUN":
                script = _ABSOLUTE.sub(f"{root}/", text)
                path = f"{root}/base/bin:{os.environ['PATH']}"
                subprocess.run(["sh", "-ec", script], cwd=work, env={**os.environ, "PATH": path}, check=True)
    shutil.rmtree(root / "base")
    return PlainImage(root, {name: value.replace("/opt/", f"{root}/opt/") for name, value in environ.items()})


def _copy(text: str, context: Path, stages: Path, root: Path, work: Path) -> None:
    *sources, target = [word for word in text.split() if not word.startswith("--")]
    origin = re.match(r"--from=(\S+)", text)
    there = root / target.removeprefix("/") if target.startswith("/") else work / target
    for source in sources:
        path = stages / origin[1] / source.removeprefix("/") if origin else context / source
        if path.is_dir():
            shutil.copytree(
                path, there, symlinks=True, ignore=shutil.ignore_patterns("__pycache__") if not origin else None
            )
        else:
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, there)
