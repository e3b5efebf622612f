"""The workflows of continuous integration call make, and test what kcr promises to run on."""

import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.kit.documents import ROOT

GITHUB = ROOT / ".github"
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text()) for path in (GITHUB / "workflows").iterdir()}
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, workflow in WORKFLOWS.items():
        for job, told in workflow["jobs"].items():
            yield f"{name}/{job}", told


@pytest.mark.parametrize("job", [pytest.param(job, id=name) for name, job in jobs()])
def test_each_step_is_a_versioned_action_or_make(job: dict[str, Any]) -> None:
    for step in job["steps"]:
        if "uses" in step:
            assert re.fullmatch(r"(actions|docker)/[\w-]+@v\d+", step["uses"])
        else:
            make, *words = step["run"].split()
            assert make == "make"
            # Expressions are no words of the shell.
            targets = [word for word in words if "=" not in word and re.fullmatch(r"[a-z-]+", word)]
            assert targets
            assert set(targets) <= TARGETS


def test_each_python_that_kcr_supports_is_tested() -> None:
    tested = WORKFLOWS["test"]["jobs"]["test"]["strategy"]["matrix"]["python"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={tested[0]}"
    names = [one.rpartition(" ")[2] for one in project["classifiers"] if "Python :: 3." in one]
    assert names == tested
    told = (ROOT / "docs" / "guide" / "compatibility.md").read_text()
    assert f"| CPython {tested[0]} to {tested[-1]};" in told
    assert f"python:{tested[-1]}-slim" in (ROOT / "Dockerfile").read_text()


def test_identity_is_for_the_release_alone() -> None:
    assert all(workflow["permissions"] == {"contents": "read"} for workflow in WORKFLOWS.values())
    able = {name for name, job in jobs() if job.get("permissions", {}).get("id-token") == "write"}
    assert able == {"release/files"}
    # YAML reads the key `on` as a truth.
    assert WORKFLOWS["release"][True] == {"push": {"tags": ["v*"]}}


def test_cluster_of_kind_has_no_controllers_that_kcr_replaces() -> None:
    (patch,) = yaml.safe_load((ROOT / ".ci" / "kind.yaml").read_text())["kubeadmConfigPatches"]
    (argument,) = yaml.safe_load(patch)["controllerManager"]["extraArgs"]
    off = {"-job-controller", "-ttl-after-finished-controller", "-cronjob-controller"}
    assert argument["name"] == "controllers"
    assert off < set(argument["value"].split(","))
    shown = subprocess.run(["make", "--dry-run", "kind"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "--platform linux/amd64 " in shown, "kind loads the image of one platform"
    assert "--tag kcr:" in shown
    assert "controllers={job,ttl,cronjob}" in shown


def test_container_of_development_has_the_environment_of_make() -> None:
    told = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert told["postCreateCommand"] == "make .venv/.installed"
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert all(hook["entry"].partition(" ")[2] in TARGETS for hook in hooks)
