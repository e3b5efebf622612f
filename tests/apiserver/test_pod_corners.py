"""Pods in the corners: negative grace periods, statuses, ephemeral containers, keys that select twice.

The answers are those of kube-apiserver 1.36.2. Source: kubernetes/pkg/apis/core/validation/validation.go,
ValidatePodStatusUpdate, validateEphemeralContainers and validateTopologySpreadConstraints;
kubernetes/pkg/registry/core/pod/strategy.go.
"""

from typing import Any

import pytest

from tests.kit.api import Api, pod

pytestmark = pytest.mark.kcr_virtual
PODS = "/api/v1/namespaces/default/pods"
STATUS, EPHEMERAL = f"{PODS}/a/status", f"{PODS}/a/ephemeralcontainers"
FORBIDDEN = "spec.ephemeralContainers[0].{}: Forbidden: cannot be set for an Ephemeral Container"
FAMILY = "may specify no more than one IP for each IP family"


def with_spec(**spec: Any) -> dict[str, Any]:
    made = pod("a", labels={"a": "1", "b": "2"})
    return {**made, "spec": {**made["spec"], **spec}}


async def said(api: Api, target: str, change: Any) -> str:
    """Return the message of a patch that is refused, empty for one that is not."""
    reply = await api.call("PATCH", target, change, content_type="application/merge-patch+json")
    return str(reply.body["message"]).removeprefix('Pod "a" is invalid: ') if reply.status >= 400 else ""


async def test_negative_grace_period_of_a_pod_is_one_second(api: Api) -> None:
    """Source: cel-and-bodies.md, B14."""
    made = await api.post(PODS, with_spec(terminationGracePeriodSeconds=-5))
    assert made["spec"]["terminationGracePeriodSeconds"] == 1


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ({"nominatedNodeName": "n1", "observedGeneration": 3}, ""),
        ({"nominatedNodeName": "A_B"}, 'status.nominatedNodeName: Invalid value: "A_B": a lowercase RFC 1123'),
        ({"observedGeneration": -1}, "status.observedGeneration: Invalid value: -1: must be a non-negative integer"),
        ({"conditions": [{"type": "Ready", "status": "True", "observedGeneration": -3}]},
         "status.conditions[0].observedGeneration: Invalid value: -3: must be a non-negative integer"),
        ({"podIPs": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.4"}]},
         f'status.podIPs: Invalid value: [{{"IP":"1.2.3.4"}},{{"IP":"1.2.3.4"}}]: {FAMILY}'),
        ({"podIPs": [{"ip": "1.2.3.4"}, {"ip": "::1"}]}, ""),
        ({"podIP": "x"}, 'status.podIPs[0]: Invalid value: "x": must be a valid IP address'),
        ({"hostIP": "x"}, ""),
        ({"hostIPs": [{"ip": "1.2.3.4"}]}, 'status.hostIPs[0].ip: Invalid value: "1.2.3.4": must be equal to `hostIP`'),
    ],
)  # fmt: skip
async def test_status_is_checked_as_upstream_does(api: Api, status: Any, message: str) -> None:
    """Source: cel-and-bodies.md, B14."""
    await api.post(PODS, pod("a"))
    found = await said(api, STATUS, {"status": status})
    assert found.startswith(message)
    assert bool(found) is bool(message)


async def test_address_of_a_pod_decides_over_its_addresses(api: Api) -> None:
    await api.post(PODS, pod("a"))
    await api.patch(STATUS, {"status": {"podIP": "1.2.3.4", "podIPs": [{"ip": "1.2.3.5"}], "hostIP": "1.2.3.6"}})
    status = (await api.get(f"{PODS}/a"))["status"]
    assert (status["podIPs"], status.get("hostIPs")) == ([{"ip": "1.2.3.4"}], None)


@pytest.mark.parametrize(
    ("container", "message"),
    [
        ({"name": "c", "image": "b"}, 'spec.ephemeralContainers[0].name: Duplicate value: "c"'),
        ({"image": "b"}, "spec.ephemeralContainers[0].name: Required value"),
        ({"name": "d"}, "spec.ephemeralContainers[0].image: Required value"),
        ({"name": "d", "image": "b", "ports": [{"containerPort": 80}]}, FORBIDDEN.format("ports")),
        ({"name": "d", "image": "b", "livenessProbe": {"httpGet": {"port": 80}}}, FORBIDDEN.format("livenessProbe")),
        ({"name": "d", "image": "b", "resources": {"limits": {"cpu": "1"}}}, FORBIDDEN.format("resources")),
        ({"name": "d", "image": "b", "lifecycle": {}}, FORBIDDEN.format("lifecycle")),
        ({"name": "d", "image": "b", "restartPolicy": "Always"}, FORBIDDEN.format("restartPolicy")),
        ({"name": "d", "image": "b", "targetContainerName": "x"},
         'spec.ephemeralContainers[0].targetContainerName: Not found: "x"'),
    ],
)  # fmt: skip
async def test_ephemeral_container_is_validated_before_it_is_refused(api: Api, container: Any, message: str) -> None:
    """Source: cel-and-bodies.md, B14."""
    await api.post(PODS, pod("a"))
    assert await said(api, EPHEMERAL, {"spec": {"ephemeralContainers": [container]}}) == message
    refused = await api.call("POST", PODS, with_spec(ephemeralContainers=[container]))
    both = f"[{message}, spec.ephemeralContainers: Forbidden: cannot be set on create]"
    assert refused.body["message"] == f'Pod "a" is invalid: {both}'


async def test_valid_ephemeral_container_is_not_implemented_and_none_changes_nothing(api: Api) -> None:
    made = await api.post(PODS, pod("a"))
    change = {"spec": {"ephemeralContainers": [{"name": "d", "image": "b"}]}}
    media = "application/strategic-merge-patch+json"
    reply = await api.call("PATCH", EPHEMERAL, change, content_type=media)
    assert (reply.status, reply.body["reason"]) == (501, "NotImplemented")
    reply = await api.call("PATCH", EPHEMERAL, {"spec": {"ephemeralContainers": []}}, content_type=media)
    assert (reply.status, reply.body) == (200, made)


@pytest.mark.parametrize(
    ("selector", "keys", "position"),
    [({"matchLabels": {"b": "2"}}, ["b"], 0), ({"matchLabels": {"a": "1"}}, ["b", "b"], 1), ({}, ["a", "b"], None)],
)
async def test_key_may_not_select_twice(api: Api, selector: Any, keys: list[str], position: int | None) -> None:
    """Source: cel-and-bodies.md, B14."""
    constraint = {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": keys}
    constraints = [{**constraint, "labelSelector": selector}]
    reply = await api.call("POST", PODS, with_spec(topologySpreadConstraints=constraints))
    if position is None:
        merged = [{"key": key, "operator": "In", "values": [str(number)]} for number, key in enumerate(keys, 1)]
        assert reply.body["spec"]["topologySpreadConstraints"][0]["labelSelector"] == {"matchExpressions": merged}
        return
    words = 'Invalid value: "b": exists in both matchLabelKeys and labelSelector'
    assert reply.body["message"] == f'Pod "a" is invalid: spec.topologySpreadConstraints[0][{position}]: {words}'
