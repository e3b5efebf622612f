"""What `pip install kcr` brings, from a checkout or an sdist: one top-level package, with the plugins in it.

And it works in an environment that has nothing else than what it asks for.
"""

import asyncio
import os
import signal
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kcr.api.core import Namespace
from kcr.api.meta import Key
from kcr.client import Client, HttpTransport, load_config
from kcr.testing import eventually
from tests.e2e.processes import ROOT
from tests.kit.documents import files
from tests.kit.wheels import build, checkout, contents
from tools.audit import closure

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

# Folders of the packages, and where they are in the repository: one of each is a link.
LINKED = (("kcr", "kcr"), ("kcr/controllers", "controllers"))
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
_WEBSITE = "kcr_devcluster/generators/_website"
LINKED_DEVCLUSTER = (("kcr_devcluster", "devcluster/kcr_devcluster"), (_WEBSITE, "examples/website"))
# Stands on the path of a user: a package of the same name as the folder of the plugins in this repository.
RAISES = "raise ImportError('the controllers of another package')\n"
ENTRY_POINTS = """
from importlib.metadata import distribution, entry_points
assert "site" in distribution("kcr").locate_file("").parts, "not the wheel's"
print(*sorted(point.load().__module__ for point in entry_points(group="kcr.controllers")))
"""


def sources_of(folders: Sequence[tuple[str, str]], suffixes: Sequence[str]) -> set[str]:
    """Return the files that the folders of a package have in the repository, by their names in its wheel."""
    return {
        str(Path(package) / path.relative_to(ROOT / folder))
        for package, folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in suffixes
    }


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout, in which builds leave their traces."""
    return checkout(tmp_path_factory.mktemp("checkout") / "kcr")


@pytest.fixture(scope="module")
def wheel(tree: Path) -> Path:
    return build(tree, "build_wheel", tree.with_name("wheel"))


@pytest.fixture(scope="module")
def devcluster(tree: Path) -> Path:
    return build(tree / "devcluster", "build_wheel", tree.with_name("devcluster"))


def test_wheel_has_one_top_level_package_with_all_its_files(wheel: Path) -> None:
    names = set(contents(wheel))
    assert {name.partition("/")[0] for name in names} == {"kcr", f"kcr-{VERSION}.dist-info"}
    sources = sources_of(LINKED, (".py", ".pyi", ".html", ".json", ".txt", ".typed"))
    assert {name for name in names if name.startswith("kcr/")} == sources
    # The budget of decision 17.
    assert wheel.stat().st_size <= 870_000
    assert {"kcr/controllers/job/controller.py", "kcr/controllers/cronjob/controller.py"} < sources


@pytest.mark.soak
def test_wheel_of_the_development_cluster_has_its_package_alone(devcluster: Path) -> None:
    names = set(contents(devcluster))
    assert {name.partition("/")[0] for name in names} == {"kcr_devcluster", f"kcr_devcluster-{VERSION}.dist-info"}
    sources = sources_of(LINKED_DEVCLUSTER, (".py", ".json", ".typed", ".css", ".js", ".md", ".yaml"))
    # `kcr init` generates the definition of its kind, its role and its webhook configurations.
    made = ("manifests/example.dev_websites", "chart/files/example.dev_websites")
    generated = (*made, "chart/templates/rbac", "chart/templates/webhooks")
    sources -= {f"{_WEBSITE}/{name}.yaml" for name in generated}
    assert {name for name in names if name.startswith("kcr_devcluster/")} == sources


@pytest.mark.soak
@pytest.mark.parametrize("distribution", [pytest.param(".", id="kcr"), pytest.param("devcluster", id="devcluster")])
def test_sdist_makes_the_same_wheel(
    distribution: str, tree: Path, wheel: Path, devcluster: Path, tmp_path: Path
) -> None:
    # Python before 3.11.4 has no filters, and one since 3.14 needs none.
    checked: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(build(tree / distribution, "build_sdist", tmp_path / "sdist")) as archive:
        archive.extractall(tmp_path / "unpacked", **checked)
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    made = devcluster if distribution == "devcluster" else wheel
    assert contents(build(unpacked, "build_wheel", tmp_path / "wheel")) == contents(made)


@pytest.mark.soak
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


def environment_for(wheels: Sequence[Path], extra: str, folder: Path) -> Path:
    """Make an environment that has the wheels, what kcr needs with an extra, and nothing else; return its `bin`.

    The packages that it needs are those of this environment, of which none other can be imported there.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    packages = closure("kcr", [extra] if extra else [])
    for package in (package for name, package in packages.items() if name not in ("kcr", "kcr-devcluster")):
        tops = {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}
        for top in tops:
            (site / top).symlink_to(Path(str(package.locate_file(top))))
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", f"--python={folder}/bin/python"]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", *map(str, wheels)], check=True)
    return folder / "bin"


