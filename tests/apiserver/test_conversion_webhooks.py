"""Custom resources that a webhook converts between versions.

Source: kubernetes/staging/src/k8s.io/apiextensions-apiserver/test/integration/conversion/conversion_test.go;
pkg/apiserver/conversion/webhook_converter.go; kubernetes/test/e2e/apimachinery/crd_conversion_webhook.go.
"""

import asyncio

import pytest

from tests.kit.api import TABLE, Api
from tests.kit.conversion_webhooks import V1, V2, Converter, install, redefine, replace_webhook, v1, v2
from tests.kit.custom_resources import DEFINITIONS, Json
from tests.kit.webhooks import Webhooks, json_patch

pytestmark = pytest.mark.kcr_virtual
FAILED = "conversion webhook for ex.io/v1, Kind=Widget failed: "


async def test_every_version_shows_what_was_written_in_any(api: Api) -> None:
    await install(api)
    assert (await api.post(V1, v1("one")))["spec"] == {"host": "a", "port": 1}
    assert (await api.post(V2, v2("two", {"address": "b:2"})))["spec"] == {"address": "b:2"}
    shown = {one["metadata"]["name"]: one["spec"] for one in (await api.get(V2))["items"]}
    assert shown == {"one": {"address": "a:1"}, "two": {"address": "b:2"}}
    assert (await api.get(f"{V1}/two"))["spec"] == {"host": "b", "port": 2}
    assert (await api.get(f"{V2}/one"))["apiVersion"] == "ex.io/v2"


async def test_list_is_one_review_of_the_objects_in_other_versions(api: Api) -> None:
    converter = await install(api)
    for name in "abc":
        await api.post(V1, v1(name))
    await api.get(V1)
    assert converter.reviews == []
    await api.get(V2)
    (review,) = converter.reviews
    assert [one["metadata"]["name"] for one in review["objects"]] == ["a", "b", "c"]
    assert (review["desiredAPIVersion"], review["target"]) == ("ex.io/v2", "/convert?timeout=30s")
    assert all("resourceVersion" not in one["metadata"] for one in review["objects"])


async def test_mixed_storage_versions_are_read_in_any_version(api: Api) -> None:
    converter = await install(api)
    await api.post(V1, v1("old"))
    await redefine(api, "v2")
    await api.post(V1, v1("new", {"host": "n", "port": 9}))
    converter.reviews.clear()
    shown = {one["metadata"]["name"]: one["spec"] for one in (await api.get(V2))["items"]}
    assert shown == {"old": {"address": "a:1"}, "new": {"address": "n:9"}}
    assert [one["metadata"]["name"] for one in converter.reviews[0]["objects"]] == ["old"]
    converter.reviews.clear()
    shown = {one["metadata"]["name"]: one["spec"] for one in (await api.get(V1))["items"]}
    assert shown == {"old": {"host": "a", "port": 1}, "new": {"host": "n", "port": 9}}
    assert [one["metadata"]["name"] for one in converter.reviews[0]["objects"]] == ["new"]


async def test_write_that_changes_nothing_stores_the_new_version(api: Api) -> None:
    converter = await install(api)
    old = await api.post(V1, v1("w"))
    await redefine(api, "v2")
    new = await api.put(f"{V1}/w", old)
    assert new["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"]
    assert new["spec"] == old["spec"]
    converter.reviews.clear()
    await api.get(f"{V2}/w")
    assert converter.reviews == []
    # Now it is there, and nothing is stored.
    assert await api.patch(f"{V1}/w", {}) == new


