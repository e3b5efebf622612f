"""What the schema makes of values. Source: sigs.k8s.io/structured-merge-diff, typed/{toset,symdiff}_test.go."""

from typing import Any

import pytest

from kcr_devcluster.apiserver.apply import fieldpath
from kcr_devcluster.apiserver.apply.typed import UNTYPED, compare, faults, field_set
from kcr_devcluster.apiserver.schema.builtin import kind_shape
from kcr_devcluster.apiserver.schema.scalars import ANY
from kcr_devcluster.apiserver.schema.shape import Field, Shape, Type

POD = Field(kind_shape("v1", "Pod").type)
SERVICE_ACCOUNT = Field(kind_shape("v1", "ServiceAccount").type)
CONFIG_MAP = Field(kind_shape("v1", "ConfigMap").type)
# As structural schemas name their types.
CUSTOM = Field(
    Shape(
        "v1.Custom",
        lambda: {
            "size": Field(Type("integer", lambda value: value)),
            "on": Field(Type("boolean", lambda value: value)),
            "list": Field(Type("array", lambda value: value, list, items=ANY)),
            "map": Field(Type("object", lambda value: value, dict, items=ANY)),
        },
    ).type
)
REVISION = Field(kind_shape("apps/v1", "ControllerRevision").type)


def spec(**members: Any) -> dict[str, Any]:
    return {"spec": members}


def container(**members: Any) -> dict[str, Any]:
    return spec(containers=[{"name": "c", **members}])


def owned(field: Field, value: Any) -> list[str]:
    return list(fieldpath.paths(field_set(field, value)))


C = '.spec.containers[name="c"]'
PORT = f'{C}.ports[containerPort=80,protocol="TCP"]'


@pytest.mark.parametrize(
    ("field", "value", "paths"),
    [
        pytest.param(CONFIG_MAP, {"data": {"a": "1"}}, [".data.a"], id="map"),
        pytest.param(CONFIG_MAP, {"data": {}}, [".data"], id="empty-map"),
        pytest.param(CONFIG_MAP, {"data": None}, [".data"], id="null"),
        pytest.param(CONFIG_MAP, {"metadata": {"finalizers": ["a/b"]}}, ['.metadata.finalizers[="a/b"]'], id="set"),
        pytest.param(POD, container(image="x"), [C, f"{C}.image", f"{C}.name"], id="keyed-item"),
        pytest.param(
            POD, container(ports=[{"containerPort": 80}]), [C, f"{C}.name", PORT, f"{PORT}.containerPort"],
            id="key-with-default",
        ),
        pytest.param(POD, container(command=["a"]), [C, f"{C}.command", f"{C}.name"], id="atomic-list"),
        pytest.param(POD, spec(nodeSelector={"a": "b"}), [".spec.nodeSelector"], id="atomic-map"),
        pytest.param(POD, spec(tolerations=[]), [".spec.tolerations"], id="empty-atomic-list"),
        pytest.param(POD, spec(volumes=[]), [], id="empty-granular-list"),
        pytest.param(
            POD, spec(imagePullSecrets=[{"name": "s"}]), ['.spec.imagePullSecrets[name="s"]'], id="atomic-items"
        ),
        pytest.param(REVISION, {"data": {"a": {"b": [1]}, "c": 1}}, [".data"], id="opaque-values"),
        pytest.param(UNTYPED, {"a": {"b": [1]}, "c": 1}, [".a", ".a.b", ".c"], id="deduced-types"),
        pytest.param(
            POD, container(env=[{"name": "A", "value": "1"}, {"name": "A"}]), [C, f'{C}.env[name="A"]', f"{C}.name"],
            id="repeated-items-are-one",
        ),
    ],
)  # fmt: skip
def test_leaves_entries_and_items_are_owned(field: Field, value: Any, paths: list[str]) -> None:
    # AS 11.2, 10.6
    assert owned(field, value) == paths


