"""The first words with an API server."""

import json
from typing import Any

import pytest

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.app.rbac import REVIEWS, Permissions
from kcr.app.startup import check_access, check_lease, check_shard_leases, choose_events_api
from kcr.client import Client, ClusterConfig
from kcr.client.cluster_config import explain_failure
from kcr.errors import ConfigError, ForbiddenError
from kcr.informer import Selection
from tests.kit.scripted_transport import Say, Script, failure

CONFIG = ClusterConfig(server="https://10.0.0.1:6443", origin="kubeconfig /home/me/.kube/config, context staging")


@pytest.mark.kcr_virtual
async def test_group_of_events_is_chosen_by_discovery() -> None:
    old, new = failure(404, "NotFound"), Say({"kind": "APIResourceList"})
    assert await choose_events_api(Client(Script(old)), "auto") == "core"
    assert await choose_events_api(Client(script := Script(new)), "auto") == "events.k8s.io"
    assert script.targets == ["/apis/events.k8s.io/v1"]
    assert await choose_events_api(Client(Script()), "core") == "core"
    assert await choose_events_api(Client(Script()), "events.k8s.io") == "events.k8s.io"


async def check(script: Script, *selections: Selection[Any]) -> None:
    client = Client(script)
    await check_access(client, selections, Permissions(client))


def review(*, allowed: bool) -> Say:
    return Say({"kind": "SelfSubjectAccessReview", "status": {"allowed": allowed}}, status=201)


@pytest.mark.kcr_virtual
@pytest.mark.parametrize(("namespace", "where"), [("", "at the cluster scope"), ("web", 'in the namespace "web"')])
async def test_right_to_watch_that_is_missing_shows_at_once(namespace: str, where: str) -> None:
    # With `list` alone the watches would fail for ever.
    script = Script(Say({"items": []}), Say({"items": []}), review(allowed=True), review(allowed=False))
    words = f'^jobs.batch is forbidden: cannot watch resource "jobs" in API group "batch" {where}$'
    with pytest.raises(ForbiddenError, match=words) as caught:
        await check(script, Selection(Pod, namespace), Selection(Job, namespace))
    assert script.targets[2:] == [REVIEWS, REVIEWS]
    assert "ClusterRole" in explain_failure(caught.value, CONFIG)


@pytest.mark.kcr_virtual
async def test_selector_that_the_server_refuses_is_named_with_its_kind() -> None:
    refused = failure(400, "BadRequest", "unable to parse requirement")
    said = r"^the API server refuses the selection pods in web \(app in \(a\)\): unable to parse requirement: correct"
    with pytest.raises(ConfigError, match=said):
        await check(Script(refused), Selection(Pod, "web", labels="app in (a)"))


@pytest.mark.kcr_virtual
async def test_server_without_access_reviews_is_taken_as_it_is() -> None:
    answers = (Say(b"404 page not found\n", status=404), failure(403, "Forbidden"), Say(b"<html>"))
    for answer in answers:
        await check(Script(Say({"items": []}), answer), Selection(Pod))


@pytest.mark.kcr_virtual
async def test_kind_that_is_not_installed_stops_nothing() -> None:  # CM-13
    script = Script(failure(404, "NotFound"), Say({"items": []}), review(allowed=True))
    await check(script, Selection(Job), Selection(Pod))
    assert script.targets[2:] == [REVIEWS]


@pytest.mark.kcr_virtual
async def test_object_that_does_not_fit_its_type_is_no_obstacle() -> None:
    page = Say({"items": [{"metadata": {"name": 5}}]})
    await check(Script(page, review(allowed=True)), Selection(Pod))


LEASE = Key("ops", "kcr")


@pytest.mark.kcr_virtual
@pytest.mark.parametrize(
    ("allowed", "verbs"),
    [
        pytest.param((False, False), "get, update", id="neither"),
        pytest.param((True, False), "update", id="read-only"),
        pytest.param((False, True), "get", id="write-only"),
    ],
)
async def test_lease_that_cannot_be_renewed_shows_at_once(allowed: tuple[bool, bool], verbs: str) -> None:
    script = Script(*(review(allowed=one) for one in allowed))
    words = (
        f'^leases.coordination.k8s.io "kcr" is forbidden: cannot {verbs} resource "leases" in API group '
        '"coordination.k8s.io" in the namespace "ops", and leader election needs it$'
    )
    with pytest.raises(ForbiddenError, match=words):
        await check_lease(Permissions(Client(script)), LEASE)
    # A role may name the Lease.
    assert all(json.loads(request.body)["spec"]["resourceAttributes"]["name"] == "kcr" for request in script.requests)


@pytest.mark.kcr_virtual
async def test_lease_that_can_be_renewed_is_no_obstacle() -> None:
    # Whether it may be created does not matter where it is.
    await check_lease(Permissions(Client(Script(review(allowed=True), review(allowed=True)))), LEASE)
    await check_lease(Permissions(Client(Script(failure(404), failure(404)))), LEASE)


def rules(*verbs: str) -> Say:
    rule = {"verbs": verbs, "apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    return Say({"status": {"resourceRules": [rule], "incomplete": False}}, status=201)


@pytest.mark.kcr_virtual
async def test_lease_rights_that_are_missing_are_named_together() -> None:
    script = Script(rules("get", "update"), review(allowed=False), review(allowed=False), review(allowed=False))
    words = '^cannot create, list, watch leases.coordination.k8s.io in the namespace "ops", and sharding needs it$'
    with pytest.raises(ForbiddenError, match=words):
        await check_shard_leases(Permissions(Client(script)), "ops")


@pytest.mark.kcr_virtual
async def test_right_to_delete_a_sign_of_life_is_not_needed() -> None:
    await check_shard_leases(Permissions(Client(Script(rules("list", "watch", "create", "update")))), "ops")
