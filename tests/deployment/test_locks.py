"""The locks that a fresh checkout and the image install, and the ranges that installations of users have."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.kit.documents import ROOT

LOCKS = {name: (ROOT / f"requirements{name}.lock").read_text() for name in ("", "-build", "-demo", "-dev")}
# `kcr` and `kcr-devcluster` are in the checkout; the extras `docs` and `types` are installed by their own targets.
OWN = {"kcr", "kcr-devcluster"}
DEVELOPMENT = ("bench", "dev", "official", "schema", "secure", "speed", "test", "tracing")


def versions(lock: str) -> dict[str, Version]:
    return {name: Version(version) for name, version in re.findall(r"^([\w.-]+)==([^\s;]+)", lock, re.MULTILINE)}


def requirements() -> Iterator[Requirement]:
    for folder in (ROOT, ROOT / "devcluster"):
        project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        extras = project.get("optional-dependencies", {})
        listed = [*project["dependencies"], *(one for name in DEVELOPMENT for one in extras.get(name, ()))]
        yield from (one for one in map(Requirement, listed) if canonicalize_name(one.name) not in OWN)


DIRECT = [pytest.param(one, id=str(one).partition(";")[0]) for one in sorted(set(requirements()), key=str)]
LOCKED = versions(LOCKS["-dev"])


@pytest.mark.parametrize("lock", LOCKS)
def test_each_locked_package_has_hashes_and_the_version_that_is_tested(lock: str) -> None:
    text = LOCKS[lock]
    packages = versions(text)
    assert packages
    assert len(packages) == len(re.findall(r"^[\w.-]+==[^\n]+\\\n    --hash=sha256:", text, re.MULTILINE))
    assert {name: version for name, version in packages.items() if LOCKED.get(name) != version} == {}


@pytest.mark.parametrize("requirement", DIRECT)
def test_lock_is_inside_the_ranges(requirement: Requirement) -> None:
    if canonicalize_name(requirement.name) in LOCKED:
        assert LOCKED[canonicalize_name(requirement.name)] in requirement.specifier
    else:
        assert requirement.name in ("kopf", "psutil"), "run `make lock`"  # those of the benchmarks alone


@pytest.mark.parametrize("requirement", DIRECT)
def test_package_below_one_is_bounded_at_the_tested_minor(requirement: Requirement) -> None:
    locked = LOCKED.get(canonicalize_name(requirement.name), Version("1"))
    following = Version(f"{locked.major}.{locked.minor + 1}")
    assert locked.major or following not in requirement.specifier


@pytest.mark.parametrize("target", [".venv/bin/kcr", ".venv/.installed"])
def test_fresh_checkout_installs_only_locked_packages(target: str) -> None:
    told = subprocess.run(
        ["make", "--dry-run", "--always-make", f"PYTHON={sys.executable}", target],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    installs = [line for line in told.splitlines() if "pip install" in line]
    assert installs
    assert all("--require-hashes" in line or "--no-deps --no-build-isolation" in line for line in installs)
