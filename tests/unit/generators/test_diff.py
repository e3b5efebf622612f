"""`kcr crd diff`: its verdicts, its lines, and where definitions come from."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kcr.cli.main import exit_code_of
from kcr_devcluster.codegen.crds import crd_classes
from kcr_devcluster.generators.changes import Change, changes
from kcr_devcluster.yaml_writer import yaml_documents
from tests.kit.custom_resources import Json, definition, spec_schema, version
from tests.kit.definition_pairs import PAIRS, definition_of

TEXT = {"type": "string"}
PLAIN = version("v1", spec_schema({"a": TEXT}))
STATUS: Json = {"type": "object", "properties": {"status": {"type": "object"}}}
SCALE = {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, *definitions: Json) -> str:
    Path(name).write_text(yaml_documents(list(definitions)))
    return name


def diff(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    """Return the exit code and the lines of both outputs."""
    code = exit_code_of(["crd", "diff", *arguments])
    shown = capsys.readouterr()
    return code, [*shown.out.splitlines(), *shown.err.splitlines()]


@pytest.mark.parametrize("name", PAIRS)
def test_verdict_is_what_a_server_does(name: str) -> None:
    pair = PAIRS[name]
    old = definition_of(pair.old, plural="as", is_new=False)
    new = definition_of(pair.new, plural="as", is_new=True, required=pair.required)
    found = [one for one in changes(old, new) if one.path != "marker"]
    assert any(one.is_breaking for one in found) is bool(pair.breaks)
    assert all(one.path.startswith("spec.a") for one in found)


@pytest.mark.parametrize(
    ("old", "new", "path", "is_breaking"),
    [
        pytest.param([PLAIN], [{**PLAIN, "served": False}], "served", True, id="not-served"),
        pytest.param([PLAIN], [{**PLAIN, "deprecated": True}], "deprecated", False, id="deprecated"),
        pytest.param([PLAIN], [PLAIN, {**PLAIN, "name": "v2", "storage": False}], "versions", False, id="added"),
        pytest.param(
            [PLAIN, {**PLAIN, "name": "v2", "storage": False}], [PLAIN], "versions", True, id="removed"),
        pytest.param([PLAIN], [{**PLAIN, "name": "v2"}], "versions", True, id="storage-version-removed"),
        pytest.param(
            [PLAIN], [{**PLAIN, "subresources": {"status": {}}}], "subresources.status", True, id="status-added"),
        pytest.param(
            [{**PLAIN, "subresources": {"status": {}}}], [PLAIN], "subresources.status", True, id="status-removed"),
        pytest.param([{**PLAIN, "subresources": SCALE}], [PLAIN], "subresources.scale", True, id="scale-removed"),
        pytest.param(
            [{**PLAIN, "selectableFields": [{"jsonPath": ".spec.a"}]}], [PLAIN], "selectableFields .spec.a", True,
            id="selectable-field-removed"),
        pytest.param(
            [PLAIN, {**PLAIN, "name": "v2", "storage": False}],
            [PLAIN, {**version("v2", spec_schema({"a": TEXT, "b": TEXT})), "storage": False}], "spec.b", True,
            id="field-of-one-version"),
    ],
)  # fmt: skip
def test_change_of_a_version(old: list[Json], new: list[Json], path: str, *, is_breaking: bool) -> None:
    found = [one for one in changes(definition(*old), definition(*new)) if one.path == path]
    assert any(one.is_breaking for one in found) is is_breaking
    assert found


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ({}, {"scope": "Cluster"}, "scope"),
        ({}, {"names": {"plural": "widgets", "kind": "Gadget"}}, "names.kind"),
        ({"names": {"plural": "widgets", "kind": "Widget", "shortNames": ["w"]}}, {}, "names.shortNames"),
        ({"conversion": {"strategy": "Webhook"}}, {"conversion": {"strategy": "None"}}, "conversion.strategy"),
    ],
)
def test_change_of_the_whole(old: Json, new: Json, path: str) -> None:
    plain = definition(PLAIN, {**PLAIN, "name": "v2", "storage": False})
    before, after = ({**plain, "spec": {**plain["spec"], **more}} for more in (old, new))
    (change,) = changes(before, after)
    assert (change.path, change.is_breaking) == (path, True)


def test_members_that_are_null_are_absent() -> None:
    """As older versions of controller-gen write the status, also in the definitions of the Gateway API."""
    nulls = dict.fromkeys(("subresources", "selectableFields", "additionalPrinterColumns"))
    empty = dict.fromkeys(("required", "properties", "enum", "x-kubernetes-validations"))
    schema = spec_schema({"a": {**TEXT, **empty}})
    schema["required"] = schema["properties"]["spec"]["required"] = None
    null = definition({**version("v1", schema), **nulls}, {**version("v2", schema), "storage": False, **nulls})
    null["status"] = {"conditions": None, "storedVersions": None}
    null["spec"]["conversion"] = {"strategy": None}
    null["spec"]["names"] |= {"shortNames": None, "categories": None}
    plain = definition(PLAIN, {**PLAIN, "name": "v2", "storage": False})
    for old, new in ((null, plain), (plain, null), (null, null)):
        assert list(changes(old, new)) == []
    assert [one.name for one in crd_classes(null)] == [one.name for one in crd_classes(plain)]


def test_stored_version_stays_until_its_objects_are_rewritten() -> None:
    two = definition({**PLAIN, "storage": False}, version("v2", PLAIN["schema"]["openAPIV3Schema"]))
    one = definition(version("v2", PLAIN["schema"]["openAPIV3Schema"]))
    stored = {**two, "status": {"storedVersions": ["v1", "v2"]}}
    (refused,) = changes(stored, one)
    assert (refused.version, "kcr crd migrate" in refused.remedy) == ("v1", True)
    (gone,) = changes({**two, "status": {"storedVersions": ["v2"]}}, one)
    assert "404" in gone.what


def test_changes_are_lines_with_remedies(capsys: pytest.CaptureFixture[str]) -> None:
    old = write("old.yaml", definition(version("v1", spec_schema({"a": TEXT, "b": TEXT}))))
    new = write("new.yaml", definition(version("v1", spec_schema({"a": {**TEXT, "maxLength": 3}, "c": TEXT}))))
    assert diff(capsys, old, new) == (
        1,
        [
            "breaking: widgets.ex.io v1 spec.a: maxLength: nothing becomes 3: values that were accepted are refused; "
            "accept them, or add another version",
            "breaking: widgets.ex.io v1 spec.b: removed: stored values are dropped; keep it, or have it in another "
            "version, with a conversion",
            "widgets.ex.io v1 spec.c: added",
            "2 breaking changes, 1 other",
        ],
    )
    assert diff(capsys, old, old) == (0, ["0 breaking changes, 0 other"])


def test_json_has_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    old = write("old.yaml", definition(PLAIN))
    new = write("new.yaml", definition(PLAIN), definition(PLAIN, plural="as", kind="A"))
    code, (line,) = diff(capsys, old, new, "-o", "json")
    change: dict[str, Any] = {
        "definition": "as.ex.io", "version": "", "path": "", "what": "added", "breaking": False, "remedy": "",
    }  # fmt: skip
    assert (code, json.loads(line)) == (0, {"breaking": 0, "changes": [change]})
    code, (line,) = diff(capsys, new, old, "-o", "json")
    assert (code, json.loads(line)["breaking"]) == (1, 1)


def test_revision_of_git_is_a_source(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    (folder / "crd").mkdir()
    write("crd/w.yaml", definition(PLAIN))
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], check=True, cwd=folder)
    write("crd/w.yaml", definition({**PLAIN, "served": False}))
    code, lines = diff(capsys, "HEAD:crd/w.yaml", "crd")
    assert (code, lines[-1]) == (1, "1 breaking change, 0 other")
    code, lines = diff(capsys, "HEAD~5:crd/w.yaml", "crd")
    assert (code, len(lines), "name a file of the revision HEAD~5" in lines[0]) == (2, 1, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "old.yaml: not YAML"),
        ("kind: Pod\napiVersion: v1\nmetadata: {name: a}", "old.yaml: no CustomResourceDefinition in it"),
        (
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.b.io}",
            "see kcr crd check",
        ),
    ],
)
def test_what_is_no_definition_is_refused_in_a_line(capsys: pytest.CaptureFixture[str], text: str, said: str) -> None:
    Path("old.yaml").write_text(text)
    code, (line,) = diff(capsys, "old.yaml", write("new.yaml", definition(PLAIN)))
    assert (code, said in line) == (2, True)


def test_cluster_is_one_side_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["crd", "diff", "cluster", "cluster"]) == 2
    assert "name a file for one of them" in capsys.readouterr().err


def test_only_breaking_changes_have_remedies() -> None:
    assert [Change("v1", "a", "b").is_breaking, Change("v1", "a", "b", "c").is_breaking] == [False, True]
