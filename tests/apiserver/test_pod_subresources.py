"""Binding, eviction and graceful deletion of pods (batch-api §§12.4, 12.5).

Source: kubernetes/pkg/registry/core/pod/storage/{storage,eviction}.go.
"""

from typing import Any

import pytest

from kcr.api.meta import Key
from kcr.client import Client
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.loop import VirtualClock
from tests.kit.api import Api, pod, pod_binding
from tests.kit.protobuf import PROTOBUF, body, message

pytestmark = pytest.mark.kcr_virtual
PODS = "/api/v1/namespaces/default/pods"
TRACKING = "batch.kubernetes.io/job-tracking"


def eviction(name: str = "pa", **options: Any) -> dict[str, Any]:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options}


async def bound(api: Api, name: str = "pa", **metadata: Any) -> dict[str, Any]:
    await api.post(PODS, pod(name, **metadata))
    await api.post(f"{PODS}/{name}/binding", pod_binding(name))
    made: dict[str, Any] = await api.get(f"{PODS}/{name}")
    return made


async def test_binding_meant_for_another_pod_of_the_name_is_refused(api: Api) -> None:
    made = await api.post(PODS, pod("pa"))
    refused = await api.call("POST", f"{PODS}/pa/binding", pod_binding("pa", uid="zzz"))
    assert (refused.status, refused.body["reason"]) == (409, "Conflict")
    await api.post(f"{PODS}/pa/binding", pod_binding("pa", uid=made["metadata"]["uid"]))
    assert (await api.get(f"{PODS}/pa"))["spec"]["nodeName"] == "n1"


async def test_evicted_pod_is_marked_then_goes_gracefully(api: Api) -> None:
    await bound(api)
    events = await api.watch(f"{PODS}?")
    await events.next()
    reply = await api.call("POST", f"{PODS}/pa/eviction", eviction())
    assert (reply.status, reply.body["status"], reply.body["code"]) == (201, "Success", 201)
    marked, going = (await events.next())["object"], (await events.next())["object"]
    assert "deletionTimestamp" not in marked["metadata"]
    assert marked["status"]["conditions"][-1] == {
        "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting", "lastProbeTime": None, "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    assert going["metadata"]["deletionGracePeriodSeconds"] == 30
    assert going["status"] == marked["status"]
    await events.close()


async def test_tracked_pod_stays_marked_after_its_eviction(api: Api) -> None:
    await api.post(PODS, pod("pa", finalizers=[TRACKING]))
    await api.post(f"{PODS}/pa/eviction", eviction())
    left = await api.get(f"{PODS}/pa")
    assert left["metadata"]["deletionGracePeriodSeconds"] == 0
    assert left["status"]["conditions"][-1]["type"] == "DisruptionTarget"


async def test_second_eviction_keeps_the_first_moment(api: Api, kcr_clock: VirtualClock) -> None:
    await bound(api)
    await api.post(f"{PODS}/pa/eviction", eviction())
    first = await api.get(f"{PODS}/pa")
    await kcr_clock.advance(5)
    await api.post(f"{PODS}/pa/eviction", eviction())
    assert await api.get(f"{PODS}/pa") == first


async def test_eviction_takes_delete_options(api: Api) -> None:
    made = await bound(api)
    mismatch = eviction(preconditions={"uid": "zzz"})
    assert (await api.call("POST", f"{PODS}/pa/eviction", mismatch)).status == 409
    assert (await api.call("POST", f"{PODS}/pa/eviction?dryRun=All", eviction())).status == 201
    assert await api.get(f"{PODS}/pa") == made
    version = made["metadata"]["resourceVersion"]
    await api.post(f"{PODS}/pa/eviction", eviction(gracePeriodSeconds=5, preconditions={"resourceVersion": version}))
    assert (await api.get(f"{PODS}/pa"))["metadata"]["deletionGracePeriodSeconds"] == 5


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        pytest.param("pb", 400, "name in URL does not match name in Eviction object", id="other-name"),
        pytest.param("pa", 404, 'pods "pa" not found', id="absent"),
    ],
)
async def test_eviction_of_nothing_is_refused(api: Api, name: str, code: int, said: str) -> None:
    reply = await api.call("POST", f"{PODS}/pa/eviction", eviction(name))
    assert (reply.status, reply.body["message"]) == (code, said)


async def test_eviction_is_read_from_protobuf_as_well(api: Api) -> None:
    await bound(api)
    raw = body("policy/v1", "Eviction", message((1, message((1, "pa"))), (2, message((1, 7)))))
    reply = await api.call("POST", f"{PODS}/pa/eviction", raw, content_type=PROTOBUF)
    assert reply.status == 201, reply.body
    assert (await api.get(f"{PODS}/pa"))["metadata"]["deletionGracePeriodSeconds"] == 7


