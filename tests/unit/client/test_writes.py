import json

import pytest
from msgspec.structs import replace

from kcr.api.batch import Job, JobStatus
from kcr.api.core import Pod
from kcr.api.meta import Key, ObjectMeta
from kcr.client import Client
from tests.unit.client.scripted import Say, Script

pytestmark = pytest.mark.virtual

POD = {"metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "7"}}


async def test_create_posts_the_whole_object() -> None:
    script = Script(Say(POD, status=201))
    await Client(script, field_manager="me").create(Pod(metadata=ObjectMeta(name="a", namespace="default")))
    request = script.requests[0]
    assert (request.method, request.target) == ("POST", "/api/v1/namespaces/default/pods?fieldManager=me")
    assert request.headers["content-type"] == "application/json"
    sent = json.loads(request.body)
    assert (sent["apiVersion"], sent["kind"], sent["metadata"]["name"]) == ("v1", "Pod", "a")


async def test_manifest_is_sent_with_fields_the_type_lacks() -> None:
    script = Script(Say(POD, status=201))
    await Client(script).create_manifest(Pod, {**POD, "spec": {"hostNetwork": True}}, "default")
    assert json.loads(script.requests[0].body)["spec"] == {"hostNetwork": True}


async def test_patch_sends_the_difference_with_its_precondition() -> None:
    script = Script(Say(POD))
    old = Job(metadata=ObjectMeta(name="j", namespace="default", resource_version="5"))
    new = replace(old, status=JobStatus(active=2, ready=0))
    await Client(script).patch(old, new, subresource="status")
    request = script.requests[0]
    assert request.method == "PATCH"
    assert request.target == "/apis/batch/v1/namespaces/default/jobs/j/status?fieldManager=kcr"
    assert request.headers["content-type"] == "application/merge-patch+json"
    assert json.loads(request.body) == {"metadata": {"resourceVersion": "5"}, "status": {"active": 2, "ready": 0}}


async def test_patch_without_difference_sends_nothing() -> None:
    script = Script()
    old = Job(metadata=ObjectMeta(name="j", namespace="default"))
    assert await Client(script).patch(old, replace(old)) is old
    assert script.requests == []


async def test_strategic_patch_says_what_it_is() -> None:
    script = Script(Say(POD))
    await Client(script).strategic_patch(Pod, Key("default", "a"), {"metadata": {"uid": "u"}})
    assert script.requests[0].headers["content-type"] == "application/strategic-merge-patch+json"


async def test_delete_carries_preconditions_and_policy() -> None:
    script = Script(Say({"status": "Success"}))
    await Client(script).delete(Pod, Key("default", "a"), uid="u", propagation="Background", grace_period_seconds=0)
    assert json.loads(script.requests[0].body) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u"},
        "propagationPolicy": "Background",
        "gracePeriodSeconds": 0,
    }
