"""Definitions: established, in conflict, changed and deleted, and what is served meanwhile.

Source: api-server §21; kubernetes/staging/src/k8s.io/apiextensions-apiserver/test/integration.
"""

import asyncio

import pytest

from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.testing.loop import VirtualClock
from tests.kit.api import Api, exists, owner
from tests.kit.custom_resources import (
    DEFINITIONS,
    WIDGETS,
    conditions_of,
    definition,
    spec_schema,
    version,
    widget,
)

pytestmark = pytest.mark.kcr_virtual
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SIZED = spec_schema({"size": {"type": "integer"}})


async def test_definition_is_established_by_an_event_of_its_own(api: Api) -> None:
    watch = await api.watch(f"{DEFINITIONS}?")
    created = await api.post(DEFINITIONS, definition(version("v1", SIZED)))
    assert created["status"] == {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": ["v1"],
    }
    assert created["spec"]["names"] == {
        "plural": "widgets",
        "kind": "Widget",
        "singular": "widget",
        "listKind": "WidgetList",
    }
    assert created["spec"]["conversion"] == {"strategy": "None"}
    assert (await watch.next())["type"] == "ADDED"
    event = await watch.next()
    assert event["type"] == "MODIFIED"
    assert conditions_of(event["object"]) == {
        "NamesAccepted": ("True", "NoConflicts"),
        "Established": ("True", "InitialNamesAccepted"),
    }
    assert event["object"]["metadata"]["generation"] == 1


async def test_discovery_follows_definitions_at_once(api: Api) -> None:
    aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    before = await api.call("GET", "/apis", accept=aggregated)
    beta = version("v1beta1", SIZED, storage=False)
    await api.post(DEFINITIONS, definition(beta, version("v1", SIZED, subresources={"status": {}}), shortNames=["wg"]))
    after = await api.call("GET", "/apis", accept=aggregated)
    assert after.headers["ETag"] != before.headers["ETag"]
    group = next(one for one in after.body["items"] if one["metadata"]["name"] == "ex.io")
    assert [one["version"] for one in group["versions"]] == ["v1", "v1beta1"]
    listed = await api.get("/apis/ex.io/v1")
    assert [one["name"] for one in listed["resources"]] == ["widgets", "widgets/status"]
    assert listed["resources"][0]["verbs"] == [
        "delete", "deletecollection", "get", "list", "patch", "create", "update", "watch",
    ]  # fmt: skip
    assert listed["resources"][0]["shortNames"] == ["wg"]
    index = await api.get("/openapi/v3")
    assert "apis/ex.io/v1" in index["paths"]
    await api.delete(f"{DEFINITIONS}/widgets.ex.io")
    for path in ("/apis/ex.io", "/apis/ex.io/v1", WIDGETS):
        gone = await api.call("GET", path)
        assert (gone.status, gone.body) == (404, b"404 page not found\n")


@pytest.mark.parametrize(
    ("names", "reason", "message"),
    [
        pytest.param({"kind": "Widget"}, "ListKindConflict", '"WidgetList" is already in use', id="kind"),
        pytest.param({"kind": "A", "listKind": "WidgetList"}, "ListKindConflict", '"WidgetList" is', id="list-kind"),
        pytest.param({"kind": "A", "singular": "widget"}, "SingularConflict", '"widget" is already', id="singular"),
        pytest.param({"kind": "A", "shortNames": ["wg"]}, "ShortNamesConflict", '"wg" is already', id="short-name"),
    ],
)
async def test_second_claim_of_a_name_waits_until_it_is_free(
    api: Api, names: Manifest, reason: str, message: str
) -> None:
    await api.post(DEFINITIONS, definition(version("v1", SIZED), shortNames=["wg"]))
    await api.post(DEFINITIONS, definition(version("v1", SIZED), **{"plural": "as", **names}))
    refused = await api.get(f"{DEFINITIONS}/as.ex.io")
    assert conditions_of(refused)["Established"] == ("False", "NotAccepted")
    (condition,) = (one for one in refused["status"]["conditions"] if one["type"] == "NamesAccepted")
    assert (condition["status"], condition["reason"]) == ("False", reason)
    assert condition["message"].startswith(message)
    assert (await api.call("GET", "/apis/ex.io/v1/namespaces/default/as")).status == 404
    await api.delete(f"{DEFINITIONS}/widgets.ex.io")
    assert conditions_of(await api.get(f"{DEFINITIONS}/as.ex.io"))["Established"] == ("True", "InitialNamesAccepted")
    assert (await api.get("/apis/ex.io/v1/namespaces/default/as"))["items"] == []