async def test_client_evicts(bare: EmbeddedCluster, api: Api) -> None:
    made = await bound(api)
    await Client(bare.transport).evict(Key("default", "pa"), uid=made["metadata"]["uid"], grace_period_seconds=3)
    assert (await api.get(f"{PODS}/pa"))["metadata"]["deletionGracePeriodSeconds"] == 3


async def test_discovery_says_what_eviction_speaks(api: Api) -> None:
    # kubectl drain asks for it.
    (entry,) = (one for one in (await api.get("/api/v1"))["resources"] if one["name"] == "pods/eviction")
    assert (entry["group"], entry["version"], entry["kind"], entry["verbs"]) == ("policy", "v1", "Eviction", ["create"])


NO_NAME = "target.name: Required value"
OTHER_KIND = 'target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"'


@pytest.mark.parametrize(
    ("target", "message"),
    [
        pytest.param({}, NO_NAME, id="nothing"),
        pytest.param({"kind": "Pod", "name": "n1"}, OTHER_KIND, id="other-kind"),
        pytest.param({"kind": "Pod"}, f"[{OTHER_KIND}, {NO_NAME}]", id="both"),
    ],
)
async def test_binding_is_to_a_node_with_a_name(api: Api, target: dict[str, str], message: str) -> None:
    await api.post(PODS, pod("pa"))
    reply = await api.call("POST", f"{PODS}/pa/binding", {"metadata": {"name": "pa"}, "target": target})
    assert (reply.status, reply.body["message"]) == (500, message)
    assert (await api.call("POST", f"{PODS}/pa/binding", pod_binding("pa"))).status == 201


async def test_binding_of_its_own_names_the_pod(api: Api) -> None:
    await api.post(PODS, pod("pa"))
    bindings = PODS.replace("/pods", "/bindings")
    missing = await api.call("POST", bindings, pod_binding("pb"))
    assert (missing.status, missing.body["message"]) == (404, 'pods "pb" not found')
    assert (await api.call("POST", bindings, pod_binding("pa"))).body["status"] == "Success"
    assert (await api.get(f"{PODS}/pa"))["spec"]["nodeName"] == pod_binding("pa")["target"]["name"]
    again = await api.call("POST", bindings, pod_binding("pa"))
    assert (again.status, again.body["details"]["kind"]) == (409, "pods/binding")
    assert (await api.call("GET", bindings)).status == 405


async def test_pod_that_goes_or_is_gated_is_not_bound(api: Api) -> None:
    gated = pod("pa")
    gated["spec"]["schedulingGates"] = [{"name": "a.io/x"}]
    await api.post(PODS, gated)
    reply = await api.call("POST", f"{PODS}/pa/binding", pod_binding("pa"))
    assert (reply.status, reply.body["message"]) == (
        409, 'Operation cannot be fulfilled on pods/binding "pa": pod pa has non-empty .spec.schedulingGates'
    )  # fmt: skip
    await api.post(PODS, pod("pb", finalizers=["a.io/b"]))
    await api.delete(f"{PODS}/pb")
    reply = await api.call("POST", f"{PODS}/pb/binding", pod_binding("pb"))
    assert reply.body["message"].endswith("pod pb is being deleted, cannot be assigned to a host")


async def test_shortened_grace_never_ends_in_the_past(api: Api, kcr_clock: VirtualClock) -> None:
    await bound(api)
    await api.delete(f"{PODS}/pa")
    await kcr_clock.advance(20)
    shorter = (await api.delete(f"{PODS}/pa", {"gracePeriodSeconds": 10}))["metadata"]
    assert (shorter["deletionTimestamp"], shorter["deletionGracePeriodSeconds"]) == ("2026-01-01T00:00:20Z", 1)
    assert shorter["generation"] == 2


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        pytest.param({"gracePeriodSeconds": -5}, 1, id="negative-request"),
        pytest.param({}, 1, id="negative-in-spec"),
        pytest.param({"gracePeriodSeconds": 60}, 60, id="request-counts-more-than-spec"),
    ],
)
async def test_negative_grace_is_one_second(api: Api, sent: dict[str, int], kept: int) -> None:
    made = pod("pa")
    made["spec"]["terminationGracePeriodSeconds"] = -1
    await api.post(PODS, made)
    await api.post(f"{PODS}/pa/binding", pod_binding("pa"))
    assert (await api.delete(f"{PODS}/pa", sent))["metadata"]["deletionGracePeriodSeconds"] == kept
