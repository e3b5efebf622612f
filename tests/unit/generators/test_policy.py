"""Files, output and exit codes of `kcr policy generate`; what is in them is `test_policies.py`."""

from pathlib import Path

import pytest
import yaml

from kcr.cli.main import exit_code_of

KINDS = """
from typing import Annotated
import kcr


class DeploymentSpec(kcr.Object, validations=(kcr.Validation("self.replicas > 0"),)):
    replicas: Annotated[int, kcr.Validation("self <= 10", "at most ten")] = 1


class Deployment(kcr.Resource, api_version="apps/v1", plural="deployments"):
    spec: DeploymentSpec


class Service(kcr.Resource, api_version="v1", plural="services", validations=(kcr.Validation("has(self.spec)"),)):
    pass
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "limits.py").write_text(KINDS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_kind_gets_a_policy_and_a_binding(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        exit_code_of(["policy", "generate", "limits", "-o", "policies.yaml", "--name", "web", "--action", "warn"]) == 0
    )
    documents = list(yaml.safe_load_all((folder / "policies.yaml").read_text()))
    assert [(one["kind"], one["metadata"]["name"]) for one in documents] == [
        ("ValidatingAdmissionPolicy", "web-deployments.apps"),
        ("ValidatingAdmissionPolicyBinding", "web-deployments.apps"),
        ("ValidatingAdmissionPolicy", "web-services"),
        ("ValidatingAdmissionPolicyBinding", "web-services"),
    ]
    assert documents[1]["spec"]["validationActions"] == ["Warn"]
    assert capsys.readouterr().err == (
        "Warning: Deployment: the rule `self.replicas > 0` of spec fails where self.replicas is absent, as defaults "
        "of a class are not those of the API server: begin it with `!has(self.replicas) ||`\n"
    )


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        pytest.param(["limits:Pod"], 1, "limits declares no kind Pod, but Deployment, Service: a kind is", id="absent"),
        pytest.param(["limits", "--action", "deny", "--action", "warn"], 2, "choose one of them", id="actions"),
        pytest.param(["limits:Service", "-o", "no/file"], 1, "cannot write no/file", id="unwritable"),
    ],
)
def test_wrong_use_is_one_line(arguments: list[str], code: int, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["policy", "generate", *arguments]) == code
    assert line in capsys.readouterr().err
