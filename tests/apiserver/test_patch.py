"""How the three kinds of patches change what is stored (AS 10).

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/util/strategicpatch/patch_test.go,
test/e2e/apimachinery; RFC 7396 appendix A; RFC 6902 appendix A.
"""

from copy import deepcopy
from typing import Any

import pytest

from kcr_devcluster.apiserver import patch as patches
from kcr_devcluster.apiserver.patch import json_patch, merge_patch
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.responses import StatusError
from kcr_devcluster.apiserver.schema.builtin import kind_shape

UNPROCESSABLE = "the server rejected our request due to an error in our request"
VERSIONS = {"Job": "batch/v1", "CronJob": "batch/v1", "Deployment": "apps/v1"}


def strategic_patch(kind: str, target: Manifest, patch: Any) -> Manifest:
    return patches.strategic_patch(kind_shape(VERSIONS.get(kind, "v1"), kind), target, patch)


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        pytest.param({"a": "b"}, {"a": "c"}, {"a": "c"}, id="replaces"),
        pytest.param({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}, id="adds"),
        pytest.param({"a": "b"}, {"a": None}, {}, id="null-deletes"),
        pytest.param({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}, id="null-deletes-one"),
        pytest.param({"a": ["b"]}, {"a": "c"}, {"a": "c"}, id="list-to-value"),
        pytest.param({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}, id="value-to-list"),
        pytest.param({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}, id="nested"),
        pytest.param({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}, id="lists-replace"),
        pytest.param({"e": None}, {"a": 1}, {"e": None, "a": 1}, id="null-in-target-stays"),
        pytest.param({"a": "foo"}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}, id="nulls-of-new-maps-go"),
        pytest.param({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}, id="empty-maps-stay"),
    ],
)
def test_merge_patch_follows_the_rfc(target: Manifest, patch: Manifest, result: Manifest) -> None:
    # AS 10.3
    assert merge_patch(target, patch) == result


@pytest.mark.parametrize("patch", [[], "x", 1, None], ids=["list", "text", "number", "null"])
def test_merge_patch_that_is_no_object_is_refused(patch: Any) -> None:
    for apply in (merge_patch, lambda target, change: strategic_patch("Pod", target, change)):
        with pytest.raises(StatusError, match=r"^error decoding patch: ") as caught:
            apply({}, patch)
        assert (caught.value.code, caught.value.reason) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("target", "operations", "result"),
    [
        pytest.param({"a": 1}, [], {"a": 1}, id="nothing-to-do"),
        pytest.param({}, [{"op": "add", "path": "/a", "value": 1}], {"a": 1}, id="adds"),
        pytest.param({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}, id="inserts"),
        pytest.param({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}, id="appends"),
        pytest.param({"a": [1]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2]}, id="inserts-at-end"),
        pytest.param({"a": [1, 2]}, [{"op": "remove", "path": "/a/-1"}], {"a": [1]}, id="index-from-the-end"),
        pytest.param({"a": [1]}, [{"op": "add", "path": "/a/-1", "value": 2}], {"a": [1, 2]}, id="adds-from-the-end"),
        pytest.param({}, [{"op": "replace", "path": "/a", "value": 1}], {"a": 1}, id="replace-adds-a-member"),
        pytest.param({"a": 1}, [{"op": "move", "from": "/a", "path": "/b"}], {"b": 1}, id="moves"),
        pytest.param(
            {"a": {"x": 1}}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": {"x": 1}, "b": {"x": 1}}, id="copies"
        ),
        pytest.param(
            {"a/b": 1, "m~n": 2},
            [{"op": "remove", "path": "/a~1b"}, {"op": "remove", "path": "/m~0n"}],
            {},
            id="escapes",
        ),
        pytest.param(
            {"a": 1},
            [{"op": "test", "path": "/a", "value": 1}, {"op": "add", "path": "/b", "value": 2}],
            {"a": 1, "b": 2},
            id="test-holds",
        ),
        pytest.param({"a": 1}, [{"op": "test", "path": "/b", "value": None}], {"a": 1}, id="test-absent-is-null"),
        pytest.param({"a": 1}, [{"op": "add", "path": "/a", "value": None}], {"a": None}, id="adds-null"),
    ],
)
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
        pytest.param({"op": "add", "path": "/a"}, id="no-value"),
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


