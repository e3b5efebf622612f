"""`make release` on a commit of its own: the files of a release, and that they can be installed."""

import subprocess
import sys
import zipfile
from datetime import date
from pathlib import Path

import pytest

from tests.kit.documents import ROOT
from tools.release.__main__ import findings, make
from tools.release.build import checksums
from tools.release.version import set_version

pytestmark = [pytest.mark.e2e, pytest.mark.soak, pytest.mark.timeout(120)]

VERSION = "7.8.9"


def git(folder: Path, *words: str | Path) -> None:
    known = ("-c", "user.name=a", "-c", "user.email=b")
    subprocess.run(["git", *known, *words], cwd=folder, capture_output=True, check=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A commit with another version."""
    folder = tmp_path / "kcr"
    try:
        git(tmp_path, "clone", "--quiet", ROOT, folder)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("the checkout is no repository of git")
    set_version(folder, VERSION, date(2027, 1, 2))
    (folder / "docs" / "reference" / "public-api.txt").write_text(f"# Public API of kcr {VERSION}. Made by …\n")
    git(folder, "commit", "--quiet", "--all", "--message", "release")
    return folder


def test_files_of_a_release_are_built_twice_alike_and_have_their_papers(checkout: Path, tmp_path: Path) -> None:
    assert list(findings(checkout, VERSION)) == []
    target = tmp_path / "dist"
    make(checkout, VERSION, target)
    wheels = {f"{name}-{VERSION}-py3-none-any.whl" for name in ("kcr", "kcr_devcluster")}
    sdists = {f"{name}-{VERSION}.tar.gz" for name in ("kcr", "kcr_devcluster")}
    bills = {f"{name}-{VERSION}.cdx.json" for name in ("kcr", "kcr_devcluster", "kcr-image")}
    papers = {f"kcr-chart-{VERSION}.tgz", "install.yaml", "licences.txt", "notes.md", "SHA256SUMS"}
    assert {path.name for path in target.iterdir()} == wheels | sdists | bills | papers
    assert (target / "SHA256SUMS").read_text() == checksums(target)
    assert "### Added" in (target / "notes.md").read_text()
    assert "aiohttp 3." in (target / "licences.txt").read_text()
    with zipfile.ZipFile(target / f"kcr-{VERSION}-py3-none-any.whl") as wheel:
        assert f"kcr-{VERSION}.dist-info/licenses/LICENSE" in wheel.namelist()
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", tmp_path / "site", *target.glob("*.whl")], check=True)


def test_difference_between_two_builds_ends_the_release(checkout: Path, tmp_path: Path) -> None:
    setup = "import os; from setuptools import setup; open('kcr/made.py', 'w').write(f'# {os.getcwd()}'); setup()\n"
    (checkout / "setup.py").write_text(setup)
    git(checkout, "add", "--all")
    git(checkout, "commit", "--quiet", "--message", "the folder of the build is in the wheel")
    with pytest.raises(RuntimeError, match="two builds differ"):
        make(checkout, VERSION, tmp_path / "dist")
    assert not (tmp_path / "dist").exists()
