"""Sharded list and watch: `shardSelector` (KEP-5866, api-server §32).

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/sharding; kubernetes/test/integration/sharding.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Collection
from functools import cache
from urllib.parse import quote

import pytest
import pytest_asyncio
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kcr.api.slots import hashed_slot, uid_selector, unlabelled_selector
from kcr.clock import SystemClock
from kcr_devcluster.apiserver import APIServer, Storage
from kcr_devcluster.apiserver.protocol.shard_selectors import NAMESPACE, UID, fnv1a_64
from kcr_devcluster.apiserver.schema import protobuf
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.loop import VirtualClock
from tests.kit.api import TABLE, Api, config_map, names, pod
from tests.kit.conversion_webhooks import V1, V2, install, v1
from tests.kit.custom_resources import DEFINITIONS, WIDGETS, definition, spec_schema, version, widget
from tests.kit.protobuf import PROTOBUF

pytestmark = pytest.mark.kcr_virtual
NAMES = "abcdefghij"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
WATCH_LIST = f"{CONFIG_MAPS}?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&"
PARTIAL = "application/json;as=PartialObjectMetadata{};v=v1;g=meta.k8s.io"
ALL = 1 << 64
HALF = 1 << 63


@pytest_asyncio.fixture
async def sharded(kcr_clock: VirtualClock) -> AsyncIterator[EmbeddedCluster]:
    """Give a cluster whose server has the feature."""
    async with EmbeddedCluster(
        clock=kcr_clock, random=random.Random(0), runtime=None, gc=False, sharded_list_and_watch=True
    ) as cluster:
        yield cluster


@pytest.fixture
def api(sharded: EmbeddedCluster) -> Api:
    """Give its API."""
    return Api(sharded.server)


def ranges(start: int, end: int, field: str = UID) -> str:
    return f"shardRange({field}, '0x{start:016x}', '0x{end:016x}')"


def query(selector: str) -> str:
    return f"shardSelector={quote(selector)}"


LOWER, UPPER = query(ranges(0, HALF)), query(ranges(HALF, ALL))


async def make(api: Api, *wanted: str, **labels: str) -> dict[str, str]:
    """Create ConfigMaps, and return the half to which each belongs."""
    halves = {}
    for name in wanted:
        made = await api.post(CONFIG_MAPS, config_map(name, **labels))
        halves[name] = LOWER if fnv1a_64(made["metadata"]["uid"]) < HALF else UPPER
    assert len(wanted) < len(NAMES) or {LOWER, UPPER} <= set(halves.values())
    return halves


def of(half: str, halves: dict[str, str]) -> list[str]:
    return sorted(name for name, found in halves.items() if found == half)


async def test_list_has_the_objects_of_its_range_only(api: Api) -> None:
    halves = await make(api, *NAMES)
    for half in (LOWER, UPPER):
        assert names(await api.get(f"{CONFIG_MAPS}?{half}")) == of(half, halves)
    both = query(f"{ranges(0, HALF)} || {ranges(HALF, ALL)}")
    assert names(await api.get(f"/api/v1/configmaps?{both}")) == [*NAMES]


async def test_start_is_included_and_end_is_not(api: Api) -> None:
    made = await api.post(CONFIG_MAPS, config_map("a"))
    own = fnv1a_64(made["metadata"]["uid"])
    for span, wanted in (((own, own + 1), ["a"]), ((own + 1, ALL), []), ((0, own), [])):
        assert names(await api.get(f"{CONFIG_MAPS}?{query(ranges(*span))}")) == wanted


async def test_ranges_of_namespaces_select_whole_namespaces(api: Api) -> None:
    for namespace in ("s1", "s2"):
        await api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
        for name in "ab":
            await api.post(f"/api/v1/namespaces/{namespace}/configmaps", config_map(name))
    # s1: 08d8ff07b578d149, s2: 08d8fc07b578cc30.
    found = await api.get(f"/api/v1/configmaps?{query(ranges(0x08D8FC07B578CC30, 0x08D8FF07B578D149, NAMESPACE))}")
    assert {item["metadata"]["namespace"] for item in found["items"]} == {"s2"}
    assert names(found) == ["a", "b"]


async def test_cluster_scoped_objects_have_an_empty_namespace(api: Api) -> None:
    empty = 0xCBF29CE484222325
    every = names(await api.get("/api/v1/namespaces"))
    assert names(await api.get(f"/api/v1/namespaces?{query(ranges(empty, empty + 1, NAMESPACE))}")) == every
    assert names(await api.get(f"/api/v1/namespaces?{query(ranges(0, empty, NAMESPACE))}")) == []


@pytest.mark.parametrize(
    ("method", "target"),
    [
        pytest.param("GET", f"{CONFIG_MAPS}?", id="list"),
        pytest.param("GET", f"{CONFIG_MAPS}?watch=true&", id="watch"),
        pytest.param("GET", f"{WATCH_LIST}watch=true&", id="watch-list"),
        pytest.param("GET", "/api/v1/watch/configmaps?", id="older-watch"),
        pytest.param("DELETE", f"{CONFIG_MAPS}?", id="deletecollection"),
    ],
)
@pytest.mark.parametrize(
    ("selector", "words"),
    [
        ("nonsense", "unexpected expression kind 3; expected shardRange() call or || operator"),
        (
            "shardRange(object.metadata.uid, '0x0', '0x8000000000000000')",
            'hexStart must be a 0x-prefixed 16-digit hex value, got "0x0" (did you mean "0x0000000000000000"?)',
        ),
        (
            ranges(0, 1, "object.metadata.name"),
            'unsupported field path "object.metadata.name"; supported: object.metadata.uid, object.metadata.namespace',
        ),
    ],
)
async def test_bad_selector_is_refused(api: Api, method: str, target: str, selector: str, words: str) -> None:
    await make(api, "a")
    reply = await api.call(method, f"{target}{query(selector)}")
    assert (reply.status, reply.body["kind"], "reason" in reply.body) == (500, "Status", False)
    assert reply.body["message"] == f"invalid shard selector: {words}"
    assert names(await api.get(CONFIG_MAPS)) == ["a"]


async def test_get_by_name_ignores_the_selector(api: Api) -> None:
    halves = await make(api, *NAMES)
    for selector in (UPPER, LOWER, "shardSelector=nonsense"):
        for name in halves:
            assert (await api.get(f"{CONFIG_MAPS}/{name}?{selector}"))["metadata"]["name"] == name


async def test_empty_selector_is_as_absent(api: Api) -> None:
    await make(api, *NAMES)
    found = await api.get(f"{CONFIG_MAPS}?shardSelector=")
    assert names(found) == [*NAMES]
    assert "shardInfo" not in found["metadata"]


async def test_without_the_feature_the_selector_is_ignored(bare: EmbeddedCluster) -> None:
    api = Api(bare.server)
    await make(api, *NAMES)
    for selector in (LOWER, "shardSelector=nonsense"):
        found = await api.get(f"{CONFIG_MAPS}?{selector}&limit=3")
        assert names(found) == [*NAMES[:3]]
        assert {*found["metadata"]} == {"resourceVersion", "continue", "remainingItemCount"}
        watch = await api.watch(f"{CONFIG_MAPS}?{selector}&")
        assert [name for _, name in await watch.take(len(NAMES))] == [*NAMES]
        await watch.close()
    assert names(await api.delete(f"{CONFIG_MAPS}?{LOWER}")) == [*NAMES]


async def test_list_repeats_the_selector_as_it_was_sent(api: Api) -> None:
    sent = f"  {ranges(8, 9)}||{ranges(0, 1)} "
    found = await api.get(f"{CONFIG_MAPS}?{query(sent)}")
    assert found["metadata"]["shardInfo"] == {"selector": sent}
    assert found["items"] == []
    as_yaml = (await api.call("GET", f"{CONFIG_MAPS}?{query(sent)}", accept="application/yaml")).body
    assert yaml.safe_load(as_yaml)["metadata"]["shardInfo"] == {"selector": sent}
    as_protobuf = (await api.call("GET", f"{CONFIG_MAPS}?{query(sent)}", accept=PROTOBUF)).body
    assert protobuf.decode(as_protobuf)["metadata"]["shardInfo"] == {"selector": sent}
    assert "shardInfo" not in (await api.get(CONFIG_MAPS))["metadata"]


@pytest.mark.parametrize("accept", [TABLE, PARTIAL.format("List"), PARTIAL.format("List") + "," + PROTOBUF])
async def test_lists_in_other_forms_are_filtered_without_shard_info(api: Api, accept: str) -> None:
    halves = await make(api, *NAMES)
    found = await api.get(f"{CONFIG_MAPS}?{LOWER}", accept=accept)
    assert {*found["metadata"]} == {"resourceVersion"}
    shown = found["items"] if "items" in found else [row["object"] for row in found["rows"]]
    assert [one["metadata"]["name"] for one in shown] == of(LOWER, halves)


async def test_custom_resources_are_selected_likewise(api: Api) -> None:
    await api.post(DEFINITIONS, definition(version("v1", spec_schema({"a": {"type": "string"}}))))
    halves = {}
    for name in NAMES:
        made = await api.post(WIDGETS, widget(name))
        halves[name] = LOWER if fnv1a_64(made["metadata"]["uid"]) < HALF else UPPER
    found = await api.get(f"{WIDGETS}?{UPPER}")
    assert names(found) == of(UPPER, halves)
    assert found["metadata"]["shardInfo"] == {"selector": ranges(HALF, ALL)}


async def test_pages_count_matching_objects_and_all_that_remain(api: Api) -> None:
    halves = await make(api, *NAMES)
    wanted = of(LOWER, halves)
    first = await api.get(f"{CONFIG_MAPS}?{LOWER}&limit=2")
    assert names(first) == wanted[:2]
    # Those of the other half are counted, too: kubernetes/staging/src/k8s.io/apiserver/pkg/storage/continue.go.
    assert first["metadata"]["remainingItemCount"] == len(NAMES) - 2
    found, page = names(first), first
    while token := page["metadata"].get("continue"):
        page = await api.get(f"{CONFIG_MAPS}?{LOWER}&limit=2&continue={token}")
        assert page["metadata"]["shardInfo"] == first["metadata"]["shardInfo"]
        found += names(page)
    assert found == wanted


async def test_last_page_may_be_empty(api: Api) -> None:
    halves = await make(api, *NAMES)
    # The half whose last object others follow.
    half = LOWER if halves[NAMES[-1]] == UPPER else UPPER
    wanted = of(half, halves)
    page = await api.get(f"{CONFIG_MAPS}?{half}&limit={len(wanted)}")
    assert names(page) == wanted
    last = await api.get(f"{CONFIG_MAPS}?{half}&limit={len(wanted)}&continue={page['metadata']['continue']}")
    assert (names(last), "continue" in last["metadata"]) == ([], False)


async def test_other_selectors_suppress_the_remaining_count(api: Api) -> None:
    await make(api, *NAMES, app="x")
    metadata = (await api.get(f"{CONFIG_MAPS}?{LOWER}&limit=1&labelSelector=app"))["metadata"]
    assert {*metadata} == {"resourceVersion", "continue", "shardInfo"}


async def test_collection_is_deleted_within_the_range_only(api: Api) -> None:
    halves = await make(api, *NAMES)
    assert names(await api.delete(f"{CONFIG_MAPS}?{LOWER}")) == of(LOWER, halves)
    assert names(await api.get(CONFIG_MAPS)) == of(UPPER, halves)


async def test_watch_carries_the_changes_of_its_range_only(api: Api) -> None:
    start = (await api.get(CONFIG_MAPS))["metadata"]["resourceVersion"]
    watches = {half: await api.watch(f"{CONFIG_MAPS}?resourceVersion={start}&{half}&") for half in (LOWER, UPPER)}
    halves = await make(api, *NAMES)
    for name in NAMES:
        await api.patch(f"{CONFIG_MAPS}/{name}", {"data": {"a": "2"}})
        await api.delete(f"{CONFIG_MAPS}/{name}")
    watches["late"] = await api.watch(f"{CONFIG_MAPS}?resourceVersion={start}&{LOWER}&")
    for half, events in watches.items():
        own = of(LOWER if half == "late" else half, halves)
        wanted = [("ADDED", name) for name in own]
        wanted += [(kind, name) for name in own for kind in ("MODIFIED", "DELETED")]
        assert await events.take(len(wanted)) == wanted
        await events.close()


async def test_watch_list_sends_its_range_and_a_bookmark(api: Api) -> None:
    halves = await make(api, *NAMES)
    events = await api.watch(f"{WATCH_LIST}{UPPER}&")
    own = of(UPPER, halves)
    assert await events.take(len(own)) == [("ADDED", name) for name in own]
    bookmark = await events.next()
    version = (await api.get(CONFIG_MAPS))["metadata"]["resourceVersion"]
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"] == {
        "resourceVersion": version, "annotations": {"k8s.io/initial-events-end": "true"},
    }  # fmt: skip
    for name in NAMES:
        await api.delete(f"{CONFIG_MAPS}/{name}")
    assert await events.take(len(own)) == [("DELETED", name) for name in own]
    await events.close()


async def test_bookmarks_pass_the_changes_of_other_ranges(api: Api, kcr_clock: VirtualClock) -> None:
    await make(api, "a")
    own = fnv1a_64((await api.get(f"{CONFIG_MAPS}/a"))["metadata"]["uid"])
    other = query(f"{ranges(0, own)} || {ranges(own + 1, ALL)}")
    before = kcr_clock.now()
    events = await api.watch(f"{CONFIG_MAPS}?resourceVersion=1&allowWatchBookmarks=true&{other}&")
    changed = await api.patch(f"{CONFIG_MAPS}/a", {"data": {"a": "2"}})
    event = await events.next()
    assert ((kcr_clock.now() - before).total_seconds(), event["type"]) == (60, "BOOKMARK")
    assert event["object"]["metadata"]["resourceVersion"] == changed["metadata"]["resourceVersion"]
    await events.close()


@pytest.mark.parametrize("watch", ["watch", "watch-list"])
async def test_leaving_the_label_selection_is_a_deletion_within_the_range(api: Api, watch: str) -> None:
    """The watches of kcr's own clients: unlabelled objects by ranges of their uids."""
    halves = await make(api, *NAMES)
    mine, other = of(LOWER, halves)[0], of(UPPER, halves)[0]
    target = WATCH_LIST if watch == "watch-list" else f"{CONFIG_MAPS}?"
    events = await api.watch(f"{target}labelSelector=!kcr.dev/slot&{LOWER}&")
    await events.take(len(of(LOWER, halves)) + (watch == "watch-list"))
    for name in (other, mine):
        await api.patch(f"{CONFIG_MAPS}/{name}", {"metadata": {"labels": {"kcr.dev/slot": "7"}}})
        await api.patch(f"{CONFIG_MAPS}/{name}", {"data": {"a": "2"}})
        await api.patch(f"{CONFIG_MAPS}/{name}", {"metadata": {"labels": {"kcr.dev/slot": None}}})
        await api.patch(f"{CONFIG_MAPS}/{name}", {"data": {"a": "3"}})
    assert await events.take(3) == [("DELETED", mine), ("ADDED", mine), ("MODIFIED", mine)]
    await events.close()


