"""WATCH: where it begins, what it tells, how it ends.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/storage/cacher.
"""

import asyncio
import random
from contextlib import aclosing
from typing import Any

import pytest

from kcr_devcluster.apiserver import APIServer, Storage
from kcr_devcluster.apiserver.server import HTTPRequest
from kcr_devcluster.testing.loop import VirtualClock
from tests.kit.api import TABLE, Api, Events, config_map, pod

pytestmark = pytest.mark.kcr_virtual
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
WATCH_LIST = f"{CONFIG_MAPS}?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&"


async def version(api: Api) -> str:
    answer = await api.get(CONFIG_MAPS)
    return str(answer["metadata"]["resourceVersion"])


async def test_watch_tells_what_came_after_the_list(api: Api) -> None:
    events = await api.watch(f"{CONFIG_MAPS}?resourceVersion={await version(api)}&")
    await api.post(CONFIG_MAPS, config_map("a"))
    await api.patch(f"{CONFIG_MAPS}/a", {"data": {"a": "2"}})
    await api.delete(f"{CONFIG_MAPS}/a")
    seen = [await events.next() for _ in range(3)]
    assert [event["type"] for event in seen] == ["ADDED", "MODIFIED", "DELETED"]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in seen]
    assert versions == sorted(set(versions))
    assert seen[0]["object"]["kind"] == "ConfigMap"
    assert seen[2]["object"]["data"] == {"a": "2"}
    await events.close()


async def test_watch_from_the_past_catches_up(api: Api) -> None:
    start = await version(api)
    await api.post(CONFIG_MAPS, config_map("a"))
    events = await api.watch(f"{CONFIG_MAPS}?resourceVersion={start}&")
    await api.post(CONFIG_MAPS, config_map("b"))
    assert await events.take(2) == [("ADDED", "a"), ("ADDED", "b")]
    await events.close()


@pytest.mark.parametrize("query", ["", "resourceVersion=0&"])
async def test_watch_without_version_begins_with_the_state(api: Api, query: str) -> None:
    for name in "ba":
        await api.post(CONFIG_MAPS, config_map(name))
    events = await api.watch(f"{CONFIG_MAPS}?{query}")
    await api.post(CONFIG_MAPS, config_map("c"))
    assert await events.take(3) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]
    await events.close()


