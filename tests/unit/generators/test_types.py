"""Sources, output and exit codes of `kcr types generate`; what is in the classes is `tests/unit/codegen`."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from mypy import api

import kcr
from kcr.cli.main import exit_code_of
from tests.kit.command_lines import assert_refused
from tests.kit.documents import ROOT
from tests.kit.generated import imported


class GadgetSpec(kcr.Object):
    """What is wanted.

    Attributes:
        size: In “cm”, as a number or with its unit, which is a sentence that is long enough to be written in two lines.
        command: To be run.
    """

    size: kcr.Quantity | None = None
    command: tuple[str, ...] = ()


class Gadget(kcr.Resource, api_version="example.dev/v1", plural="gadgets"):
    """A gadget."""

    spec: GadgetSpec


class Widget(kcr.Resource, api_version="example.dev/v1", plural="widgets"):
    """A widget."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config"}}
    both = [kcr.crd_manifest(Gadget), config, None, kcr.crd_manifest(Widget)]
    (tmp_path / "crds.yaml").write_text(yaml.safe_dump_all(both))
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    (tmp_path / "broken.yaml").write_text("a: [")
    malformed = {
        "apiVersion": "v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "c"},
        "spec": {"group": 5},
    }
    (tmp_path / "malformed.yaml").write_text(yaml.safe_dump(malformed))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_definitions_of_a_file_become_one_module(folder: Path) -> None:
    assert exit_code_of(["types", "generate", "crds.yaml", "-o", "gadget_types.py"]) == 0
    with imported((folder / "gadget_types.py").read_text()) as module:
        assert (module.__doc__ or "").startswith("Types of example.dev/v1 Gadget, example.dev/v1 Widget.")
        assert kcr.crd_manifest(module.Gadget) == kcr.crd_manifest(Gadget)


def test_built_in_kinds_and_definitions_may_be_mixed(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["types", "generate", "v1/Pod", "apps/v1/Deployment", "crds.yaml"]) == 0
    with imported(capsys.readouterr().out) as module:
        assert module.Gadget.resource.plural == "gadgets"
        assert module.Deployment.resource.api_version == "apps/v1"
        assert "collection of containers" in (module.Pod.__doc__ or "")


@pytest.mark.timeout(30)
def test_module_is_clean_and_formatted(folder: Path) -> None:
    names = ["crds.yaml", "v1/Pod", "apiextensions.k8s.io/v1/CustomResourceDefinition"]
    assert exit_code_of(["types", "generate", *names, "-o", "gadget_types.py"]) == 0
    for command in (["check"], ["format", "--diff"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--no-cache", "--config", str(ROOT / "pyproject.toml")]
        done = subprocess.run([*ruff, "gadget_types.py"], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


@pytest.mark.soak
@pytest.mark.timeout(120)
def test_module_passes_the_strict_type_checker(folder: Path) -> None:
    names = ["crds.yaml", "v1/Pod", "apiextensions.k8s.io/v1/CustomResourceDefinition"]
    assert exit_code_of(["types", "generate", *names, "-o", "gadget_types.py"]) == 0
    out, err, code = api.run(["--strict", "--config-file", "", "--cache-dir", str(folder), "gadget_types.py"])
    assert (code, err) == (0, ""), out


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        pytest.param([], 2, "Missing argument", id="no-source"),
        pytest.param(
            ["Deployment"], 2, "'Deployment' is neither a file nor a kind: name a *.yaml, or one as", id="bare-kind"
        ),
        pytest.param(["v1/Deployment"], 1, "v1/Deployment is not a kind of Kubernetes", id="unknown-kind"),
        pytest.param(["v1/Pods"], 1, "v1/Pods is not a kind of Kubernetes 1.37.0: is it Pod?", id="plural"),
        pytest.param(["apps/v1/deployment"], 1, "1.37.0: is it Deployment?", id="lower-case"),
        pytest.param(["nonsense/v1/Foo"], 1, "1.37.0: name apiVersion/Kind", id="like-none"),
        pytest.param(["absent.yaml"], 1, "absent.yaml: No such file or directory: name a file", id="absent"),
        pytest.param(["broken.yaml"], 1, "broken.yaml: not YAML", id="no-yaml"),
        pytest.param(
            ["config.yaml"], 1, "config.yaml has no CustomResourceDefinition: name a file", id="no-definition"
        ),
        pytest.param(["malformed.yaml"], 1, "malformed.yaml: this is not a CustomResourceDefinition", id="malformed"),
        pytest.param(["crds.yaml", "--version", "v2"], 1, "gadgets.example.dev has no version v2", id="no-version"),
        pytest.param(["crds.yaml", "crds.yaml"], 1, "there is another class Gadget", id="twice"),
        pytest.param(["v1/Pod", "-o", "no/types.py"], 1, "no/types.py: No such file or directory", id="no-folder"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    arguments: list[str], code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_refused(["types", "generate", *arguments], code, line, capsys)