@pytest.mark.parametrize(
    ("field", "old", "new", "touched", "removed"),
    [
        pytest.param(CONFIG_MAP, {"data": {"a": "1"}}, {"data": {"a": "1"}}, [], [], id="equal"),
        pytest.param(CONFIG_MAP, {"data": {"a": "1"}}, {"data": {"a": "2"}}, [".data.a"], [], id="changed"),
        pytest.param(CONFIG_MAP, {}, {"data": {"a": "1"}}, [".data", ".data.a"], [], id="added-with-what-holds-it"),
        pytest.param(CONFIG_MAP, {"data": {"a": "1"}}, {}, [], [".data", ".data.a"], id="removed-with-what-held-it"),
        pytest.param(CONFIG_MAP, {"data": None}, {"data": {"a": "1"}}, [".data.a"], [], id="null-is-empty"),
        pytest.param(POD, spec(nodeSelector={"a": "b"}), spec(nodeSelector={}), [".spec.nodeSelector"], [], id="map"),
        pytest.param(POD, container(image="x"), container(image="y"), [f"{C}.image"], [], id="in-an-item"),
        pytest.param(
            POD, container(ports=[{"containerPort": 80, "protocol": "TCP"}]), container(ports=[{"containerPort": 80}]),
            [], [f"{PORT}.protocol"], id="same-item-by-default",
        ),
        pytest.param(
            POD, container(env=[{"name": "A"}, {"name": "A", "value": "1"}]), container(env=[{"name": "A"}]),
            [f'{C}.env[name="A"]', f'{C}.env[name="A"].name'], [], id="no-longer-repeated",
        ),
        pytest.param(UNTYPED, {"a": 1}, {"a": {"b": 1}}, [".a", ".a.b"], [], id="type"),
        pytest.param(UNTYPED, {"a": {"b": 1}}, {"a": 1}, [".a"], [".a.b"], id="back"),
    ],
)  # fmt: skip
def test_differences_are_paths(field: Field, old: Any, new: Any, touched: list[str], removed: list[str]) -> None:
    change = compare(field, old, new)
    assert (list(fieldpath.paths(change.touched)), list(fieldpath.paths(change.removed))) == (touched, removed)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        pytest.param(CONFIG_MAP, {"foo": 1}, [".foo: field not declared in schema"], id="unknown"),
        pytest.param(CONFIG_MAP, {"data": {"a": None}}, [], id="null"),
        pytest.param(CONFIG_MAP, {"data": []}, [".data: expected map, got &{[]}"], id="no-map"),
        pytest.param(
            CONFIG_MAP, {"data": {"a": 1}}, [".data.a: expected string, got &value.valueUnstructured{Value:1}"],
            id="no-string",
        ),
        pytest.param(
            POD, spec(priority="x"), [".spec.priority: expected numeric (int or float), got string"], id="no-number"
        ),
        pytest.param(POD, spec(hostNetwork="x"), [".spec.hostNetwork: expected boolean, got &{x}"], id="no-boolean"),
        pytest.param(POD, spec(containers={}), [".spec.containers: expected list, got &{map[]}"], id="no-list"),
        pytest.param(
            SERVICE_ACCOUNT, {"secrets": [{}]},
            [
                '.secrets: element 0: associative list with keys has an element that omits all key fields ["name"] '
                "(and doesn't have default values for any key fields)"
            ],
            id="no-key",
        ),
        pytest.param(SERVICE_ACCOUNT, {"secrets": [{"name": None}]}, [], id="null-key"),
        pytest.param(POD, spec(containers=[{"image": "x"}]), [], id="key-that-is-empty-by-default"),
        pytest.param(
            POD, spec(containers=[None]),
            [".spec.containers: element 0: associative list with keys may not have a null element"], id="null-item",
        ),
        pytest.param(
            POD, spec(containers=[{"name": "c"}, {"name": "c"}]),
            ['.spec.containers: duplicate entries for key [name="c"]'], id="repeated-key",
        ),
        pytest.param(
            POD, spec(nodeSelector={"a": 1}),
            [".spec.nodeSelector.a: expected string, got &value.valueUnstructured{Value:1}"], id="in-an-atomic-map",
        ),
        pytest.param(REVISION, {"data": {"a": [1, {"b": None}]}, "revision": 1}, [], id="untyped"),
        pytest.param(CUSTOM, {"size": 1, "on": True, "list": [1], "map": {"a": 1}}, [], id="custom"),
        pytest.param(
            CUSTOM, {"size": "x", "on": 1, "list": {}, "map": []},
            [
                ".size: expected numeric (int or float), got string", ".on: expected boolean, got &{1}",
                ".list: expected list, got &{map[]}", ".map: expected map, got &{[]}",
            ],
            id="not-custom",
        ),
    ],
)  # fmt: skip
def test_values_against_the_schema_are_named(field: Field, value: Any, words: list[str]) -> None:
    # AS 11.1; the words are those of structured-merge-diff.
    assert list(faults(field, value)) == words