async def test_watch_list_ends_its_state_with_a_bookmark(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    events = await api.watch(WATCH_LIST)
    assert await events.take(1) == [("ADDED", "a")]
    bookmark = await events.next()
    assert bookmark == {
        "type": "BOOKMARK",
        "object": {
            "kind": "ConfigMap", "apiVersion": "v1",
            "metadata": {
                "resourceVersion": await version(api), "annotations": {"k8s.io/initial-events-end": "true"},
            },
        },
    }  # fmt: skip
    await events.close()


async def test_initial_events_refused_begin_from_now(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    events = await api.watch(f"{CONFIG_MAPS}?sendInitialEvents=false&resourceVersionMatch=NotOlderThan&")
    await api.post(CONFIG_MAPS, config_map("b"))
    assert await events.take(1) == [("ADDED", "b")]
    await events.close()


@pytest.mark.parametrize(
    "query", ["sendInitialEvents=true&", "resourceVersionMatch=NotOlderThan&", "resourceVersionMatch=Exact&"]
)
async def test_contradicting_options_are_refused(api: Api, query: str) -> None:
    reply = await api.call("GET", f"{CONFIG_MAPS}?{query}watch=1")
    assert reply.status == 422
    assert reply.body["details"]["causes"][0]["field"] == "resourceVersionMatch"


async def test_forgotten_version_is_an_error_event(api: Api, bare: Any) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    bare.storage.compact()
    events = await api.watch(f"{CONFIG_MAPS}?resourceVersion=2&")
    error = await events.next()
    assert (error["type"], error["object"]["code"], error["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert error["object"]["message"] == f"too old resource version: 2 ({bare.storage.revision})"
    with pytest.raises(StopAsyncIteration):
        await events.next()


async def test_future_version_is_waited_for_in_silence(api: Api, bare: Any) -> None:
    events = await api.watch(f"{CONFIG_MAPS}?resourceVersion={bare.storage.revision + 1}&")
    await api.post(CONFIG_MAPS, config_map("a"))
    await api.post(CONFIG_MAPS, config_map("b"))
    assert await events.take(1) == [("ADDED", "b")]
    await events.close()


async def test_future_version_is_waited_for_without_bookmarks(api: Api, bare: Any, kcr_clock: VirtualClock) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    events = await api.watch(f"{CONFIG_MAPS}?resourceVersion={bare.storage.revision + 2}&allowWatchBookmarks=true&")
    await kcr_clock.advance(130)
    for name in ("b", "c", "d"):
        await api.post(CONFIG_MAPS, config_map(name))
    assert await events.take(1) == [("ADDED", "d")]
    await kcr_clock.advance(60)
    assert (await events.next())["type"] == "BOOKMARK"
    await events.close()


async def test_future_version_with_initial_events_is_an_error(api: Api) -> None:
    events = await api.watch(f"{WATCH_LIST}resourceVersion=9999&")
    error = await events.next()
    assert (error["type"], error["object"]["code"]) == ("ERROR", 504)


@pytest.mark.parametrize("accept", ["application/json", "application/vnd.kubernetes.protobuf;type=watch"])
async def test_readers_send_a_change_before_its_writer_is_answered(
    api: Api, kcr_clock: VirtualClock, accept: str
) -> None:
    """Source: apiserver/pkg/storage/cacher: events are dispatched while the answer is encoded.

    Go's controllers compare what they have read with what they wrote, and retry while it is older.
    """
    order: list[str] = []

    async def read() -> None:
        request = HTTPRequest("GET", f"{CONFIG_MAPS}?watch=true", {"accept": accept})
        chunks = (await api.server.handle(request)).body
        assert not isinstance(chunks, bytes)
        async with aclosing(chunks):
            async for _ in chunks:
                order.append("event")

    async def write(method: str, target: str, body: object = b"") -> None:
        await api.call(method, target, body, content_type="application/merge-patch+json" if method == "PATCH" else "")
        order.append(method)

    async with asyncio.TaskGroup() as group:
        readers = [group.create_task(read()) for _ in range(2)]
        await kcr_clock.settle()
        await write("POST", CONFIG_MAPS, config_map("a"))
        await write("PATCH", f"{CONFIG_MAPS}/a", {"data": {"a": "2"}})
        await write("DELETE", f"{CONFIG_MAPS}/a")
        assert order == ["event", "event", "POST", "event", "event", "PATCH", "event", "event", "DELETE"]
        order.clear()
        # Both changes are made before a reader runs.
        async with asyncio.TaskGroup() as writers:
            for name in "bc":
                writers.create_task(write("POST", CONFIG_MAPS, config_map(name)))
        assert order == ["event", "event", "POST", "POST"]
        for reader in readers:
            reader.cancel()


async def test_writer_does_not_wait_for_a_reader_that_is_busy(api: Api) -> None:
    events = await api.watch(f"{CONFIG_MAPS}?")
    for name in "ab":
        await api.post(CONFIG_MAPS, config_map(name))
    assert [name for _, name in await events.take(2)] == ["a", "b"]
    await events.close()


async def test_leaving_the_selector_is_a_deletion_of_the_old(api: Api) -> None:
    events = await api.watch(f"{CONFIG_MAPS}?labelSelector=app%3Dx&")
    await api.post(CONFIG_MAPS, config_map("a", app="x"))
    changed = await api.patch(f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"app": "y"}}, "data": {"a": "2"}})
    await api.patch(f"{CONFIG_MAPS}/a", {"data": {"a": "3"}})
    await api.patch(f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"app": "x"}}})
    assert await events.take(1) == [("ADDED", "a")]
    left = await events.next()
    assert left["type"] == "DELETED"
    assert (left["object"]["metadata"]["labels"], left["object"]["data"]) == ({"app": "x"}, {"a": "1"})
    assert left["object"]["metadata"]["resourceVersion"] == changed["metadata"]["resourceVersion"]
    assert await events.take(1) == [("ADDED", "a")]
    await events.close()


async def test_field_selector_follows_one_phase(api: Api) -> None:
    events = await api.watch(f"{PODS}?fieldSelector=status.phase%3DPending&")
    await api.post(PODS, pod("a"))
    await api.patch(f"{PODS}/a/status", {"status": {"phase": "Running"}})
    assert await events.take(2) == [("ADDED", "a"), ("DELETED", "a")]
    await events.close()


