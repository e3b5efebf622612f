"""Kinds that are stored and served, and that nothing acts on here.

Source: kubernetes/pkg/registry/{apps/deployment,rbac/role,core/persistentvolume}/strategy.go;
staging/src/k8s.io/apiserver/pkg/endpoints/handlers/create.go.
"""

from typing import Any

import pytest

from kcr_devcluster.versions import DEFAULT
from tests.kit.api import TABLE, Api

pytestmark = pytest.mark.kcr_virtual
STATEFUL_SETS = "/apis/apps/v1/namespaces/default/statefulsets"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"


def stateful_set(**spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template, **spec},
    }


async def test_kind_without_controller_is_stored_with_a_warning(api: Api) -> None:
    reply = await api.call("POST", STATEFUL_SETS, stateful_set(replicas=0))
    words = (
        "statefulsets.apps are stored by this server, and nothing here acts on them: no controller creates their pods"
    )
    assert (reply.status, reply.headers["Warning"]) == (201, f'299 - "{words}"')
    assert (reply.body["spec"]["replicas"], reply.body["metadata"]["generation"]) == (0, 1)
    reply = await api.call("PUT", f"{STATEFUL_SETS}/web", stateful_set(replicas=2))
    assert (reply.body["metadata"]["generation"], "Warning" in reply.headers) == (2, False)
    (found,) = (await api.get("/apis/apps/v1/statefulsets"))["items"]
    assert found["spec"]["replicas"] == 2


async def test_status_of_a_kind_without_controller_has_its_own_path(api: Api) -> None:
    await api.post(STATEFUL_SETS, stateful_set())
    reply = await api.call(
        "PUT", f"{STATEFUL_SETS}/web/status", {**stateful_set(replicas=9), "status": {"replicas": 1}}
    )
    assert (reply.status, reply.body["status"], reply.body["spec"]["replicas"]) == (200, {"replicas": 1}, 1)
    reply = await api.call("PUT", f"{STATEFUL_SETS}/web", {**stateful_set(), "status": {"replicas": 3}})
    assert (reply.body["status"], reply.body["metadata"]["generation"]) == ({"replicas": 1}, 1)


async def test_fields_of_a_kind_without_controller_are_checked(api: Api) -> None:
    reply = await api.call("POST", f"{STATEFUL_SETS}?fieldValidation=Strict", stateful_set(replica=2))
    assert (reply.status, reply.body["message"].rpartition(": ")[2]) == (400, 'unknown field "spec.replica"')
    reply = await api.call("POST", STATEFUL_SETS, stateful_set(replicas="2"))
    words = "json: cannot unmarshal string into Go struct field StatefulSetSpec.spec.replicas of type int32"
    assert (reply.status, reply.body["message"].partition(": ")[2]) == (400, words)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        pytest.param("system:Node", "", id="fit"),
        pytest.param("a/b", "may not contain '/'", id="slash"),
        pytest.param("..", "may not be '..'", id="dots"),
    ],
)
async def test_names_of_roles_need_only_fit_into_a_path(api: Api, name: str, reason: str) -> None:
    reply = await api.call("POST", ROLES, {"metadata": {"name": name}, "rules": []})
    if not reason:
        assert (await api.get(f"{ROLES}/{name.replace(':', '%3A')}"))["metadata"]["name"] == name
    else:
        cause = reply.body["details"]["causes"][0]
        assert (cause["field"], cause["message"]) == ("metadata.name", f'Invalid value: "{name}": {reason}')


async def test_kinds_are_told_of_with_their_names(api: Api) -> None:
    resources = {one["name"]: one for one in (await api.get("/apis/apps/v1"))["resources"]}
    assert (resources["deployments"]["shortNames"], resources["deployments"]["categories"]) == (["deploy"], ["all"])
    assert resources["deployments/status"]["verbs"] == ["get", "patch", "update"]
    volumes = {one["name"]: one for one in (await api.get("/api/v1"))["resources"]}["persistentvolumes"]
    assert (volumes["namespaced"], volumes["shortNames"]) == (False, ["pv"])


@pytest.mark.collects
async def test_namespace_takes_its_objects_of_all_kinds_along(api: Api, kcr_clock: Any) -> None:
    await api.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
    await api.post("/apis/apps/v1/namespaces/team/statefulsets", stateful_set())
    await api.call("DELETE", "/api/v1/namespaces/team")
    await kcr_clock.advance(5)
    assert (await api.call("GET", "/api/v1/namespaces/team")).status == 404
    assert (await api.get("/apis/apps/v1/statefulsets"))["items"] == []


