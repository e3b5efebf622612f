"""How the three kinds of patches change what is stored (AS 10).

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/util/strategicpatch/patch_test.go,
test/e2e/apimachinery; RFC 7396 appendix A; RFC 6902 appendix A.
"""

from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec.yaml
import pytest

from kcr_devcluster.apiserver import patch as patches
from kcr_devcluster.apiserver.patch import json_patch, merge_patch
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.responses import StatusError
from kcr_devcluster.apiserver.schema.builtin import kind_shape

TABLES = Path(__file__).with_name("patches.yaml")
UNPROCESSABLE = "the server rejected our request due to an error in our request"
VERSIONS = {"Job": "batch/v1", "CronJob": "batch/v1", "Deployment": "apps/v1"}


def table(name: str) -> list[Any]:
    """Return the rows of a table of patches.yaml as parameters."""
    rows = msgspec.yaml.decode(TABLES.read_bytes(), type=dict[str, list[list[Any]]])[name]
    return [pytest.param(*values, id=identifier) for identifier, *values in rows]


def strategic_patch(kind: str, target: Manifest, patch: Any) -> Manifest:
    return patches.strategic_patch(kind_shape(VERSIONS.get(kind, "v1"), kind), target, patch)


@pytest.mark.parametrize(("target", "patch", "result"), table("merge"))
def test_merge_patch_follows_the_rfc(target: Manifest, patch: Manifest, result: Manifest) -> None:
    # AS 10.3
    assert merge_patch(target, patch) == result


@pytest.mark.parametrize("patch", [[], "x", 1], ids=["list", "text", "number"])
def test_patch_that_is_no_object_is_refused(patch: Any) -> None:
    with pytest.raises(StatusError, match=r"^error decoding patch: json: ") as caught:
        merge_patch({}, patch)
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")
    with pytest.raises(StatusError, match=r"^json: cannot unmarshal") as caught:
        strategic_patch("Pod", {}, patch)
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")


@pytest.mark.parametrize(("target", "operations", "result"), table("json"))
def test_json_patch_applies_in_order(target: Manifest, operations: list[Manifest], result: Manifest) -> None:
    # AS 10.2
    before = deepcopy(target)
    assert json_patch(target, operations) == result
    assert target == before


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param({"op": "test", "path": "/a", "value": 2}, id="test-fails"),
        pytest.param({"op": "test", "path": "/a", "value": True}, id="one-is-not-true"),
        pytest.param({"op": "remove", "path": "/b"}, id="nothing-to-remove"),
        pytest.param({"op": "add", "path": "/b/c", "value": 1}, id="no-parent"),
        pytest.param({"op": "replace", "path": "/l/5", "value": 1}, id="no-such-index"),
        pytest.param({"op": "add", "path": "/l/x", "value": 1}, id="no-index"),
        pytest.param({"op": "add", "path": "/l/2", "value": 1}, id="index-beyond-the-end"),
        pytest.param({"op": "add", "path": "a", "value": 1}, id="no-pointer"),
        pytest.param({"op": "move", "from": "/l", "path": "/l/0"}, id="into-itself"),
        pytest.param({"op": "swap", "path": "/a"}, id="unknown-operation"),
        pytest.param({"op": "add", "path": "/a/b", "value": 1}, id="parent-is-a-value"),
    ],
)
def test_failing_operation_has_one_answer(operation: Manifest) -> None:
    # AS 10.2
    target = {"a": 1, "l": [0]}
    with pytest.raises(StatusError) as caught:
        json_patch(target, [{"op": "add", "path": "/new", "value": 1}, operation])
    assert (caught.value.code, caught.value.reason, caught.value.message) == (422, "Invalid", UNPROCESSABLE)
    assert target == {"a": 1, "l": [0]}


@pytest.mark.parametrize(
    ("value", "holds"),
    [
        pytest.param({"b": 1, "c": [1, 2]}, True, id="equal"),
        pytest.param({"c": [1, 2], "b": 1}, True, id="in-another-order"),
        pytest.param({"b": 2, "c": [1, 2]}, False, id="another-value"),
        pytest.param({"b": 1}, False, id="member-missing"),
        pytest.param({"b": 1, "c": [1, 2], "d": None}, False, id="member-more"),
        pytest.param({"b": 1, "c": [1, 3]}, False, id="another-item"),
        pytest.param({"b": 1, "c": [1]}, False, id="item-missing"),
        pytest.param({"b": 1, "c": [1, 2, 3]}, False, id="item-more"),
        pytest.param([], False, id="list"),
    ],
)
def test_values_are_compared_member_by_member(value: Any, holds: bool) -> None:
    # RFC 6902, 4.6.
    target, operations = {"a": {"b": 1, "c": [1, 2]}}, [{"op": "test", "path": "/a", "value": value}]
    if holds:
        assert json_patch(target, operations) == target
        return
    with pytest.raises(StatusError) as caught:
        json_patch(target, operations)
    assert caught.value.code == 422