def run(folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, with nothing of the developer's own."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)


@asynccontextmanager
async def running(folder: Path, *command: str | Path, **variables: str) -> AsyncIterator[None]:
    """Run a process as `run` does for as long as the context lives; SIGTERM has to end it in order."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), **variables}
    silent = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, cwd=folder, env=environ, stdout=silent, stderr=silent)
    try:
        yield
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.soak
def test_base_package_runs_and_names_what_is_missing(wheel: Path, tmp_path: Path) -> None:
    programs = environment_for([wheel], "", tmp_path / "environment")
    code = "import sys, kcr; print(kcr.__file__, *sys.path)"
    (line,) = run(tmp_path, programs / "python", "-c", code).stdout.splitlines()
    assert line.startswith(str(tmp_path / "environment"))
    assert str(ROOT) not in line
    assert run(tmp_path, programs / "python", "-c", "import rich").returncode == 1
    for arguments in (["--help"], ["--version"], ["version"], ["run", "--help"], ["check", "--help"]):
        done = run(tmp_path, programs / "kcr", *arguments)
        assert (done.returncode, done.stderr) == (0, ""), arguments
    absent = (
        ["dev"],
        ["init", "website"],
        ["types", "generate", "v1/Pod"],
        ["crd", "generate", "shop"],
        ["rbac", "generate"],
    )
    for arguments in absent:
        done = run(tmp_path, programs / "kcr", *arguments)
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert "kcr[embedded]" in line


@pytest.mark.soak
def test_dev_cluster_needs_its_extra_alone(wheel: Path, devcluster: Path, tmp_path: Path) -> None:
    programs = environment_for([wheel, devcluster], "embedded", tmp_path / "environment")
    assert run(tmp_path, programs / "python", "-c", "import pytest").returncode == 1
    done = run(tmp_path, programs / "kcr", "dev", "-f", ROOT / "examples" / "pi-python.yaml", "--wait")
    assert done.returncode == 0, done.stderr
    assert "3.14159265" in done.stdout


@pytest.mark.soak
@pytest.mark.asyncio
async def test_first_controller_of_the_readme_works(wheel: Path, devcluster: Path, tmp_path: Path) -> None:
    programs = environment_for([wheel, devcluster], "test", tmp_path / "environment")
    assert run(tmp_path, programs / "python", "-c", "import hypothesis").returncode == 1
    for name, text in files(ROOT / "README.md").items():
        (tmp_path / name).write_text(text)
    done = run(tmp_path, programs / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_website.py")
    assert "1 passed" in done.stdout, done.stdout + done.stderr

    kubeconfig = tmp_path / "kubeconfig"
    command = ("dev", "--controllers", "greeter:setup", "--kubeconfig", kubeconfig)
    async with running(tmp_path, programs / "kcr", *command):
        await eventually(kubeconfig.exists)
        async with HttpTransport(load_config(str(kubeconfig))) as transport:

            async def greeted() -> bool:
                namespace = await Client(transport).get(Namespace, Key("", "default"))
                return namespace.metadata.labels.get("greeted") == "yes"

            await eventually(greeted)
