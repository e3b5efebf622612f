"""`kcr crd check`, and that all who check definitions and objects ask one engine."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import kcr
from kcr.cli.main import exit_code_of
from kcr.testing import FakeManager
from kcr_devcluster.yaml_writer import yaml_documents
from tests.kit.command_lines import assert_refused
from tests.kit.custom_resources import Json, definition, spec_schema, version, widget

RULES = "x-kubernetes-validations"
TEXT = {"type": "string"}
LONG = spec_schema(
    {"names": {"type": "array", "items": TEXT}}, **{RULES: [{"rule": "self.names.all(a, self.names.all(b, a == b))"}]}
)
SCHEMA = spec_schema(
    {
        "size": {"type": "integer", "maximum": 5, "default": 2},
        "tags": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
    },
    **{RULES: [{"rule": "self.size != 3", "message": "three is too many"}]},
)
WIDGETS = definition(version("v1", SCHEMA), version("v2", SCHEMA, storage=False))
POD: Json = {
    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "web"},
    "spec": {"priorityClassName": "high", "containers": [{"name": "c", "image": "i"}]},
}  # fmt: skip
HIGH: Json = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5}
KINDS = """
import kcr


class SwitchSpec(kcr.Object, validations=(kcr.Validation("self.positon > 1"),)):
    position: int = 1


class Switch(kcr.Resource, api_version="example.dev/v1", plural="switches"):
    spec: SwitchSpec = SwitchSpec()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(capsys: pytest.CaptureFixture[str], documents: list[Any], *options: str) -> tuple[int, list[str]]:
    """Return the exit code and the lines for documents of one file."""
    Path("all.yaml").write_text(yaml_documents(documents))
    code = exit_code_of(["crd", "check", "all.yaml", *options])
    shown = capsys.readouterr()
    assert shown.err == ""
    return code, shown.out.splitlines()


def test_what_a_cluster_takes_passes(capsys: pytest.CaptureFixture[str]) -> None:
    """The objects may come before what they need."""
    newer = {**widget("b", {"size": 1}), "apiVersion": "ex.io/v2"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    documents = [POD, HIGH, namespace, widget("a", {"tags": ["x"]}), newer, WIDGETS]
    assert check(capsys, documents) == (0, ["1 definition and 5 objects checked: 0 problems, 0 warnings"])


@pytest.mark.parametrize(
    ("given", "line"),
    [
        pytest.param(
            widget("a", {"size": 9}),
            "Widget a: spec.size: Invalid value: 9: spec.size in body should be less than or equal to 5",
            id="schema",
        ),
        pytest.param(widget("a", {"size": 3}), "Widget a: spec: Invalid value: three is too many", id="rule"),
        pytest.param(widget("a", {"tags": ["x", "x"]}), 'Widget a: spec.tags[1]: Duplicate value: "x"', id="list-type"),
        pytest.param(
            {**POD, "metadata": {"name": "p", "namespace": 5}},
            'Pod p: Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal number into Go struct field '
            "ObjectMeta.metadata.namespace of type string",
            id="type",
        ),
        pytest.param(
            {**POD, "spec": {"containers": [{"name": "c"}]}},
            "Pod p: spec.containers[0].image: Required value",
            id="built-in",
        ),
        pytest.param(
            {"apiVersion": "ex.io/v1", "kind": "Wodget", "metadata": {"name": "a"}},
            "Wodget a: there is no kind Wodget in ex.io/v1: is it Widget?",
            id="slip",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "Configmap", "metadata": {"name": "a"}},
            "Configmap a: there is no kind Configmap in v1: is it ConfigMap?",
            id="case",
        ),
        pytest.param(
            {"apiVersion": "ex.io/v1", "kind": "Fruit", "metadata": {"name": "a"}},
            "Fruit a: there is no kind Fruit in ex.io/v1: name the file of its CustomResourceDefinition, too",
            id="unknown",
        ),
        pytest.param(
            {**widget("a"), "apiVersion": "ex.io/v3"},
            "Widget a: there is no kind Widget in ex.io/v3: it is in ex.io/v1, ex.io/v2",
            id="version",
        ),
    ],
)
def test_what_a_cluster_refuses_is_one_line(given: Json, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = check(capsys, [WIDGETS, given])
    assert (code, lines) == (
        1, [f"all.yaml, document 2: {line}", "1 definition and 1 object checked: 1 problem, 0 warnings"],
    )  # fmt: skip


def test_fields_without_effect_are_warnings_also_of_what_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    documents = [WIDGETS, widget("a", {"colour": 1}), widget("b", {"size": 9, "colour": 1})]
    warning = "all.yaml, document 2: Widget a: warning: spec.colour: unknown field"
    assert check(capsys, documents[:2])[0] == 0
    assert check(capsys, documents[:2], "--strict") == (
        1, [warning, "1 definition and 1 object checked: 0 problems, 1 warning"],
    )  # fmt: skip
    _, lines = check(capsys, documents)
    assert lines[0] == warning
    assert lines[1] == warning.replace("document 2: Widget a", "document 3: Widget b")
    assert lines[2].startswith("all.yaml, document 3: Widget b: spec.size: Invalid value: 9")


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        pytest.param(
            spec_schema({"size": {"type": "integer"}}, **{RULES: [{"rule": "self.sise > 1"}]}),
            "compilation failed: ERROR: <input>:1:5: undefined field 'sise'",
            id="rule",
        ),
        pytest.param(
            LONG, "estimated rule cost exceeds budget by factor of more than 100x (try simplifying", id="cost"
        ),
        pytest.param(
            spec_schema({"size": {}}), "type: Required value: must not be empty for specified obj", id="structure"
        ),
    ],
)
def test_objects_of_a_refused_definition_are_not_checked(
    schema: Json, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, lines = check(capsys, [definition(version("v1", schema)), widget("a", {"size": "x"})])
    assert code == 1
    assert said in lines[0]
    assert lines[0].startswith(
        "all.yaml, document 1: CustomResourceDefinition widgets.ex.io: spec.validation.openAPIV3Schema"
    )
    assert "all.yaml, document 2: Widget a: not checked: its definition has problems" in lines
    assert lines[-1].startswith("1 definition and 0 objects checked: ")


def test_names_that_another_definition_has_are_a_problem(capsys: pytest.CaptureFixture[str]) -> None:
    other = definition(version("v1", SCHEMA), plural="wodgets", kind="Widget")
    code, lines = check(capsys, [WIDGETS, other])
    said = 'not served: "WidgetList" is already in use; not all names are accepted'
    assert code == 1
    assert lines[0] == f"all.yaml, document 2: CustomResourceDefinition wodgets.ex.io: {said}"


def test_webhooks_of_a_definition_are_checked_and_not_called(capsys: pytest.CaptureFixture[str]) -> None:
    service = {"namespace": "a", "name": "b"}
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": {"service": service}}
    crd = definition(version("v1", SCHEMA), version("v2", SCHEMA, storage=False))
    crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    newer = {**widget("b", {"size": 9}), "apiVersion": "ex.io/v2"}
    _, lines = check(capsys, [crd, newer])
    assert lines[0].startswith("all.yaml, document 2: Widget b: spec.size: Invalid value: 9")
    del webhook["conversionReviewVersions"]
    _, lines = check(capsys, [crd, newer])
    assert "spec.conversion.conversionReviewVersions: Required value" in lines[0]


def test_folders_lists_and_stdin_are_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    (folder / "crd").mkdir()
    (folder / "crd" / "widgets.json").write_text(json.dumps(WIDGETS))
    several = {"apiVersion": "v1", "kind": "List", "items": [widget("a"), widget("b", {"size": 3})]}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(yaml.safe_dump(several).encode())))
    assert exit_code_of(["crd", "check", "crd", "-", "-o", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    problem = {
        "source": "stdin, item 2", "apiVersion": "ex.io/v1", "kind": "Widget", "namespace": "", "name": "b",
        "field": "spec", "message": "Invalid value: three is too many",
    }  # fmt: skip
    assert found == {"problems": [problem], "warnings": [], "notChecked": [], "definitions": 1, "objects": 2}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        pytest.param(["none.yaml"], "none.yaml: No such file or directory: name a file or folder", id="absent"),
        pytest.param(["bad.yaml"], "bad.yaml: not YAML: line 1: did not find expected", id="yaml"),
        pytest.param(["typeless.yaml"], "typeless.yaml: apiVersion is missing", id="typeless"),
        pytest.param([], "Missing argument", id="none"),
    ],
)
def test_unusable_input_is_another_exit_code(
    arguments: list[str], line: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "bad.yaml").write_text("{a: [}")
    (folder / "typeless.yaml").write_text("metadata: {name: a}")
    assert_refused(["crd", "check", *arguments], 2, line, capsys)


