"""Patches of mutating policies on values: merges by the keys of lists, what is refused, and JSON patches.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch/{smd,json_patch}_test.go.
"""

from copy import deepcopy
from typing import Any

import pytest

from kcr_devcluster.apiserver.admission.policies.patches import PatchError, apply_configuration, apply_json_patch
from kcr_devcluster.apiserver.cel.values import Object
from kcr_devcluster.apiserver.schema.builtin import kind_shape

SHAPE = kind_shape("apps/v1", "Deployment")
PLACE = "/spec/template/spec/containers"
CONTAINERS = [{"name": "nginx", "image": "nginx:1", "ports": [{"containerPort": 80, "protocol": "TCP"}]}]
DEPLOYMENT = {
    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "labels": {"a": "b"}},
    "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {"containers": CONTAINERS}}},
}  # fmt: skip


def constructed(path: str, /, **fields: Any) -> Object:
    """The value of a constructed object, such as `Object.spec{…}`."""
    found = Object(fields)
    found.type_name = path
    return found


def configured(**spec: Any) -> dict[str, Any]:
    """The Deployment with a configuration of its spec."""
    return apply_configuration(DEPLOYMENT, constructed("Object", spec=constructed("Object.spec", **spec)), SHAPE)


def pod_template(**fields: Any) -> dict[str, Any]:
    """The value of `Object.spec.template` with fields of the pod's spec."""
    spec = constructed("Object.spec.template.spec", **fields)
    return constructed("Object.spec.template", spec=spec)


def container(**fields: Any) -> dict[str, Any]:
    """The value of one container."""
    return constructed("Object.spec.template.spec.containers", **fields)


def test_fields_that_are_not_named_stay() -> None:
    before = deepcopy(DEPLOYMENT)
    assert configured(replicas=5)["spec"] == {**before["spec"], "replicas": 5}  # type: ignore[dict-item]  # a mapping
    assert before == DEPLOYMENT


def test_items_are_merged_by_their_keys() -> None:
    added = container(name="side", image="side:1")
    found = configured(template=pod_template(containers=[container(name="nginx", image="nginx:2"), added]))
    assert found["spec"]["template"]["spec"]["containers"] == [
        {**CONTAINERS[0], "image": "nginx:2"}, {"name": "side", "image": "side:1"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        pytest.param(
            {"replicas": "5"},
            "error applying patch: failed to convert patch object to typed object: .spec.replicas: expected numeric "
            "(int or float), got string",
            id="type",
        ),
        pytest.param(
            {"nope": 1, "also": 2},
            "error applying patch: failed to convert patch object to typed object: errors:\n"
            "  .spec.nope: field not declared in schema\n  .spec.also: field not declared in schema",
            id="unknown-fields",
        ),
        pytest.param(
            {"selector": constructed("Object.spec.selector", matchLabels={"x": "y"})},
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: "
            ".spec.selector",
            id="atomic-struct",
        ),
        pytest.param(
            {"template": pod_template(containers=[container(name="nginx", args=["x"], command=["y"])])},
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: "
            ".spec.template.spec.containers[0].args, .spec.template.spec.containers[0].command",
            id="atomic-lists",
        ),
        pytest.param(
            {"template": constructed("Object.spec.wrong")},
            'type mismatch: unexpected type name "Object.spec.wrong", expected "Object.spec.template", which matches '
            "field name path from root Object type",
            id="type-name",
        ),
    ],
)
def test_configuration_that_does_not_fit_is_refused(spec: dict[str, Any], said: str) -> None:
    with pytest.raises(PatchError) as failed:
        configured(**spec)
    assert str(failed.value) == said


def operation(op: str, path: str, **more: Any) -> dict[str, Any]:
    """The value of `JSONPatch{…}`."""
    return constructed("JSONPatch", op=op, path=path, **more)


def test_operations_are_applied_in_order() -> None:
    found = apply_json_patch(
        DEPLOYMENT,
        [
            operation("add", "/metadata/labels/c", value="d"),
            operation("move", "/metadata/labels/e", **{"from": "/metadata/labels/a"}),
            operation("add", "/spec/strategy", value=constructed("Object.spec.strategy", type="Recreate")),
            operation("replace", "/spec/template/spec/containers/0/image", value="nginx:2"),
        ],
    )
    assert found["metadata"]["labels"] == {"c": "d", "e": "b"}
    assert found["spec"]["strategy"] == {"type": "Recreate"}
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:2"
    assert DEPLOYMENT["metadata"] == {"name": "d", "labels": {"a": "b"}}


def test_failed_test_changes_nothing() -> None:
    operations = [operation("remove", "/spec/replicas"), operation("test", "/metadata/name", value="x")]
    assert apply_json_patch(DEPLOYMENT, operations) is DEPLOYMENT


@pytest.mark.parametrize(
    ("value", "said"),
    [
        pytest.param(
            [operation("remove", "/spec/nope/x")],
            'JSON Patch: remove operation does not apply: doc is missing path: "/spec/nope/x": missing value',
            id="path",
        ),
        pytest.param(
            [operation("remove", "/spec/nope")],
            "JSON Patch: error in remove for path: '/spec/nope': Unable to remove nonexistent key: nope: missing value",
            id="key",
        ),
        pytest.param(
            [operation("replace", f"{PLACE}/2", value=1)],
            f"JSON Patch: replace operation does not apply: doc is missing key: {PLACE}/2: missing value",
            id="replaced-index",
        ),
        pytest.param(
            [operation("add", f"{PLACE}/9", value=1)],
            f"JSON Patch: error in add for path: '{PLACE}/9': Unable to access invalid index: 9: invalid index "
            "referenced",
            id="index",
        ),
        pytest.param(
            [operation("add", f"{PLACE}/x", value=1)],
            f"JSON Patch: error in add for path: '{PLACE}/x': value was not a proper array index: 'x': "
            'strconv.Atoi: parsing "x": invalid syntax',
            id="no-index",
        ),
        pytest.param(
            [operation("copy", "/x/y", **{"from": "/metadata/name"})],
            "JSON Patch: copy operation does not apply: doc is missing destination path: /x/y: missing value",
            id="target",
        ),
        pytest.param(
            [operation("move", "/x", **{"from": "/nope"})],
            "JSON Patch: error in move for path: 'nope': Unable to remove nonexistent key: nope: missing value",
            id="moved",
        ),
        pytest.param(
            [operation("test", "/x/y", value=1)],
            "JSON Patch: test operation does not apply: is missing path: /x/y: missing value",
            id="tested",
        ),
        pytest.param([operation("nope", "/x")], "JSON Patch: Unexpected kind: nope", id="kind"),
        pytest.param({}, "type mismatch: JSONPatchType.expression should evaluate to array", id="map"),
        pytest.param([1], "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch", id="number"),
    ],
)
def test_json_patch_that_cannot_be_applied_is_refused(value: Any, said: str) -> None:
    with pytest.raises(PatchError) as failed:
        apply_json_patch(DEPLOYMENT, value)
    assert str(failed.value) == said