async def test_deletion_waits_for_the_finalizers_of_objects(api: Api) -> None:
    await api.post(DEFINITIONS, definition(version("v1", SIZED)))
    await api.post(WIDGETS, widget("free", {}))
    held = widget("held", {})
    held["metadata"]["finalizers"] = ["ex.io/mine"]
    await api.post(WIDGETS, held)
    watch = await api.watch(f"{WIDGETS}?")
    await watch.take(2)
    deleted = await api.delete(f"{DEFINITIONS}/widgets.ex.io")
    assert deleted["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    crd = await api.get(f"{DEFINITIONS}/widgets.ex.io")
    assert conditions_of(crd)["Terminating"] == ("True", "InstanceDeletionInProgress")
    assert [one["metadata"]["name"] for one in (await api.get(WIDGETS))["items"]] == ["held"]
    refused = await api.call("POST", WIDGETS, widget("new", {}))
    assert refused.status == 403
    assert refused.body["message"] == (
        'widgets.ex.io "new" is forbidden: create not allowed while custom resource definition is terminating'
    )
    await api.patch(f"{WIDGETS}/held", {"metadata": {"finalizers": None}})
    assert (await api.call("GET", f"{DEFINITIONS}/widgets.ex.io")).status == 404
    assert await watch.take(3) == [("DELETED", "free"), ("MODIFIED", "held"), ("DELETED", "held")]
    with pytest.raises(StopAsyncIteration):
        await watch.next()


async def test_definition_made_again_begins_without_objects(api: Api) -> None:
    await api.post(DEFINITIONS, definition(version("v1", SIZED)))
    old = await api.post(WIDGETS, widget("a", {}))
    await api.delete(f"{DEFINITIONS}/widgets.ex.io")
    await api.post(DEFINITIONS, definition(version("v1", SIZED)))
    assert (await api.get(WIDGETS))["items"] == []
    watch = await api.watch(f"{WIDGETS}?resourceVersion={old['metadata']['resourceVersion']}&")
    assert (await watch.next())["object"]["reason"] == "Expired"


async def test_version_no_longer_served_ends_its_watches(api: Api) -> None:
    two = [version("v1", SIZED), version("v1beta1", SIZED, storage=False)]
    await api.post(DEFINITIONS, definition(*two))
    await api.post(WIDGETS, widget("a", {}))
    watch = await api.watch("/apis/ex.io/v1beta1/namespaces/default/widgets?")
    assert (await watch.next())["object"]["apiVersion"] == "ex.io/v1beta1"
    await api.patch(f"{DEFINITIONS}/widgets.ex.io", {"spec": {"versions": [two[0], {**two[1], "served": False}]}})
    with pytest.raises(StopAsyncIteration):
        await watch.next()
    assert (await api.call("GET", "/apis/ex.io/v1beta1/namespaces/default/widgets")).body == b"404 page not found\n"
    assert len((await api.get(WIDGETS))["items"]) == 1


@pytest.mark.parametrize("is_deleted", [True, False], ids=["deleted", "changed"])
async def test_watch_that_waits_for_a_version_ends_with_its_definition(api: Api, is_deleted: bool) -> None:
    created = await api.post(DEFINITIONS, definition(version("v1", SIZED)))
    path, changed = f"{DEFINITIONS}/{created['metadata']['name']}", [version("v1", {"type": "object"})]
    revision = int((await api.get(WIDGETS))["metadata"]["resourceVersion"]) + 1
    options = f"sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion={revision}"
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(api.watch(f"{WIDGETS}?{options}&"))
        await asyncio.sleep(0)
        await (api.delete(path) if is_deleted else api.patch(path, {"spec": {"versions": changed}}))
    with pytest.raises(StopAsyncIteration):
        await waiting.result().next()


async def test_read_that_waits_for_a_version_ends_with_its_definition(api: Api) -> None:
    created = await api.post(DEFINITIONS, definition(version("v1", SIZED)))
    revision = int((await api.get(WIDGETS))["metadata"]["resourceVersion"]) + 1
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(api.call("GET", f"{WIDGETS}?resourceVersion={revision}"))
        await asyncio.sleep(0)
        await api.delete(f"{DEFINITIONS}/{created['metadata']['name']}")
    assert waiting.result().status == 404


async def test_changed_schema_applies_to_what_is_stored(api: Api) -> None:
    await api.post(DEFINITIONS, definition(version("v1", SIZED)))
    before = await api.post(WIDGETS, widget("a", {"size": 3}))
    schema = spec_schema({"color": {"type": "string", "default": "red"}})
    await api.patch(f"{DEFINITIONS}/widgets.ex.io", {"spec": {"versions": [version("v1", schema)]}})
    after = await api.get(f"{WIDGETS}/a")
    assert after["spec"] == {"color": "red"}
    assert after["metadata"] == before["metadata"]


async def test_versions_show_the_same_objects(api: Api) -> None:
    old_schema = spec_schema({"size": {"type": "integer", "maximum": 5}, "old": {"type": "string"}})
    beta = version("v1beta1", old_schema, storage=False, deprecated=True)
    await api.post(DEFINITIONS, definition(version("v1", SIZED), beta))
    old = "/apis/ex.io/v1beta1/namespaces/default/widgets"
    reply = await api.call("POST", old, {**widget("a", {"size": 9}), "apiVersion": "ex.io/v1beta1"})
    assert (reply.status, reply.headers["Warning"]) == (422, '299 - "ex.io/v1beta1 Widget is deprecated"')
    await api.post(WIDGETS, widget("b", {"size": 9}))
    created = await api.post(old, {**widget("a", {"size": 4, "old": "x"}), "apiVersion": "ex.io/v1beta1"})
    assert created["apiVersion"] == "ex.io/v1beta1"
    new = await api.get(f"{WIDGETS}/a")
    assert new == {**created, "apiVersion": "ex.io/v1", "spec": {"size": 4}}
    assert [one["apiVersion"] for one in (await api.get(old))["items"]] == ["ex.io/v1beta1"] * 2
    await api.patch(f"{old}/a", {"spec": {"size": 5}})
    assert (await api.get(f"{WIDGETS}/a"))["spec"] == {"size": 5}
    refused = await api.call("PATCH", f"{old}/a", {"spec": {"size": 6}}, content_type="application/merge-patch+json")
    assert refused.body["details"]["causes"][0]["field"] == "spec.size"


async def test_storage_version_changes_without_a_new_object(api: Api) -> None:
    await api.post(DEFINITIONS, definition(version("v1beta1", SIZED)))
    old = "/apis/ex.io/v1beta1/namespaces/default/widgets"
    before = await api.post(old, {**widget("a", {"size": 1}), "apiVersion": "ex.io/v1beta1"})
    both = [version("v1beta1", SIZED, storage=False), version("v1", SIZED)]
    crd = await api.patch(f"{DEFINITIONS}/widgets.ex.io", {"spec": {"versions": both}})
    assert crd["status"]["storedVersions"] == ["v1beta1", "v1"]
    assert await api.get(f"{WIDGETS}/a") == {**before, "apiVersion": "ex.io/v1"}
    assert await api.get(f"{old}/a") == before
    refused = await api.call(
        "PATCH", f"{DEFINITIONS}/widgets.ex.io", {"spec": {"versions": both[1:]}},
        content_type="application/merge-patch+json",
    )  # fmt: skip
    assert refused.body["message"].startswith(
        'CustomResourceDefinition.apiextensions.k8s.io "widgets.ex.io" is invalid: status.storedVersions[0]: Invalid '
        'value: "v1beta1": missing from spec.versions; v1beta1 was previously a storage version'
    )


@pytest.mark.collects
async def test_dependents_of_custom_resources_are_collected(kcr_clock: VirtualClock, api: Api) -> None:
    await api.post(DEFINITIONS, definition(version("v1", SIZED)))
    parent = await api.post(WIDGETS, widget("parent"))
    child = widget("child")
    child["metadata"]["ownerReferences"] = [owner(parent)]
    await api.post(WIDGETS, child)
    data = {"metadata": {"name": "data", "ownerReferences": [owner(parent)]}}
    await api.post(CONFIG_MAPS, data)
    await kcr_clock.advance(1)
    await api.delete(f"{WIDGETS}/parent")
    await kcr_clock.advance(1)
    assert not await exists(api, f"{WIDGETS}/child")
    assert not await exists(api, f"{CONFIG_MAPS}/data")


@pytest.mark.collects
async def test_dependents_outlive_neither_definition_nor_owner(kcr_clock: VirtualClock, api: Api) -> None:
    await api.post(DEFINITIONS, definition(version("v1", SIZED)))
    parent = await api.post(WIDGETS, widget("parent"))
    await api.post(CONFIG_MAPS, {"metadata": {"name": "data", "ownerReferences": [owner(parent)]}})
    await api.delete(f"{DEFINITIONS}/widgets.ex.io")
    await kcr_clock.advance(30)
    assert not await exists(api, f"{CONFIG_MAPS}/data")


@pytest.mark.collects
async def test_namespace_takes_its_custom_resources_along(kcr_clock: VirtualClock, api: Api) -> None:
    await api.post(DEFINITIONS, definition(version("v1", SIZED)))
    await api.post("/api/v1/namespaces", {"metadata": {"name": "n"}})
    await api.post("/apis/ex.io/v1/namespaces/n/widgets", widget("a", {}))
    await api.delete("/api/v1/namespaces/n")
    await kcr_clock.advance(10)
    assert not await exists(api, "/api/v1/namespaces/n")
    assert (await api.get("/apis/ex.io/v1/widgets"))["items"] == []


async def test_quota_counts_custom_resources(api: Api) -> None:
    await api.post(DEFINITIONS, definition(version("v1", SIZED)))
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"count/widgets.ex.io": "1"}}}
    await api.post("/api/v1/namespaces/default/resourcequotas", quota)
    await api.post(WIDGETS, widget("a", {}))
    refused = await api.call("POST", WIDGETS, widget("b", {}))
    assert (refused.status, refused.body["reason"]) == (403, "Forbidden")