async def test_change_of_nothing_is_no_event(api: Api) -> None:
    created = await api.post(CONFIG_MAPS, config_map("a"))
    events = await api.watch(f"{CONFIG_MAPS}?resourceVersion={created['metadata']['resourceVersion']}&")
    again = await api.patch(f"{CONFIG_MAPS}/a", {"data": {"a": "1"}})
    assert again["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]
    await api.post(CONFIG_MAPS, config_map("b"))
    assert await events.take(1) == [("ADDED", "b")]
    await events.close()


async def test_watch_ends_cleanly_at_its_timeout(api: Api, kcr_clock: Any) -> None:
    before = kcr_clock.now()
    events = await api.watch(f"{CONFIG_MAPS}?timeoutSeconds=7&")
    with pytest.raises(StopAsyncIteration):
        await events.next()
    assert (kcr_clock.now() - before).total_seconds() == 7


async def test_bookmarks_come_every_minute_and_before_the_end(api: Api, kcr_clock: Any) -> None:
    before = kcr_clock.now()
    events = await api.watch(f"{CONFIG_MAPS}?resourceVersion=1&allowWatchBookmarks=true&timeoutSeconds=150&")
    await api.post(PODS, pod("unrelated"))
    moments = []
    for _ in range(3):
        event = await events.next()
        moments.append(((kcr_clock.now() - before).total_seconds(), event["type"]))
    assert moments == [(60, "BOOKMARK"), (120, "BOOKMARK"), (148, "BOOKMARK")]
    assert event["object"]["metadata"] == {"resourceVersion": await version(api)}
    with pytest.raises(StopAsyncIteration):
        await events.next()


async def test_closing_the_server_ends_watches(api: Api) -> None:
    events = await api.watch(f"{CONFIG_MAPS}?")
    api.server.close()
    with pytest.raises(StopAsyncIteration):
        await events.next()


async def test_watcher_far_behind_is_cut(kcr_clock: VirtualClock) -> None:
    api = Api(APIServer(Storage(), clock=kcr_clock, random=random.Random(0), max_watch_backlog=3))
    slow, fast = await api.watch(f"{CONFIG_MAPS}?"), await api.watch(f"{CONFIG_MAPS}?")
    for name in "abcd":
        await api.post(CONFIG_MAPS, config_map(name))
        assert await fast.take(1) == [("ADDED", name)]
    with pytest.raises(StopAsyncIteration):
        await slow.next()
    await fast.close()


async def test_table_watch_sends_its_columns_once(api: Api) -> None:
    await api.post(PODS, pod("a"))
    events = await api.watch(f"{PODS}?", accept=TABLE)
    await api.patch(f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}})
    first, second = await events.next(), await events.next()
    assert first["object"]["columnDefinitions"][0]["name"] == "Name"
    assert second["object"]["columnDefinitions"] is None
    assert second["object"]["rows"][0]["cells"][:3] == ["a", "0/1", "Pending"]
    await events.close()


async def test_partial_metadata_is_watched_with_bookmarks(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    events = await api.watch(WATCH_LIST, accept=accept)
    added, bookmark = await events.next(), await events.next()
    assert added["object"]["kind"] == bookmark["object"]["kind"] == "PartialObjectMetadata"
    assert "data" not in added["object"]
    await events.close()


async def test_named_get_does_not_watch(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    assert (await api.get(f"{CONFIG_MAPS}/a?watch=true"))["metadata"]["name"] == "a"


@pytest.mark.parametrize("path", ["pods", "namespaces/default/pods", "namespaces/default/pods/p"])
async def test_older_paths_of_watches_are_served(api: Api, path: str) -> None:
    """Source: k8s.io/apiserver/pkg/endpoints/installer.go, the actions WATCH and WATCHLIST."""
    await api.post(PODS, pod("p"))
    answer = await api.server.handle(HTTPRequest("GET", f"/api/v1/watch/{path}"))
    assert not isinstance(answer.body, bytes)
    events = Events(answer.body)
    assert await events.take(1) == [("ADDED", "p")]
    await api.post(PODS, pod("q"))
    await api.delete(f"{PODS}/p?gracePeriodSeconds=0")
    gone = [("MODIFIED", "p"), ("DELETED", "p")]
    following = gone if path.endswith("/p") else [("ADDED", "q"), *gone]
    assert await events.take(len(following)) == following
    await events.close()


async def test_older_paths_of_watches_are_read_only(api: Api) -> None:
    for method, path, code in (
        ("POST", "/api/v1/watch/namespaces/default/pods", 405),
        ("GET", "/api/v1/watch/namespaces/default/pods/p/log", 404),
        ("GET", "/apis/batch/v1/watch/nothing", 404),
    ):
        assert (await api.call(method, path)).status == code
    answer = await api.server.handle(HTTPRequest("GET", "/apis/batch/v1/watch/jobs?timeoutSeconds=1"))
    assert answer.status == 200
