"""Kinds that are served for clients that insist on them, and on which nothing here acts.

Source: kubernetes/pkg/scheduler/eventhandlers.go, addAllEventHandlers, which waits for them;
test/e2e/apimachinery/flowcontrol.go, should support FlowSchema API operations and PriorityLevelConfiguration API
operations; pkg/apis/flowcontrol/v1/defaults.go.
"""

from typing import Any

import pytest

from tests.kit.api import TABLE, Api
from tests.kit.valid_objects import VALID_OBJECTS

pytestmark = pytest.mark.kcr_virtual
RESOURCE, FLOW = "/apis/resource.k8s.io/v1", "/apis/flowcontrol.apiserver.k8s.io/v1"
LEVELS = f"{FLOW}/prioritylevelconfigurations"
LIMITED = {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {"queues": 2}}}}


@pytest.mark.parametrize("plural", ["resourceclaims", "resourceclaimtemplates", "deviceclasses", "resourceslices"])
async def test_scheduler_lists_and_watches_devices(api: Api, plural: str) -> None:
    found = await api.get(f"{RESOURCE}/{plural}")
    assert (found["apiVersion"], found["items"]) == ("resource.k8s.io/v1", [])
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    events = await api.watch(f"{RESOURCE}/{plural}?{query}&")
    assert (await events.next())["type"] == "BOOKMARK"
    await events.close()


async def test_slices_are_selected_by_node_and_driver(api: Api) -> None:
    slices = f"{RESOURCE}/resourceslices"
    await api.post(slices, {"metadata": {"name": "a"}, **VALID_OBJECTS["ResourceSlice"]})
    for selector, count in (("spec.nodeName=n1", 1), ("spec.driver=gpu.ex.io", 1), ("spec.nodeName=n2", 0)):
        assert len((await api.get(f"{slices}?fieldSelector={selector}"))["items"]) == count


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        pytest.param(
            LIMITED,
            {"type": "Limited", "limited": {
                "nominalConcurrencyShares": 30, "lendablePercent": 0,
                "limitResponse": {"type": "Queue", "queuing": {"queues": 2, "handSize": 8, "queueLengthLimit": 50}}}},
            id="limited",
        ),
        pytest.param(
            {"type": "Exempt", "exempt": {}},
            {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}}, id="exempt",
        ),
    ],
)  # fmt: skip
async def test_priority_levels_are_defaulted(api: Api, given: dict[str, Any], stored: dict[str, Any]) -> None:
    made = await api.post(LEVELS, {"metadata": {"name": "a"}, "spec": given})
    assert (made["spec"], made["metadata"]["generation"]) == (stored, 1)


async def test_flow_schema_has_a_status_and_a_warning(api: Api) -> None:
    place = f"{FLOW}/flowschemas"
    reply = await api.call("POST", place, {"metadata": {"name": "a"}, **VALID_OBJECTS["FlowSchema"]})
    assert (reply.status, reply.body["spec"]["matchingPrecedence"]) == (201, 1000)
    assert "no request is queued or refused" in reply.headers["Warning"]
    condition = {"type": "Dangling", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    await api.patch(f"{place}/a/status", {"status": {"conditions": [condition]}})
    changed = await api.patch(f"{place}/a", {"spec": {"matchingPrecedence": 9}})
    assert changed["status"] == {"conditions": [condition]}
    assert changed["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    ("target", "kind", "cells"),
    [
        pytest.param(f"{FLOW}/flowschemas", "FlowSchema", ["a", "p", 1000, "<none>", "0s", "?"], id="flow-schema"),
        pytest.param(f"{RESOURCE}/resourceslices", "ResourceSlice", ["a", "n1", "gpu.ex.io", "n1", "0s"], id="slice"),
    ],
)
async def test_stored_kinds_have_upstreams_columns(api: Api, target: str, kind: str, cells: list[Any]) -> None:
    await api.post(target, {"metadata": {"name": "a"}, **VALID_OBJECTS[kind]})
    (row,) = (await api.get(target, accept=TABLE))["rows"]
    assert row["cells"] == cells


async def test_claims_of_devices_count_one(api: Api) -> None:
    exactly = {"name": "a", "exactly": {"deviceClassName": "x"}}
    several = {"name": "b", "firstAvailable": [{"name": "q", "deviceClassName": "x", "allocationMode": "All"}]}
    devices = {"devices": {"requests": [exactly, several]}}
    claims = f"{RESOURCE}/namespaces/default/resourceclaims"
    claim = await api.post(claims, {"metadata": {"name": "a"}, "spec": devices})
    first, second = claim["spec"]["devices"]["requests"]
    assert first["exactly"] == {"deviceClassName": "x", "allocationMode": "ExactCount", "count": 1}
    assert "count" not in second["firstAvailable"][0]
    assert claim["status"] == {}
    (row,) = (await api.get(claims, accept=TABLE))["rows"]
    assert row["cells"][:2] == ["a", "pending"]
    template = await api.post(f"{claims[:-1]}templates", {"metadata": {"name": "a"}, "spec": {"spec": devices}})
    assert template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1
    assert template["spec"]["metadata"] == {}


async def test_claim_takes_the_class_that_becomes_the_default(api: Api) -> None:
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await api.post(claims, {"metadata": {"name": "a"}, "spec": spec})
    assert (await api.patch(f"{claims}/a", {"spec": {"storageClassName": "x"}}))["spec"]["storageClassName"] == "x"
    reply = await api.call(
        "PATCH", f"{claims}/a", {"spec": {"storageClassName": "y"}}, content_type="application/merge-patch+json"
    )
    assert (reply.status, reply.body["details"]["causes"][0]["field"]) == (422, "spec")


@pytest.mark.parametrize(("given", "other"), [("dataSource", "dataSourceRef"), ("dataSourceRef", "dataSource")])
async def test_source_of_a_claim_is_named_in_both_fields(api: Api, given: str, other: str) -> None:
    # Source: kubernetes/pkg/registry/core/persistentvolumeclaim/strategy.go, NormalizeDataSources.
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "old"}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, given: source}
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    made = await api.post(claims, {"metadata": {"name": "c"}, "spec": spec})
    assert made["spec"][given] == made["spec"][other] == source
