"""Reading manifests."""

from pathlib import Path

import msgspec
import pytest

from kcr.errors import ConfigError
from kcr_devcluster.manifests import read_documents

JOB = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: pi}\n"
SPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: math}\n"


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "jobs.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_documents_of_several_kinds_come_in_order(tmp_path: Path) -> None:
    found = read_documents(written(tmp_path, f"---\n{SPACE}---\n{JOB}---\n"))
    assert [document.kind for document in found] == ["Namespace", "Job"]
    assert found[1].title.endswith("jobs.yaml, document 2: Job pi")


def test_items_of_a_list_are_documents(tmp_path: Path) -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}}
    text = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": [job]}).decode()
    assert [document.title for document in read_documents(written(tmp_path, text))] == [
        f"{tmp_path}/jobs.yaml, item 1: Job a"
    ]


def test_time_stays_text(tmp_path: Path) -> None:
    text = JOB + "spec: {at: 2026-01-01T00:00:00Z, sign: =}\n"
    assert read_documents(written(tmp_path, text))[0].manifest["spec"] == {"at": "2026-01-01T00:00:00Z", "sign": "="}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("a: [1", "not YAML: line 1: did not find expected ',' or ']'", id="broken"),
        pytest.param(
            "a: {b: 1}\n---\nkind: A\nmetadata: {name: a}\nmetadata: {name: b}",
            "line 5: metadata is there twice in one",
            id="two-objects-in-one",
        ),
        pytest.param("spec:\n  a: 1\n  a: 1", "line 3: a is there twice in one mapping: keep one", id="field-twice"),
        pytest.param("", "no object in it", id="empty"),
        pytest.param("- 1", "is a mapping", id="no-mapping"),
        pytest.param("kind: Job", "apiVersion is missing", id="no-version"),
        pytest.param("apiVersion: v1", "kind is missing", id="no-kind"),
        pytest.param("apiVersion: v1\nkind: Pod", "Pod: metadata.name is missing", id="no-name"),
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: off}",
            "Pod: metadata.name is false, which is no text: put it in quotes",
            id="name-of-another-type",
        ),
        pytest.param("apiVersion: 1\nkind: Pod", "apiVersion is 1, which is no text", id="version-of-another-type"),
        pytest.param(
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]",
            "a Kustomization is not an object: take the output of kubectl kustomize instead",
            id="kustomization",
        ),
        pytest.param("{{ if .Values.a }}\na: 1", "not YAML: .*; render a Helm template first", id="template"),
    ],
)
def test_fault_of_a_file_is_named(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=f"jobs.yaml: .*{fault}"):
        read_documents(written(tmp_path, text))


def test_kustomization_without_a_type_is_told_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text("resources: [bases/example.dev_websites.yaml]")
    with pytest.raises(ConfigError, match=r"kustomization\.yaml: a Kustomization is not an object: take the output"):
        read_documents(str(tmp_path))


def test_items_of_a_typed_list_are_of_its_kind(tmp_path: Path) -> None:
    """Source: cel-and-bodies.md, B24; kubectl, whose resource builder flattens lists."""
    items = "[{metadata: {name: a}}, {kind: Secret, metadata: {name: b}}]"
    found = read_documents(written(tmp_path, f"apiVersion: v1\nkind: ConfigMapList\nitems: {items}"))
    assert [(one.kind, one.manifest["metadata"]["name"]) for one in found] == [("ConfigMap", "a"), ("Secret", "b")]
    assert {one.manifest["apiVersion"] for one in found} == {"v1"}
    with pytest.raises(ConfigError, match="item 1: apiVersion is missing"):
        read_documents(written(tmp_path, "apiVersion: v1\nkind: List\nitems:\n- {metadata: {name: a}}\n"))


def test_file_that_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: No such file"):
        read_documents("nowhere.yaml")


LAUGHS = "l0: &l0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"l{one}: &l{one} [{', '.join([f'*l{one - 1}'] * 9)}]\n" for one in range(1, 12)
)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param(LAUGHS, "document contains excessive aliasing", id="aliases"),
        pytest.param("a: &a [*a]", "anchor 'a' value contains itself", id="circle"),
        pytest.param("[" * 100_000, "exceeded max depth", id="deep"),
        pytest.param("a: !!int x", "cannot decode !!str `x` as a !!int", id="tag"),
    ],
)
def test_file_that_would_fill_the_memory_is_refused_at_once(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"jobs\.yaml: not YAML: .*{fault}"):
        read_documents(str(path))