def test_malformed_json_patch_is_a_bad_request() -> None:
    with pytest.raises(StatusError, match=r"^error decoding patch: ") as caught:
        json_patch({}, {"op": "add"})
    assert caught.value.code == 400


def test_json_patch_beyond_the_limit_is_too_large() -> None:
    with pytest.raises(StatusError) as caught:
        json_patch({}, [{"op": "add", "path": "/a", "value": 1}] * 10_001)
    assert caught.value.code == 413


def containers(*items: Manifest) -> Manifest:
    return {"spec": {"containers": list(items)}}


A, B, C, D = ({"name": name, "image": name} for name in "abcd")
OWNER = {"uid": "u1", "name": "x"}


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        pytest.param(
            containers(A, B),
            containers({"name": "b", "image": "n"}),
            containers(A, {"name": "b", "image": "n"}),
            id="item-changes-in-place",
        ),
        pytest.param(containers(A), containers(B), containers(B, A), id="new-item-comes-first"),
        pytest.param(
            containers(A, B, C), containers({"name": "b", "$patch": "delete"}), containers(A, C), id="item-deleted"
        ),
        pytest.param(containers(A, B), containers({"$patch": "replace"}, C), containers(C), id="list-replaced"),
        pytest.param(
            containers(A),
            containers({"name": "a", "image": None, "tty": True}),
            containers({"name": "a", "tty": True}),
            id="null-in-an-item",
        ),
        pytest.param(
            {"spec": {}},
            containers({"name": "a", "image": None}),
            containers({"name": "a"}),
            id="nulls-of-a-new-list-go",
        ),
        pytest.param(
            {"spec": {}},
            containers(A, {"name": "b", "$patch": "delete"}),
            containers(A),
            id="directives-of-a-new-list-go",
        ),
        pytest.param(
            {"spec": {"tolerations": [1]}},
            {"spec": {"tolerations": [2]}},
            {"spec": {"tolerations": [2]}},
            id="list-without-key-replaced",
        ),
        pytest.param(
            {"spec": {"nodeSelector": {"a": "1", "b": "2"}}},
            {"spec": {"nodeSelector": {"a": None, "c": "3"}}},
            {"spec": {"nodeSelector": {"b": "2", "c": "3"}}},
            id="maps-merge",
        ),
        pytest.param(
            {"spec": {"nodeSelector": {"a": "1"}}},
            {"spec": {"nodeSelector": {"$patch": "replace", "b": "2"}}},
            {"spec": {"nodeSelector": {"b": "2"}}},
            id="map-replaced",
        ),
        pytest.param(
            {"spec": {"nodeSelector": {"a": "1"}}},
            {"spec": {"nodeSelector": {"$patch": "delete"}}},
            {"spec": {"nodeSelector": {}}},
            id="map-emptied",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a/x"]}},
            {"metadata": {"finalizers": ["b/y"]}},
            {"metadata": {"finalizers": ["b/y", "a/x"]}},
            id="finalizers-unite",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a/x", "b/y"]}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/x", "gone"]}},
            {"metadata": {"finalizers": ["b/y"]}},
            id="finalizer-removed",
        ),
        pytest.param(
            {"metadata": {"ownerReferences": [OWNER]}},
            {"metadata": {"ownerReferences": [{"uid": "u2"}]}},
            {"metadata": {"ownerReferences": [{"uid": "u2"}, OWNER]}},
            id="owners-unite-by-uid",
        ),
        pytest.param(
            {"metadata": {"ownerReferences": [OWNER]}},
            {"metadata": {"ownerReferences": [{"$patch": "delete", "uid": "u1"}], "uid": "me"}},
            {"metadata": {"ownerReferences": [], "uid": "me"}},
            id="owner-removed-by-uid",
        ),
        pytest.param(
            {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
            {"status": {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"}},
            {"status": {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"}},
            id="conditions-by-type",
        ),
        pytest.param(
            {"status": {"containerStatuses": [A]}},
            {"status": {"containerStatuses": [B]}},
            {"status": {"containerStatuses": [B]}},
            id="container-statuses-replaced",
        ),
        pytest.param(
            {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
            {"spec": {"volumes": [{"name": "v", "emptyDir": None, "secret": {}}]}},
            {"spec": {"volumes": [{"name": "v", "secret": {}}]}},
            id="volume-changes-its-source",
        ),
        pytest.param(
            {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
            {"spec": {"volumes": [{"$retainKeys": ["name", "secret"], "name": "v", "secret": {}}]}},
            {"spec": {"volumes": [{"name": "v", "secret": {}}]}},
            id="retained-keys",
        ),
        pytest.param(
            containers({"name": "a", "env": [{"name": "X", "value": "1"}]}),
            containers({"name": "a", "env": [{"name": "Y", "value": "2"}]}),
            containers({"name": "a", "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}]}),
            id="env-in-containers",
        ),
        pytest.param(containers(A, B), {"$patch": "replace", "kind": "Pod"}, {"kind": "Pod"}, id="whole-replaced"),
        pytest.param(
            containers(A, B, C),
            {"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}, {"name": "b"}]}},
            containers(C, A, B),
            id="order-alone",
        ),
        pytest.param(
            containers(A, B),
            {"spec": {"$setElementOrder/containers": [{"name": "a"}, {"name": "c"}, {"name": "b"}], "containers": [C]}},
            containers(A, C, B),
            id="order-with-a-new-item",
        ),
        pytest.param(
            containers(A, B, D),
            {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}},
            containers(B, A, D),
            id="order-leaves-others-behind",
        ),
        pytest.param(
            containers(A, D, B),
            {"spec": {"$setElementOrder/containers": [{"name": "a"}, {"name": "b"}]}},
            containers(A, D, B),
            id="order-leaves-others-between",
        ),
        pytest.param(
            {"spec": {}},
            {"spec": {"securityContext": {"$retainKeys": ["runAsUser"], "$patch": "merge", "runAsUser": 1}}},
            {"spec": {"securityContext": {"runAsUser": 1}}},
            id="directives-of-what-is-new-are-not-stored",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a", "b"]}},
            {
                "metadata": {
                    "$setElementOrder/finalizers": ["c", "b"],
                    "$deleteFromPrimitiveList/finalizers": ["a"],
                    "finalizers": ["c"],
                }
            },
            {"metadata": {"finalizers": ["c", "b"]}},
            id="kubectl-edits-finalizers",
        ),
        pytest.param(
            {"status": {"conditions": [{"type": "A"}, {"type": "B"}]}},
            {
                "status": {
                    "$setElementOrder/conditions": [{"type": "A"}, {"type": "B"}],
                    "conditions": [{"type": "B", "status": "True"}],
                }
            },
            {"status": {"conditions": [{"type": "A"}, {"type": "B", "status": "True"}]}},
            id="kubelet-writes-conditions",
        ),
        pytest.param({"a": 1}, {"a": {"b": 1}}, {"a": {"b": 1}}, id="type-changes"),
        pytest.param({}, {"a": None}, {}, id="null-of-nothing"),
    ],
)
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


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        pytest.param(
            {"metadata": {"ownerReferences": [{"name": "u1"}]}},
            500,
            "map: map[name:u1] does not contain declared merge key: uid",
            id="no-key",
        ),
        pytest.param(
            {"spec": {"$patch": "bogus"}}, 500, "unknown patch type: bogus in map: map[]", id="unknown-in-map"
        ),
        pytest.param(
            containers({"name": "a", "$patch": "bogus"}),
            500,
            "unknown patch type: bogus in map: map[$patch:bogus name:a]",
            id="unknown-in-item",
        ),
        pytest.param(
            containers({"name": "a", "$patch": "merge"}),
            500,
            "merging lists cannot yet be specified in the patch",
            id="merge-in-item",
        ),
        pytest.param(
            {"spec": {"$retainKeys": ["a"], "b": 1}},
            400,
            "invalid patch format of retainKeys",
            id="retain-forgets-a-member",
        ),
        pytest.param(
            {"metadata": {"$setElementOrder/finalizers": "a"}},
            400,
            "invalid patch format of setElementOrder list",
            id="order-is-no-list",
        ),
        pytest.param(
            {"spec": {"$setElementOrder/containers": [], "containers": True}},
            400,
            "invalid patch format of setElementOrder list",
            id="ordered-member-is-no-list",
        ),
        pytest.param(
            {"metadata": {"$deleteFromPrimitiveList/finalizers": "a"}},
            400,
            "invalid patch format of primitive list",
            id="deletion-is-no-list",
        ),
    ],
)
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