async def test_all_selectors_hold_together(api: Api) -> None:
    made = await api.post(PODS, pod("p", labels={"app": "x"}))
    await api.post(PODS, pod("q"))
    own = fnv1a_64(made["metadata"]["uid"])
    mine, others = query(ranges(own, own + 1)), query(ranges(own + 1, ALL))
    rest = "labelSelector=app%3Dx&fieldSelector=status.phase%3DPending"
    assert names(await api.get(f"{PODS}?{rest}&{mine}")) == ["p"]
    assert names(await api.get(f"{PODS}?{rest}&{others}")) == []
    events = await api.watch(f"{PODS}?{rest}&{mine}&")
    await api.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}})
    assert await events.take(2) == [("ADDED", "p"), ("DELETED", "p")]
    await events.close()


@pytest.mark.parametrize("slots", [range(32), range(32, 64), {0, 9, 10, 40, 63}, range(64)], ids=str)
async def test_selectors_of_kcr_find_what_it_counts_to_its_slots(api: Api, slots: Collection[int]) -> None:
    made = [(await api.post(CONFIG_MAPS, config_map(name)))["metadata"] for name in NAMES]
    await api.post(CONFIG_MAPS, {"metadata": {"name": "labelled", "labels": {"kcr.dev/slot": "9"}}})
    wanted = [one["name"] for one in made if hashed_slot(one["uid"]) in slots]
    selectors = f"labelSelector={quote(unlabelled_selector())}&{query(uid_selector(slots))}"
    assert names(await api.get(f"{CONFIG_MAPS}?{selectors}")) == wanted
    events = await api.watch(f"{CONFIG_MAPS}?{selectors}&")
    assert await events.take(len(wanted)) == [("ADDED", name) for name in wanted]
    await events.close()