@pytest.mark.parametrize("verb", ["put", "patch", "json-patch", "apply"])
async def test_writes_through_another_version_are_stored_converted(api: Api, verb: str) -> None:
    await install(api)
    made = await api.post(V1, v1("w", {"host": "a", "port": 1, "replicas": 3}))
    given = v2("w", {"address": "b:2", "size": 4})
    given["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
    match verb:
        case "put":
            found = await api.put(f"{V2}/w", given)
        case "patch":
            found = await api.patch(f"{V2}/w", {"spec": given["spec"]})
        case "json-patch":
            steps = [{"op": "replace", "path": "/spec", "value": given["spec"]}]
            found = await api.patch(f"{V2}/w", steps, "json-patch")
        case _:
            found = (await api.apply(f"{V2}/w", v2("w", given["spec"]), query="force=true")).body
    assert found["spec"] == {"address": "b:2", "size": 4}
    assert (found["apiVersion"], found["metadata"]["generation"]) == ("ex.io/v2", 2)
    assert (await api.get(f"{V1}/w"))["spec"] == {"host": "b", "port": 2, "replicas": 4}


async def test_subresources_are_written_in_any_version(api: Api) -> None:
    await install(api)
    await api.post(V1, v1("w", {"host": "a", "port": 1, "replicas": 3}))
    assert (await api.get(f"{V2}/w/scale"))["spec"] == {"replicas": 3}
    found = await api.patch(f"{V2}/w/scale", {"spec": {"replicas": 5}})
    assert found["spec"] == {"replicas": 5}
    found = await api.patch(f"{V2}/w/status", {"status": {"ready": 2}})
    assert (found["spec"], found["status"]) == ({"address": "a:1", "size": 5}, {"ready": 2})
    assert (await api.get(f"{V1}/w"))["spec"] == {"host": "a", "port": 1, "replicas": 5}
    scale: Json = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w"}, "spec": {"replicas": 6}}
    assert (await api.apply(f"{V2}/w/scale", scale, query="force=true")).body["spec"] == {"replicas": 6}
    assert (await api.get(f"{V1}/w"))["spec"]["replicas"] == 6


async def test_watch_shows_events_converted_and_in_order(api: Api) -> None:
    converter = await install(api)
    await api.post(V1, v1("a"))
    watch = await api.watch(f"{V2}?allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&")
    assert (await watch.next())["object"]["spec"] == {"address": "a:1"}
    assert (await watch.next())["type"] == "BOOKMARK"
    converter.reviews.clear()
    await api.post(V1, v1("b"))
    await api.patch(f"{V1}/b", {"spec": {"port": 7}})
    gone = await api.delete(f"{V1}/b")
    events = [await watch.next() for _ in range(3)]
    assert [(one["type"], one["object"]["spec"]["address"]) for one in events] == [
        ("ADDED", "a:1"), ("MODIFIED", "a:7"), ("DELETED", "a:7"),
    ]  # fmt: skip
    versions = [int(one["object"]["metadata"]["resourceVersion"]) for one in events]
    assert versions == sorted(set(versions)), gone


async def test_changes_that_wait_are_one_review(api: Api) -> None:
    converter = await install(api)
    watch = await api.watch(f"{V2}?")
    for number in range(20):
        await api.post(V1, v1(f"w{number}"))
    assert converter.reviews == []
    assert len(await watch.take(20)) == 20
    assert len(converter.reviews) == 1


async def test_watch_ends_with_an_error_where_conversion_fails(api: Api) -> None:
    converter = await install(api)
    watch = await api.watch(f"{V2}?")
    await api.post(V1, v1("good"))
    await api.post(V1, v1("bad"))
    await api.post(V1, v1("late"))

    def refuse(review: Json) -> Json:
        if any(one["metadata"]["name"] == "bad" for one in review["response"]["convertedObjects"]):
            review["response"]["result"] = {"status": "Failure", "message": "bad is bad"}
        return review

    converter.change = refuse
    assert (await watch.next())["object"]["metadata"]["name"] == "good"
    error = await watch.next()
    assert (error["type"], error["object"]["message"]) == ("ERROR", f"{FAILED}bad is bad")
    assert (error["object"]["code"], error["object"]["reason"]) == (500, "InternalError")
    with pytest.raises(StopAsyncIteration):
        await watch.next()
    assert api.server.open_watches == 0


async def test_reader_that_is_cancelled_misses_nothing(api: Api) -> None:
    converter = await install(api)

    async def slow(target: str, body: bytes, seconds: float) -> tuple[int, bytes]:
        await asyncio.sleep(1)
        return await converter(target, body, seconds)

    replace_webhook(api, slow)
    watch = await api.watch(f"{V2}?")
    await api.post(V1, v1("a"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await watch.next()
    await api.post(V1, v1("b"))
    assert await watch.take(2) == [("ADDED", "a"), ("ADDED", "b")]


async def test_selectors_match_the_version_that_is_requested(api: Api) -> None:
    converter = await install(api, v2={"selectableFields": [{"jsonPath": ".spec.address"}]})

    def label(review: Json) -> Json:
        for one in review["response"]["convertedObjects"]:
            one["metadata"]["labels"] = {"version": one["apiVersion"].partition("/")[2]}
        return review

    converter.change = label
    await api.post(V1, v1("a"))
    await api.post(V1, v1("b", {"host": "b", "port": 2}))
    listed = (await api.get(f"{V2}?fieldSelector=spec.address=b:2"))["items"]
    assert [one["metadata"]["name"] for one in listed] == ["b"]
    assert len((await api.get(f"{V2}?labelSelector=version=v2"))["items"]) == 2
    assert (await api.get(f"{V1}?labelSelector=version=v2"))["items"] == []
    watch = await api.watch(f"{V2}?fieldSelector=spec.address=b:2&")
    assert await watch.take(1) == [("ADDED", "b")]
    await api.patch(f"{V1}/a", {"spec": {"host": "b", "port": 2}})
    await api.patch(f"{V1}/b", {"spec": {"host": "c"}})
    assert await watch.take(2) == [("ADDED", "a"), ("DELETED", "b")]
    assert (await api.call("GET", f"{V1}?fieldSelector=spec.address=b:2")).status == 400


async def test_tables_and_metadata_are_of_the_requested_version(api: Api) -> None:
    columns = {"additionalPrinterColumns": [{"name": "Address", "type": "string", "jsonPath": ".spec.address"}]}
    await install(api, v2=columns)
    await api.post(V1, v1("a"))
    assert [row["cells"] for row in (await api.get(V2, accept=TABLE))["rows"]] == [["a", "a:1"]]
    partial = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    assert [one["metadata"]["name"] for one in (await api.get(V2, accept=partial))["items"]] == ["a"]
    watch = await api.watch(f"{V2}?", accept=TABLE)
    assert (await watch.next())["object"]["rows"][0]["cells"] == ["a", "a:1"]


async def test_create_draws_its_uid_and_name_once(api: Api) -> None:
    converter = await install(api)
    body = v2("")
    body["metadata"] = {"generateName": "w-"}
    made = await api.post(V2, body)
    named = [one["objects"][0]["metadata"] for one in converter.reviews]
    assert {one["uid"] for one in named} == {made["metadata"]["uid"]}
    assert {one["name"] for one in named} == {made["metadata"]["name"]}
    assert len(converter.reviews) == 2


async def test_object_that_changes_meanwhile_loses_no_write(api: Api) -> None:
    converter = await install(api)
    await api.post(V1, v1("w", {"host": "a", "port": 1, "replicas": 0}))
    gate, real = asyncio.Event(), converter.__call__

    async def slow(target: str, body: bytes, seconds: float) -> tuple[int, bytes]:
        await gate.wait()
        return await real(target, body, seconds)

    replace_webhook(api, slow)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(api.patch(f"{V2}/w", {"spec": {"size": 5}}))
        await asyncio.sleep(0)
        await api.patch(f"{V1}/w", {"spec": {"host": "b"}})
        gate.set()
    assert task.result()["spec"] == {"address": "b:1", "size": 5}
    assert (await api.get(f"{V1}/w"))["spec"] == {"host": "b", "port": 1, "replicas": 5}


async def test_read_of_a_busy_object_is_answered(api: Api) -> None:
    converter = await install(api)
    await api.post(V1, v1("w"))
    real = converter.__call__

    async def busy(target: str, body: bytes, seconds: float) -> tuple[int, bytes]:
        number = len(converter.reviews)
        await api.patch(f"{V1}/w", {"spec": {"port": number + 10}})
        return await real(target, body, seconds)

    replace_webhook(api, busy)
    assert (await api.get(f"{V2}/w"))["spec"] == {"address": "a:1"}
    assert (await api.get(V2))["items"][0]["spec"] == {"address": "a:10"}
    assert len(converter.reviews) == 2


async def test_definition_that_changes_meanwhile_is_used_anew(api: Api) -> None:
    converter = await install(api)
    await api.post(V1, v1("w"))
    real = converter.__call__

    async def redefining(target: str, body: bytes, seconds: float) -> tuple[int, bytes]:
        replace_webhook(api, real)
        await redefine(api, "v2")
        return await real(target, body, seconds)

    replace_webhook(api, redefining)
    await api.patch(f"{V2}/w", {"spec": {"size": 5}})
    converter.reviews.clear()
    assert (await api.get(f"{V2}/w"))["spec"] == {"address": "a:1", "size": 5}
    assert converter.reviews == []


async def test_dry_run_shows_what_would_be_stored(api: Api) -> None:
    await install(api)
    found = await api.post(f"{V2}?dryRun=All", v2("w", {"address": "a:1", "unknown": 2}))
    assert (found["spec"], "resourceVersion" in found["metadata"]) == ({"address": "a:1"}, False)
    assert (await api.get(V1))["items"] == []


async def test_collection_is_deleted_through_any_version(api: Api) -> None:
    await install(api)
    for name in "ab":
        await api.post(V1, v1(name))
    await api.patch(f"{V1}/a", {"metadata": {"finalizers": ["ex.io/hold"]}})
    found = await api.delete(V2)
    assert [(one["metadata"]["name"], one["spec"]) for one in found["items"]] == [
        ("a", {"address": "a:1"}), ("b", {"address": "a:1"}),
    ]  # fmt: skip
    (left,) = (await api.get(V2))["items"]
    assert (left["metadata"]["name"], "deletionTimestamp" in left["metadata"]) == ("a", True)
    await api.patch(f"{V2}/a", {"metadata": {"finalizers": None}})
    assert (await api.get(V1))["items"] == []


async def test_definition_is_deleted_though_its_webhook_fails(api: Api) -> None:
    converter = await install(api)
    await api.post(V1, v1("w", finalizers=["x"]))
    await api.patch(f"{V1}/w", {"metadata": {"finalizers": ["ex.io/hold"]}})
    await redefine(api, "v2")
    converter.status = 500
    await api.delete(f"{DEFINITIONS}/widgets.ex.io")
    found = await api.get(f"{V1}/w")
    assert "deletionTimestamp" in found["metadata"]
    converter.status = 200
    await api.patch(f"{V1}/w", {"metadata": {"finalizers": None}})
    assert (await api.call("GET", f"{DEFINITIONS}/widgets.ex.io")).status == 404


async def test_unserved_versions_are_converted_from(api: Api) -> None:
    await install(api)
    await api.post(V1, v1("w"))
    await redefine(api, "v2", v1={"served": False})
    assert (await api.call("GET", f"{V1}/w")).status == 404
    assert (await api.get(f"{V2}/w"))["spec"] == {"address": "a:1"}


async def test_version_that_was_removed_too_early_is_named(api: Api) -> None:
    await install(api)
    await api.post(V1, v1("w"))
    await redefine(api, "v2")
    path = f"{DEFINITIONS}/widgets.ex.io"
    await api.patch(f"{path}/status", {"status": {"storedVersions": ["v2"]}})
    versions = (await api.get(path))["spec"]["versions"]
    await api.patch(path, {"spec": {"versions": [one for one in versions if one["name"] == "v2"]}})
    reply = await api.call("GET", f"{V2}/w")
    words = "request to convert CR from an invalid group/version: ex.io/v1"
    assert (reply.status, reply.body["message"]) == (500, words)


async def test_silent_webhook_ends_the_request_in_time(api: Api) -> None:
    await install(api)
    await api.post(V1, v1("w"))
    delay = 1000.0

    async def slow(target: str, body: bytes, seconds: float) -> tuple[int, bytes]:
        await asyncio.sleep(delay)
        return await Converter()(target, body, seconds)

    replace_webhook(api, slow)
    reply = await api.call("GET", f"{V2}/w")
    url = "https://converter.default.svc:443/convert?timeout=30s"
    assert reply.body["message"] == f'{FAILED}Post "{url}": context deadline exceeded'
    # It answers, but a write needs several answers.
    delay = 25.0
    reply = await api.call("PATCH", f"{V2}/w", {"spec": {"size": 3}}, content_type="application/merge-patch+json")
    assert (reply.status, reply.body["reason"]) == (504, "Timeout")


async def test_pages_of_a_list_are_converted_one_by_one(api: Api) -> None:
    converter = await install(api)
    for number in range(5):
        await api.post(V1, v1(f"w{number}"))
    names, more = [], ""
    while True:
        page = await api.get(f"{V2}?limit=2&continue={more}")
        names += [one["metadata"]["name"] for one in page["items"]]
        more = page["metadata"].get("continue", "")
        if not more:
            break
    assert names == [f"w{number}" for number in range(5)]
    assert [len(review["objects"]) for review in converter.reviews] == [2, 2, 1]


async def test_large_lists_are_several_reviews(api: Api) -> None:
    converter = await install(api)
    for number in range(5):
        await api.post(V1, v1(f"w{number}", {"host": "h" * 1_000_000, "port": number}))
    assert len((await api.get(V2))["items"]) == 5
    assert [len(review["objects"]) for review in converter.reviews] == [3, 2]


async def test_admission_reviews_the_version_of_its_rules(api: Api) -> None:
    converter = await install(api)
    webhooks = Webhooks(api)
    webhooks.caller.handlers["default/converter"] = converter
    rules = [{"operations": ["*"], "apiGroups": ["ex.io"], "apiVersions": ["v2"], "resources": ["widgets"]}]
    patch = json_patch({"op": "replace", "path": "/spec/address", "value": "patched:9"})
    await webhooks.add("Mutating", "changes", lambda request: patch, rules=rules)
    await webhooks.add("Validating", "sees", rules=rules)
    made = await api.post(V1, v1("w", {"host": "a", "port": 1, "replicas": 2}))
    assert (made["apiVersion"], made["spec"]) == ("ex.io/v1", {"host": "patched", "port": 9, "replicas": 2})
    (request,) = webhooks.requests["sees"]
    assert request["object"]["spec"] == {"address": "patched:9", "size": 2}
    assert (request["requestKind"]["version"], request["kind"]["version"]) == ("v1", "v2")
    assert len(webhooks.requests["changes"]) == 1


async def test_defaults_are_those_of_the_version_that_is_written_and_stored(api: Api) -> None:
    converter = await install(api, v1=_with_default("v1"), v2=_with_default("v2"))
    assert (await api.post(V1, v1("one")))["defaults"] == {"v1": True}
    # The storage version adds its own when the object is read again.
    assert (await api.post(V2, v2("two")))["defaults"] == {"v1": True, "v2": True}
    assert (await api.get(f"{V2}/one"))["defaults"] == {"v1": True}
    assert (await api.get(f"{V1}/two"))["defaults"] == {"v1": True, "v2": True}
    assert converter.reviews


def _with_default(name: str) -> Json:
    defaults: Json = {"type": "object", "default": {}, "properties": {one: {"type": "boolean"} for one in ("v1", "v2")}}
    defaults["properties"][name]["default"] = True
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema: Json = {"type": "object", "properties": {"spec": anything, "defaults": defaults}}
    return {"schema": {"openAPIV3Schema": schema}}
