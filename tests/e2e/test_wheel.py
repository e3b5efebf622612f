"""What `pip install kcr` brings, from a checkout or an sdist: one top-level package, with the plugins in it."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

# Folders of the package, and where they are in the repository: two of them are links.
LINKED = (("kcr", "kcr"), ("kcr/controllers", "controllers"), ("kcr/cli/website", "examples/website"))
# Stands on the path of a user: a package of the same name as the folder of the plugins in this repository.
RAISES = "raise ImportError('the controllers of another package')\n"
ENTRY_POINTS = """
from importlib.metadata import distribution, entry_points
assert "site" in distribution("kcr").locate_file("").parts, "not the wheel's"
print(*sorted(point.load().__module__ for point in entry_points(group="kcr.controllers")))
"""


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


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout, in which builds leave their traces."""
    tree = tmp_path_factory.mktemp("checkout") / "kcr"
    ignored = shutil.ignore_patterns(".*", "*.egg-info", "__pycache__", "build", "dist", "docs", "tests")
    return Path(shutil.copytree(ROOT, tree, symlinks=True, ignore=ignored))


@pytest.fixture(scope="module")
def wheel(tree: Path) -> Path:
    return build(tree, "build_wheel", tree.with_name("wheel"))


def test_wheel_has_one_top_level_package_with_all_its_files(wheel: Path) -> None:
    names = set(contents(wheel))
    assert {name.partition("/")[0] for name in names} == {"kcr", "kcr-0.1.0.dist-info"}
    sources = {
        str(Path(package) / path.relative_to(ROOT / folder))
        for package, folder in LINKED
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".json", ".typed", ".md", ".yaml")
    }
    assert {name for name in names if name.startswith("kcr/")} == sources
    assert {"kcr/controllers/job/controller.py", "kcr/controllers/cronjob/controller.py"} < sources
    assert any(name.startswith("kcr/apiserver/schema/") and name.endswith(".json") for name in sources)


def test_sdist_makes_the_same_wheel(tree: Path, wheel: Path, tmp_path: Path) -> None:
    # Python before 3.11.4 has no filters, and one since 3.14 needs none.
    checked: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(build(tree, "build_sdist", tmp_path / "sdist")) as archive:
        archive.extractall(tmp_path / "unpacked", **checked)
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    assert contents(build(unpacked, "build_wheel", tmp_path / "wheel")) == contents(wheel)


def test_foreign_package_called_controllers_changes_nothing(wheel: Path, tmp_path: Path) -> None:
    site, foreign = tmp_path / "site", tmp_path / "foreign"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (foreign / "controllers").mkdir(parents=True)
    (foreign / "controllers" / "__init__.py").write_text(RAISES)
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (foreign, site)))}

    def python(*arguments: str) -> str:
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert python("-c", "import kcr; print(kcr.__file__)").strip() == str(site / "kcr" / "__init__.py")
    assert "--controllers" in python("-c", "from kcr.cli.main import main; main()", "run", "--help")
    loaded = ["kcr.controllers.cronjob.controller", "kcr.controllers.job.controller", "kcr.controllers.job.ttl"]
    assert python("-c", ENTRY_POINTS).split() == loaded