@pytest.mark.parametrize("accept", [TABLE, PARTIAL.format("")])
async def test_watches_in_other_forms_are_filtered(api: Api, accept: str) -> None:
    halves = await make(api, *NAMES)
    events = await api.watch(f"{CONFIG_MAPS}?{LOWER}&", accept=accept)
    seen = [(await events.next())["object"] for _ in of(LOWER, halves)]
    shown = [one["rows"][0]["object"] if "rows" in one else one for one in seen]
    assert [one["metadata"]["name"] for one in shown] == of(LOWER, halves)
    await events.close()


async def test_object_made_again_is_seen_by_the_range_of_its_new_uid(api: Api) -> None:
    watches = {half: await api.watch(f"{CONFIG_MAPS}?{half}&") for half in (LOWER, UPPER)}
    seen = []
    for _ in range(8):
        seen.append((await make(api, "a"))["a"])
        await api.delete(f"{CONFIG_MAPS}/a")
    for half, events in watches.items():
        assert await events.take(2 * seen.count(half)) == [("ADDED", "a"), ("DELETED", "a")] * seen.count(half)
        await events.close()
    assert {LOWER, UPPER} == set(seen)


async def test_objects_of_other_ranges_are_not_converted(api: Api) -> None:
    converter = await install(api)
    made = [await api.post(V1, v1(name)) for name in NAMES]
    halves = {one["metadata"]["name"]: LOWER if fnv1a_64(one["metadata"]["uid"]) < HALF else UPPER for one in made}
    events = await api.watch(f"{V2}?{LOWER}&")
    own = of(LOWER, halves)
    assert await events.take(len(own)) == [("ADDED", name) for name in own]
    converted = [one["metadata"]["name"] for review in converter.reviews for one in review["objects"]]
    assert converted == own
    assert names(await api.get(f"{V2}?{UPPER}")) == of(UPPER, halves)
    await events.close()