def test_json_patch_beyond_the_limit_is_too_large() -> None:
    with pytest.raises(StatusError) as caught:
        json_patch({}, [{"op": "add", "path": "/a", "value": 1}] * 10_001)
    assert caught.value.code == 413


def containers(*items: Manifest) -> Manifest:
    return {"spec": {"containers": list(items)}}


A, B, C, D = ({"name": name, "image": name} for name in "abcd")
OWNER = {"uid": "u1", "name": "x"}


@pytest.mark.parametrize(("target", "patch", "result"), table("strategic"))
def test_strategic_patch_knows_the_lists_of_pods(target: Manifest, patch: Manifest, result: Manifest) -> None:
    # AS 10.5, 10.6
    before, sent = deepcopy(target), deepcopy(patch)
    assert strategic_patch("Pod", target, patch) == result
    assert (target, patch) == (before, sent)


@pytest.mark.parametrize(
    ("kind", "path", "key"),
    [
        pytest.param("Pod", ("spec", "initContainers"), "name", id="init-containers"),
        pytest.param("Pod", ("spec", "hostAliases"), "ip", id="host-aliases"),
        pytest.param("Pod", ("spec", "topologySpreadConstraints"), "topologyKey", id="spread"),
        pytest.param("Pod", ("status", "podIPs"), "ip", id="pod-ips"),
        pytest.param("Job", ("status", "conditions"), "type", id="job-conditions"),
        pytest.param("Job", ("spec", "template", "spec", "containers"), "name", id="template-containers"),
        pytest.param("CronJob", ("spec", "jobTemplate", "spec", "template", "spec", "volumes"), "name", id="deep"),
        pytest.param("Deployment", ("status", "conditions"), "type", id="deployment-conditions"),
        pytest.param("Node", ("status", "addresses"), "type", id="addresses"),
        pytest.param("Service", ("spec", "ports"), "port", id="service-ports"),
        pytest.param("ServiceAccount", ("secrets",), "name", id="account-secrets"),
        pytest.param("ConfigMap", ("metadata", "ownerReferences"), "uid", id="owners-of-any-kind"),
    ],
)
def test_list_merges_by_its_key(kind: str, path: tuple[str, ...], key: str) -> None:
    # AS 10.6
    def at_path(*items: Manifest) -> Manifest:
        value: Any = list(items)
        for name in reversed(path):
            value = {name: value}
        assert isinstance(value, dict)
        return value

    old, new = {key: "1", "x": 1, "y": 1}, {key: "1", "x": 2}
    assert strategic_patch(kind, at_path(old), at_path(new)) == at_path({key: "1", "x": 2, "y": 1})


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        pytest.param("Job", ("status", "uncountedTerminatedPods", "succeeded"), id="uncounted"),
        pytest.param("Job", ("spec", "podFailurePolicy", "rules"), id="failure-rules"),
        pytest.param("Pod", ("spec", "tolerations"), id="tolerations"),
        pytest.param("Namespace", ("spec", "finalizers"), id="namespace-finalizers"),
        pytest.param("Node", ("spec", "taints"), id="taints"),
    ],
)
def test_list_without_key_is_replaced(kind: str, path: tuple[str, ...]) -> None:
    target: Any = ["a"]
    patch: Any = ["b"]
    for name in reversed(path):
        target, patch = {name: target}, {name: patch}
    assert strategic_patch(kind, target, patch) == patch


@pytest.mark.parametrize(("patch", "code", "message"), table("senseless"))
def test_senseless_directive_is_refused(patch: Manifest, code: int, message: str) -> None:
    # AS 10.5
    target = {"metadata": {"ownerReferences": [OWNER], "finalizers": ["f"]}, **containers(A)}
    with pytest.raises(StatusError) as caught:
        strategic_patch("Pod", target, patch)
    assert (caught.value.code, caught.value.message) == (code, message)


def test_order_that_contradicts_the_items_is_refused() -> None:
    patch = {"spec": {"$setElementOrder/containers": [{"name": "a"}, {"name": "b"}], "containers": [B, A]}}
    with pytest.raises(StatusError, match="doesn't match"):
        strategic_patch("Pod", containers(A, B), patch)