async def test_constant_defaults_of_the_kind_are_set(api: Api) -> None:
    spec = (await api.post(STATEFUL_SETS, stateful_set(revisionHistoryLimit=0)))["spec"]
    found = [spec[name] for name in ("replicas", "updateStrategy", "revisionHistoryLimit", "podManagementPolicy")]
    rolling = {"partition": 0} if DEFAULT == "1.36" else {"partition": 0, "maxUnavailable": 1}
    assert found == [1, {"type": "RollingUpdate", "rollingUpdate": rolling}, 0, "OrderedReady"]


CONTROLLER = {
    "selector": {"c": "d", "a": "b"},
    "template": {**stateful_set()["spec"]["template"], "metadata": {"labels": {"a": "b", "c": "d", "e": "f"}}},
}


@pytest.mark.parametrize(
    ("place", "spec", "selector"),
    [
        pytest.param("/apis/apps/v1/namespaces/default/deployments", stateful_set()["spec"], "a=b", id="deployment"),
        pytest.param("/apis/apps/v1/namespaces/default/replicasets", stateful_set()["spec"], "a=b", id="replica-set"),
        pytest.param("/apis/apps/v1/namespaces/default/statefulsets", stateful_set()["spec"], "a=b", id="stateful-set"),
        pytest.param("/api/v1/namespaces/default/replicationcontrollers", CONTROLLER, "a=b,c=d", id="controller"),
    ],
)
async def test_scale_reads_and_writes_the_number_of_replicas(api: Api, place: str, spec: Any, selector: str) -> None:
    # Source: pkg/registry/apps/deployment/storage/storage.go, ScaleREST
    made = (await api.post(place, {"metadata": {"name": "web"}, "spec": spec}))["metadata"]
    await api.call("PUT", f"{place}/web/status", {"metadata": {"name": "web"}, "status": {"replicas": 5}})
    found = await api.get(f"{place}/web/scale")
    assert (found["apiVersion"], found["kind"], found["metadata"]["uid"]) == ("autoscaling/v1", "Scale", made["uid"])
    assert found["metadata"].keys() == {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"}
    assert (found["spec"], found["status"]) == ({"replicas": 1}, {"replicas": 5, "selector": selector})
    # What `kubectl scale` sends
    scale = await api.patch(f"{place}/web/scale", {"spec": {"replicas": 3}})
    assert (scale["spec"], scale["kind"]) == ({"replicas": 3}, "Scale")
    stored = await api.get(f"{place}/web")
    assert (stored["spec"], stored["status"]) == ({**stored["spec"], "replicas": 3}, {"replicas": 5})
    assert stored["metadata"].get("generation", 2) == 2
    # Zero is what an absent number means.
    assert (await api.put(f"{place}/web/scale", {**scale, "spec": {}}))["spec"] == {}
    assert (await api.get(f"{place}/web"))["spec"]["replicas"] == 0


@pytest.mark.parametrize(
    ("scale", "code", "words"),
    [
        pytest.param({"spec": {"replicas": -1}}, 422, 'Scale.autoscaling "web" is invalid: ', id="below"),
        pytest.param({"metadata": {"name": "other"}}, 400, "the name of the object (other) does not match", id="name"),
        pytest.param({"metadata": {"name": "web", "resourceVersion": "1"}}, 409, "Operation cannot", id="version"),
        pytest.param({"spec": {"replicas": "1"}}, 400, 'Scale in version "v1" cannot be handled', id="type"),
    ],
)
async def test_scale_that_cannot_be_is_refused(api: Api, scale: Any, code: int, words: str) -> None:
    await api.post(STATEFUL_SETS, stateful_set())
    reply = await api.call("PUT", f"{STATEFUL_SETS}/web/scale", {"metadata": {"name": "web"}, **scale})
    assert (reply.status, reply.body["message"][: len(words)]) == (code, words)
    assert (await api.get(f"{STATEFUL_SETS}/web"))["spec"]["replicas"] == 1


async def test_scale_is_served_where_it_is_kept(api: Api) -> None:
    resources = {one["name"]: one for one in (await api.get("/apis/apps/v1"))["resources"]}
    scale = resources["deployments/scale"]
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")
    assert scale["verbs"] == ["get", "patch", "update"]
    assert "daemonsets/scale" not in resources
    assert (await api.call("GET", "/apis/apps/v1/namespaces/default/daemonsets/a/scale")).status == 404


TEMPLATE = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "i"}], "nodeSelector": {"disk": "ssd"}},
}
SELECTOR = {"matchLabels": {"a": "b"}}
SUBJECTS = [{"kind": "User", "name": "ann"}, {"kind": "ServiceAccount", "namespace": "x", "name": "bot"}]
CLAIM = {
    "accessModes": ["ReadWriteOnce"],
    "volumeName": "v",
    "resources": {"requests": {"storage": "1Gi"}},
    "storageClassName": "fast",
}
BUDGET = {"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 1}}


@pytest.mark.parametrize(
    ("place", "obj", "cells"),
    [
        pytest.param(
            "apps/v1/namespaces/default/deployments",
            {"spec": {"replicas": 2, "template": TEMPLATE, "selector": SELECTOR}},
            ["0/2", 0, 0, "0s", "c", "i", "a=b"], id="deployment",
        ),
        pytest.param(
            "apps/v1/namespaces/default/daemonsets", {"spec": {"template": TEMPLATE, "selector": SELECTOR}},
            [0, 0, 0, 0, 0, "disk=ssd", "0s", "c", "i", "a=b"], id="daemon-set",
        ),
        pytest.param(
            "apps/v1/namespaces/default/statefulsets", {"spec": {"template": TEMPLATE, "selector": SELECTOR}},
            ["0/1", "0s", "c", "i"], id="stateful-set",
        ),
        pytest.param(
            "apps/v1/namespaces/default/replicasets", {"spec": {"template": TEMPLATE, "selector": SELECTOR}},
            [1, 0, 0, "0s", "c", "i", "a=b"], id="replica-set",
        ),
        pytest.param(
            "networking.k8s.io/v1/namespaces/default/ingresses",
            {"spec": {"rules": [{"host": one} for one in "abcd"], "tls": [{"hosts": ["a"]}]}},
            ["<none>", "a,b,c + 1 more...", "", "80, 443", "0s"], id="ingress",
        ),
        pytest.param(
            "networking.k8s.io/v1/namespaces/default/networkpolicies",
            {"spec": {"podSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}}, ["a", "0s"],
            id="policy-with-an-expression",
        ),
        pytest.param(
            "policy/v1/namespaces/default/poddisruptionbudgets", BUDGET, ["50%", "N/A", 0, "0s"], id="budget"
        ),
        pytest.param(
            "rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
            {"roleRef": {"apiGroup": "", "kind": "Role", "name": "r"}, "subjects": SUBJECTS},
            ["Role/r", "0s", "ann", "", "x/bot"], id="role-binding",
        ),
        pytest.param(
            "storage.k8s.io/v1/storageclasses", {"provisioner": "p"}, ["p", "Delete", "Immediate", False, "0s"],
            id="storage-class",
        ),
        pytest.param(
            "scheduling.k8s.io/v1/priorityclasses", {"value": 7}, [7, False, "0s", "PreemptLowerPriority"],
            id="priority-class",
        ),
    ],
)  # fmt: skip
async def test_tables_have_the_columns_of_the_kind(api: Api, place: str, obj: dict[str, Any], cells: list[Any]) -> None:
    await api.post(f"/apis/{place}", {"metadata": {"name": "one"}, **obj})
    table = await api.get(f"/apis/{place}", accept=TABLE)
    # There are priority classes of the system, too.
    assert [row["cells"] for row in table["rows"] if not row["cells"][0].startswith("system-")] == [["one", *cells]]
    assert len(table["columnDefinitions"]) == len(cells) + 1


async def test_tables_of_volumes_and_claims_say_what_is_bound(api: Api) -> None:
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    await api.post(claims, {"metadata": {"name": "data"}, "spec": CLAIM})
    status = {"phase": "Bound", "capacity": {"storage": "1024Mi"}, "accessModes": ["ReadWriteOnce"]}
    await api.call("PUT", f"{claims}/data/status", {"metadata": {"name": "data"}, "status": status})
    (row,) = (await api.get(claims, accept=TABLE))["rows"]
    assert row["cells"] == ["data", "Bound", "v", "1Gi", "RWO", "fast", "<unset>", "0s", "Filesystem"]
    claimed = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany", "ReadOnlyMany"],
        "hostPath": {"path": "/a"},
    }
    claimed["claimRef"] = {"namespace": "default", "name": "data"}
    await api.post("/api/v1/persistentvolumes", {"metadata": {"name": "v"}, "spec": claimed})
    (row,) = (await api.get("/api/v1/persistentvolumes", accept=TABLE))["rows"]
    assert row["cells"] == [
        "v",
        "1Gi",
        "RWX,ROX",
        "Retain",
        "Pending",
        "default/data",
        "",
        "<unset>",
        "",
        "0s",
        "Filesystem",
    ]


async def test_claim_without_its_spec_is_refused(api: Api) -> None:
    """Source: kubernetes/pkg/apis/core/validation/validation.go, ValidatePersistentVolumeClaimUpdate."""
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    await api.post(claims, {"metadata": {"name": "data"}, "spec": CLAIM})
    reply = await api.call("PUT", f"{claims}/data", {"metadata": {"name": "data"}})
    fields = [cause["field"] for cause in reply.body["details"]["causes"]]
    assert (reply.status, fields) == (
        422, ["spec.accessModes", "spec.resources[storage]", "spec", "spec.resources.requests.storage"],
    )  # fmt: skip
