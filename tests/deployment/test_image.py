"""The Dockerfile and its locks, as far as a machine without a container daemon can tell."""

import asyncio
import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
import yaml
from packaging.requirements import Requirement

from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.charts import documents, of_kind
from tests.kit.dockerfile import build, instructions
from tests.kit.documents import ROOT
from tests.kit.harness import create, finished, manifest
from tools.audit import closure
from tools.chart import CHART, INSTALL

LOCK, BUILD_LOCK = ROOT / "requirements.lock", ROOT / "requirements-build.lock"
DOCKERFILE = (ROOT / "Dockerfile").read_text()
INSTRUCTIONS = instructions(DOCKERFILE)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
HADOLINT = Path(sys.executable).parent / "hadolint"


def copied() -> list[str]:
    """What the image takes from the checkout."""
    words = [text.split() for name, text in INSTRUCTIONS if name == "COPY" and not text.startswith("--from")]
    return [source for *sources, _ in words for source in sources]


def is_ignored(path: str) -> bool:
    """Whether .dockerignore keeps a path out: the last line that matches it, or a folder of it, decides."""
    parts = path.split("/")
    prefixes = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    ignored = False
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.removeprefix("!").removeprefix("**/")
        if line and not line.startswith("#") and any(fnmatch.fnmatch(prefix, pattern) for prefix in prefixes):
            ignored = not line.startswith("!")
    return ignored


def locked(lock: Path) -> dict[str, tuple[int, str]]:
    """How many hashes each package of a lock has, and what asked for it."""
    entries = re.findall(
        r"^([\w.-]+)==[^\n]*\\\n((?: {4}--hash[^\n]*\n)+)((?: {4}#[^\n]*\n?)*)", lock.read_text(), re.MULTILINE
    )
    return {name: (hashes.count("--hash=sha256:"), why) for name, hashes, why in entries}


def locked_for_this_python(lock: Path) -> set[str]:
    lines = map(Requirement, re.findall(r"^([\w.-]+==[^\n]*) \\$", lock.read_text(), re.MULTILINE))
    return {one.name for one in lines if one.marker is None or one.marker.evaluate()}


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[^\w.-]", requirement)[0].lower() for requirement in requirements}


def test_each_source_is_there_and_is_sent() -> None:
    assert len(copied()) > 5
    assert not [source for source in copied() if not (ROOT / source).exists() or is_ignored(source)]
    assert is_ignored("tests")
    assert is_ignored("examples/pi.yaml")
    assert not is_ignored("controllers/job/controller.py")


def test_sources_have_all_that_the_wheel_links_to() -> None:
    links = [path.resolve().relative_to(ROOT) for path in (ROOT / "kcr").rglob("*") if path.is_symlink()]
    assert links
    assert not [link for link in links if str(link) not in copied()]


def test_image_runs_as_the_user_of_the_chart() -> None:
    last = dict(INSTRUCTIONS[[name for name, _ in INSTRUCTIONS].index("USER") :])
    user = yaml.safe_load((CHART / "values.yaml").read_text())["podSecurityContext"]
    assert last["USER"] == f"{user['runAsUser']}:{user['runAsGroup']}"
    assert last["ENTRYPOINT"] == '["kcr", "run"]'