def test_generator_and_fakes_refuse_what_the_check_refuses(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One engine: they say the same of a rule that a server refuses."""
    (folder / "switches_with_a_slip.py").write_text(KINDS)
    monkeypatch.syspath_prepend(folder)
    kind = __import__("switches_with_a_slip").Switch
    code, lines = check(capsys, [kcr.crd_manifest(kind)])
    said = "compilation failed: ERROR: <input>:1:5: undefined field 'positon'"
    assert code == 1
    assert said in lines[0]
    for options in ((), ("-o", "crd", "--check")):
        assert exit_code_of(["crd", "generate", "switches_with_a_slip", *options]) == 1
        words = "kcr: switches.example.dev: the API server would refuse it: spec.validation.openAPIV3Schema."
        shown = capsys.readouterr()
        assert (shown.out, shown.err.startswith(words), said in shown.err) == ("", True, True)
    with pytest.raises(kcr.ConfigError, match="undefined field 'positon'"):
        FakeManager(kinds=[kind])


@pytest.mark.parametrize(
    ("given", "problems"),
    [
        pytest.param("1.36", ["no kind ClusterTrustBundle", "unknown field"], id="1.36"),
        pytest.param("1.37", [], id="1.37"),
    ],
)
def test_kinds_and_fields_are_those_of_the_version(
    capsys: pytest.CaptureFixture[str], given: str, problems: list[str]
) -> None:
    bundle = {
        "apiVersion": "certificates.k8s.io/v1", "kind": "ClusterTrustBundle", "metadata": {"name": "roots"},
        "spec": {"trustBundle": "-----BEGIN CERTIFICATE-----"},
    }  # fmt: skip
    pod = {**POD, "spec": {**POD["spec"], "evictionResponders": [{"name": "a.dev/b"}]}}
    code, lines = check(capsys, [HIGH, pod, bundle], "--strict", "--kubernetes-version", given)
    assert code == bool(problems)
    assert [words for words in problems if words not in "\n".join(lines)] == []


def test_version_that_is_not_known_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    refusal = "Invalid value for --kubernetes-version: '1.35' is not one of '1.36', '1.37'"
    assert_refused(["crd", "check", "a.yaml", "--kubernetes-version", "1.35"], 2, refusal, capsys)


def test_what_a_development_cluster_lacks_is_no_warning(capsys: pytest.CaptureFixture[str]) -> None:
    handler = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "a"}, "handler": "a"}
    assert check(capsys, [handler], "--strict")[0] == 0