@pytest.mark.kcr_cluster(sharded_list_and_watch=True)
async def test_mark_of_the_test_kit_turns_the_feature_on(kcr_cluster: EmbeddedCluster) -> None:
    api = Api(kcr_cluster.server)
    halves = await make(api, *NAMES)
    assert names(await api.get(f"{CONFIG_MAPS}?{LOWER}")) == of(LOWER, halves)


@cache
def filled() -> Api:
    """Return the API of a server with 60 ConfigMaps, every third labelled; no law changes it."""
    api = Api(APIServer(Storage(), clock=SystemClock(), random=random.Random(0), sharded_list_and_watch=True))

    async def fill() -> None:
        for index in range(60):
            await api.post(CONFIG_MAPS, config_map(f"c{index:02}", **({"app": "x"} if index % 3 == 0 else {})))

    asyncio.run(fill())
    return api


@given(
    cuts=st.lists(st.integers(1, ALL - 1), unique=True, max_size=6),
    limit=st.integers(0, 8),
    labels=st.sampled_from(["", "labelSelector=app", "labelSelector=!app"]),
)
def test_lists_and_watches_of_a_partition_are_the_whole_and_disjoint(cuts: list[int], limit: int, labels: str) -> None:
    api, ends = filled(), [*sorted(cuts), ALL]

    async def listed(selector: str) -> list[str]:
        page = await api.get(f"{CONFIG_MAPS}?{selector}&{labels}&limit={limit}")
        found = names(page)
        while token := page["metadata"].get("continue"):
            page = await api.get(f"{CONFIG_MAPS}?{selector}&{labels}&limit={limit}&continue={token}")
            assert len(page["items"]) <= limit
            found += names(page)
        return found

    async def watched(selector: str) -> list[str]:
        events = await api.watch(f"{CONFIG_MAPS}?{selector}&{labels}&allowWatchBookmarks=true&")
        found = []
        while (event := await events.next())["type"] == "ADDED":
            found.append(event["object"]["metadata"]["name"])
        await events.close()
        return found

    async def check() -> None:
        whole = await listed("")
        parts = [query(ranges(*part)) for part in zip([0, *ends[:-1]], ends, strict=True)]
        lists = [await listed(part) for part in parts]
        assert sorted(name for found in lists for name in found) == whole
        assert [await watched(part) for part in parts] == lists

    asyncio.run(check())