def test_versions_are_those_of_the_project() -> None:
    version = PROJECT["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version, version)
    assert ("ARG", f"VERSION={version}") in INSTRUCTIONS


def test_labels_say_what_it_is_and_of_which_version() -> None:
    labels = dict(re.findall(r'org.opencontainers.image.([\w.]+)="([^"]*)"', dict(INSTRUCTIONS)["LABEL"]))
    project = PROJECT["project"]
    assert (labels.pop("title"), labels.pop("licenses")) == (project["name"], project["license"])
    assert labels.pop("description")
    assert labels == {"version": "${VERSION}", "revision": "${REVISION}", "base.name": "${PYTHON_IMAGE}"}


@pytest.mark.skipif(not HADOLINT.exists(), reason="hadolint has no package for this machine")
def test_linter_finds_nothing() -> None:
    done = subprocess.run([HADOLINT, ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_locks_have_hashes_for_what_kcr_run_needs_and_no_more() -> None:
    project = PROJECT["project"]
    packages = locked(LOCK)
    assert len(packages) == len(re.findall(r"^[\w.-]+==", LOCK.read_text(), re.MULTILINE))
    assert all(hashes for hashes, _ in packages.values())
    direct = {name for name, (_, why) in packages.items() if "kcr (pyproject.toml)" in why}
    extras = project["optional-dependencies"]
    assert direct == names(project["dependencies"]) | names(extras["speed"]) | names(extras["secure"])
    for name, (_, why) in packages.items():
        asking = set(re.findall(r"# +(?:via +)?([\w.-]+)(?: \(pyproject.toml\))?$", why, re.MULTILINE)) - {"via"}
        assert asking <= packages.keys() | {"kcr"}, f"{name} is asked for by none of the others"
    assert locked(BUILD_LOCK).keys() == names(PROJECT["build-system"]["requires"])


def bound_of_the_guide() -> int:
    """How many bytes the image may hold beside its base, as the guide says."""
    (found,) = re.findall(r"at most (\d+) MB beside the base image", (ROOT / "docs/guide/install.md").read_text())
    return int(found) * 1_000_000


def test_packages_of_the_image_fit_into_its_bound() -> None:
    packages = closure("kcr", ["speed", "secure"])
    assert locked_for_this_python(LOCK) == packages.keys() - {"kcr"}
    files = [
        Path(str(package.locate_file(file)))
        for name, package in packages.items()
        for file in package.files or ()
        if name != "kcr" and file.suffix != ".pyc"
    ]
    own = [path for folder in copied() for path in (ROOT / folder).rglob("*.py")]
    sizes = {path: path.stat().st_size for path in (*files, *own) if path.is_file()}
    # pip compiles the modules: for these packages the bytecode is 1.1 times as large as the sources.
    size = sum(sizes.values()) + 1.2 * sum(size for path, size in sizes.items() if path.suffix == ".py")
    assert size <= bound_of_the_guide()
    # It would count next to nothing if the environment had no files.
    assert size > bound_of_the_guide() / 2


def files_of(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


def readable(folder: str) -> Path:
    """Let other users read a folder."""
    path = Path(folder)
    path.chmod(0o755)
    return path


def image_user(python: Path) -> int | None:
    """The user of the image, where this test may change it, and where that user can reach this Python; else None."""
    reachable = all(folder.stat().st_mode & 0o005 == 0o005 for folder in python.resolve().parents)
    return 65532 if os.geteuid() == 0 and reachable else None


@pytest.mark.soak
@pytest.mark.asyncio
async def test_what_the_image_holds_runs_without_a_home() -> None:
    (deployment,) = of_kind(documents(INSTALL.read_text()), "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    arguments = [re.sub(r"=:\d+$", "=127.0.0.1:0", argument) for argument in container["args"]]
    # Not in pytest's folder: another user cannot reach that.
    with TemporaryDirectory() as name:
        folder = readable(name)
        image = build(DOCKERFILE, ROOT, folder)
        before = files_of(image.root)
        assert sum(path.lstat().st_size for path in before if path.is_file()) <= bound_of_the_guide()
        assert {path.name for path in image.root.iterdir()} == {"opt"}
        kubeconfig = str(folder / "kubeconfig")
        environ = {**image.environ, "HOME": "/nonexistent", "KUBECONFIG": kubeconfig, "KCR_TAKE_OVER": "true"}
        program, *entry = json.loads(dict(INSTRUCTIONS)["ENTRYPOINT"])
        path = shutil.which(program, path=image.environ["PATH"])
        assert path == str(image.root / "opt" / "kcr" / "bin" / "kcr")
        async with EmbeddedCluster(random=Random(0)) as cluster:
            (folder / "kubeconfig").write_text((await cluster.serve()).kubeconfig)
            process = await asyncio.create_subprocess_exec(
                path, *entry, *arguments, cwd="/", env=environ, stderr=asyncio.subprocess.PIPE,
                user=image_user(Path(sys.executable)),
            )  # fmt: skip
            await create(cluster.client, manifest("once"))
            await finished(cluster.client, "once", seconds=60)
            process.terminate()
            _, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        assert files_of(image.root) == before
