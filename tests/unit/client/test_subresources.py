import json

import pytest

from kcr.api.apps import Deployment
from kcr.api.meta import Key
from kcr.client import Client, LogOptions
from kcr.errors import TooManyRequestsError
from tests.kit.scripted_transport import Say, Script, failure

pytestmark = pytest.mark.kcr_virtual

KEY = Key("default", "a")
SCALE = {
    "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "a", "namespace": "default"},
    "spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "app=a"},
}  # fmt: skip


# CL-5: what hangs below an object.


async def test_scale_is_read_and_set() -> None:
    script = Script(Say(SCALE), Say(SCALE))
    scale = await Client(script).scale(Deployment, KEY)
    assert (scale.spec.replicas, scale.status.replicas, scale.status.selector) == (3, 2, "app=a")
    await Client(script).set_scale(Deployment, KEY, 3)
    path = "/apis/apps/v1/namespaces/default/deployments/a/scale"
    assert script.targets == [path, f"{path}?fieldManager=kcr"]
    assert script.requests[1].headers["content-type"] == "application/merge-patch+json"
    assert json.loads(script.requests[1].body) == {"spec": {"replicas": 3}}


async def test_eviction_names_the_pod_and_its_preconditions() -> None:
    script = Script(Say({"kind": "Status", "status": "Success"}, status=201))
    await Client(script).evict(KEY, uid="u", grace_period_seconds=5)
    request = script.requests[0]
    assert (request.method, request.target) == (
        "POST", "/api/v1/namespaces/default/pods/a/eviction?fieldManager=kcr",
    )  # fmt: skip
    assert json.loads(request.body) == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "a", "namespace": "default"},
        "deleteOptions": {
            "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u"}, "gracePeriodSeconds": 5,
        },
    }  # fmt: skip


async def test_binding_names_the_pod_its_uid_and_the_node() -> None:
    script = Script(Say({"kind": "Status", "status": "Success"}, status=201))
    await Client(script).bind(KEY, "node-1", uid="u")
    assert script.targets == ["/api/v1/namespaces/default/pods/a/binding?fieldManager=kcr"]
    assert json.loads(script.requests[0].body) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "a", "namespace": "default", "uid": "u"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
    }


async def test_budget_that_protects_a_pod_is_told() -> None:
    answer = failure(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.")
    with pytest.raises(TooManyRequestsError, match="disruption budget"):
        await Client(Script(answer)).evict(KEY)


async def test_log_is_text() -> None:
    script = Script(Say(b"hello\n\xff\n"))
    options = LogOptions("main", previous=True, timestamps=True, tail_lines=0, since_seconds=60)
    assert await Client(script).log(KEY, options) == "hello\n�\n"
    assert script.targets == [
        "/api/v1/namespaces/default/pods/a/log?container=main&previous=true&timestamps=true&tailLines=0&sinceSeconds=60"
    ]


async def test_followed_log_may_be_silent_for_ever() -> None:
    script = Script(Say(b"one\ntwo\n"))
    async with Client(script).follow_log(KEY) as lines:
        assert [line async for line in lines] == [b"one", b"two"]
    request = script.requests[0]
    assert request.target == "/api/v1/namespaces/default/pods/a/log?follow=true"
    assert (request.timeout_seconds, request.idle_seconds) == (None, None)
