"""The faults of a listener: which requests rules take, and what they do to them."""

import asyncio
from typing import Any

import msgspec
import pytest

from kcr_devcluster.apiserver.kinds.catalogue import CONFIG_MAPS
from kcr_devcluster.apiserver.protocol.responses import APIResponse
from kcr_devcluster.apiserver.server import HTTPRequest
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.faults import ConnectionLostError, FaultRule, ListenerFaults
from kcr_devcluster.cluster.faults.listener_faults import INTERFERENCE
from kcr_devcluster.testing.loop import VirtualClock

pytestmark = pytest.mark.kcr_virtual

MAPS = "/api/v1/namespaces/default/configmaps"


def request(method: str, target: str, name: str = "") -> HTTPRequest:
    body = msgspec.json.encode({"metadata": {"name": name}}) if method == "POST" else b""
    return HTTPRequest(method, target, {"Content-Type": "application/json"}, body)


async def send(faults: ListenerFaults, cluster: EmbeddedCluster, method: str, target: str, name: str = "") -> Any:
    """Return code and body; `lost` where there is no answer."""
    try:
        response = await faults.handle(cluster.server, request(method, target, name))
    except ConnectionLostError:
        return "lost"
    assert isinstance(response.body, bytes)
    return response.status, msgspec.json.decode(response.body)


async def codes(rule: FaultRule, cluster: EmbeddedCluster, count: int = 4, **options: int) -> list[Any]:
    """Return the codes of that many creations, and what the rule counted."""
    faults = ListenerFaults([rule], **options)
    replies = [await send(faults, cluster, "POST", MAPS, f"map-{number}") for number in range(count)]
    return [reply if isinstance(reply, str) else reply[0] for reply in replies] + [faults.met(rule)]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        pytest.param(FaultRule(verb="create", fail=409), [409] * 4 + [4], id="every"),
        pytest.param(FaultRule(verb="create", fail=500, nth=2), [201, 500, 201, 201, 1], id="nth"),
        pytest.param(FaultRule(fail=503, times=2), [503, 503, 201, 201, 2], id="times"),
        pytest.param(FaultRule(verb="update", fail=409), [201] * 4 + [0], id="another-verb"),
        pytest.param(FaultRule(resource="configmaps", lose_request=True, nth=1), ["lost", 201, 201, 201, 1], id="kind"),
        pytest.param(FaultRule(resource="jobs.batch", fail=409), [201] * 4 + [0], id="another-kind"),
    ],
)
async def test_rule_takes_requests_by_verb_kind_and_number(
    kcr_cluster: EmbeddedCluster, rule: FaultRule, expected: list[Any]
) -> None:
    assert await codes(rule, kcr_cluster) == expected


async def test_same_seed_disturbs_the_same_requests(kcr_cluster: EmbeddedCluster) -> None:
    rule = FaultRule(verb="get", chance=0.5, fail=500)
    target = "/api/v1/namespaces/default"
    runs = []
    for seed in (1, 1, 2):
        faults = ListenerFaults([rule], seed=seed)
        runs.append([(await send(faults, kcr_cluster, "GET", target))[0] for _ in range(30)])
    assert runs[0] == runs[1] != runs[2]
    assert set(runs[0]) == {200, 500}


async def test_name_is_a_pattern(kcr_cluster: EmbeddedCluster) -> None:
    faults = ListenerFaults([FaultRule(name="kube-*", fail=404)])
    assert (await send(faults, kcr_cluster, "GET", "/api/v1/namespaces/kube-system"))[0] == 404
    assert (await send(faults, kcr_cluster, "GET", "/api/v1/namespaces/default"))[0] == 200


async def test_refusal_is_a_status_with_the_time_to_try_again(kcr_cluster: EmbeddedCluster) -> None:
    faults = ListenerFaults([FaultRule(fail=429, retry_after_seconds=7)])
    response = await faults.handle(kcr_cluster.server, request("GET", MAPS))
    assert (response.status, response.headers["Retry-After"]) == (429, "7")
    assert isinstance(response.body, bytes)
    assert msgspec.json.decode(response.body)["reason"] == "TooManyRequests"


async def test_lost_reply_is_of_a_write_that_happened(kcr_cluster: EmbeddedCluster) -> None:
    faults = ListenerFaults([FaultRule(verb="create", lose_reply=True)])
    assert await send(faults, kcr_cluster, "POST", MAPS, "a") == "lost"
    assert (await send(faults, kcr_cluster, "GET", f"{MAPS}/a"))[0] == 200


async def test_delayed_request_is_executed_later(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    faults = ListenerFaults([FaultRule(delay=5)])
    async with asyncio.TaskGroup() as group:
        sent = group.create_task(send(faults, kcr_cluster, "POST", MAPS, "a"))
        await kcr_clock.advance(4)
        assert kcr_cluster.storage.get(CONFIG_MAPS, "default", "a") is None
        await kcr_clock.advance(2)
        assert (await sent)[0] == 201


async def test_older_list_shows_what_was_there(kcr_cluster: EmbeddedCluster) -> None:
    for name in ("a", "b"):
        await send(ListenerFaults(), kcr_cluster, "POST", MAPS, name)
    faults = ListenerFaults([FaultRule(verb="list", resource="configmaps", older=1)])
    _, body = await send(faults, kcr_cluster, "GET", f"{MAPS}?limit=500&resourceVersion=0")
    assert [one["metadata"]["name"] for one in body["items"]] == ["a"]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        pytest.param(FaultRule(verb="watch", cut=2), ["a", "b", "lost"], id="cut"),
        pytest.param(FaultRule(verb="watch", cut=0), ["lost"], id="cut-at-once"),
        pytest.param(FaultRule(verb="watch", freeze=1), ["a", "lost"], id="freeze"),
        pytest.param(FaultRule(verb="watch", repeat=True), ["a", "a", "b", "b", "c", "c"], id="repeat"),
        pytest.param(FaultRule(verb="watch", lag=3), ["a", "b", "c"], id="lag"),
        pytest.param(FaultRule(verb="watch", older=1), ["a", "b", "c"], id="older"),
    ],
)
async def test_watch_is_disturbed(kcr_cluster: EmbeddedCluster, rule: FaultRule, expected: list[str]) -> None:
    for name in ("a", "b", "c"):
        await send(ListenerFaults(), kcr_cluster, "POST", MAPS, name)
    target = f"{MAPS}?watch=true&resourceVersion=0&timeoutSeconds=60"
    response = await ListenerFaults([rule]).handle(kcr_cluster.server, request("GET", target))
    assert not isinstance(response.body, bytes)
    seen = []
    try:
        async for chunk in response.body:
            seen += [msgspec.json.decode(line)["object"]["metadata"]["name"] for line in chunk.splitlines()]
    except ConnectionLostError:
        seen.append("lost")
    await response.body.aclose()
    assert seen == expected


async def test_healed_cluster_has_no_faults(kcr_cluster: EmbeddedCluster) -> None:
    faults = ListenerFaults()
    faults.add(FaultRule(fail=500))
    assert (await send(faults, kcr_cluster, "GET", MAPS))[0] == 500
    faults.heal()
    assert (await send(faults, kcr_cluster, "GET", MAPS))[0] == 200


async def test_objects_are_counted_by_themselves(kcr_cluster: EmbeddedCluster) -> None:
    for name in ("a", "b"):
        await send(ListenerFaults(), kcr_cluster, "POST", MAPS, name)
    faults = ListenerFaults([FaultRule(verb="get", per_object=True, times=2, fail=409)])
    replies = [(await send(faults, kcr_cluster, "GET", f"{MAPS}/{name}"))[0] for name in "aaabbb"]
    assert replies == [409, 409, 200, 409, 409, 200]


async def test_added_rules_change_nothing_for_others(kcr_cluster: EmbeddedCluster) -> None:
    rule, runs = FaultRule(verb="get", chance=0.5, fail=500), []
    for others in ([], [FaultRule(verb="get", resource="namespaces", chance=0.5, fail=429)]):
        faults = ListenerFaults([rule, *others], seed=5)
        runs.append([(await send(faults, kcr_cluster, "GET", f"{MAPS}/a"))[0] == 500 for _ in range(30)])
        await send(faults, kcr_cluster, "GET", "/api/v1/namespaces/default")
    assert runs[0] == runs[1]


async def changed(cluster: EmbeddedCluster) -> tuple[Any, Any]:
    """Return the two versions of a map that is created and changed."""
    _, first = await send(ListenerFaults(), cluster, "POST", MAPS, "a")
    patch = msgspec.json.encode({"data": {"k": "v"}})
    merge = {"Content-Type": "application/merge-patch+json"}
    response = await cluster.server.handle(HTTPRequest("PATCH", f"{MAPS}/a", merge, patch))
    assert isinstance(response.body, bytes)
    return first, msgspec.json.decode(response.body)


async def test_older_get_shows_the_version_before(kcr_cluster: EmbeddedCluster) -> None:
    first, _ = await changed(kcr_cluster)
    one, two = (ListenerFaults([FaultRule(verb="get", older=versions)]) for versions in (1, 2))
    assert await send(one, kcr_cluster, "GET", f"{MAPS}/a") == (200, first)
    assert (await send(two, kcr_cluster, "GET", f"{MAPS}/a"))[0] == 404


async def test_older_initial_events_are_followed_by_the_changes(kcr_cluster: EmbeddedCluster) -> None:
    first, second = await changed(kcr_cluster)
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1"
    faults = ListenerFaults([FaultRule(verb="watch", older=1)])
    body, _ = await read(await faults.handle(kcr_cluster.server, request("GET", f"{MAPS}?{query}")))
    added, bookmark, modified = map(msgspec.json.decode, body.splitlines())
    assert (added["type"], bookmark["type"], modified["type"]) == ("ADDED", "BOOKMARK", "MODIFIED")
    assert bookmark["object"]["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert (added["object"]["metadata"], modified["object"]["data"]) == (first["metadata"], second["data"])


async def test_older_view_ends_where_the_history_begins(kcr_cluster: EmbeddedCluster) -> None:
    await send(ListenerFaults(), kcr_cluster, "POST", MAPS, "a")
    kcr_cluster.storage.compact()
    faults = ListenerFaults([FaultRule(verb=verb, older=1) for verb in ("get", "list")])
    assert (await send(faults, kcr_cluster, "GET", f"{MAPS}/a"))[0] == 200
    assert len((await send(faults, kcr_cluster, "GET", MAPS))[1]["items"]) == 1


async def test_interfering_write_makes_an_update_conflict(kcr_cluster: EmbeddedCluster) -> None:
    _, first = await send(ListenerFaults(), kcr_cluster, "POST", MAPS, "a")
    faults = ListenerFaults([FaultRule(verb="update", per_object=True, times=1, interfere=True)])
    put = HTTPRequest("PUT", f"{MAPS}/a", {"Content-Type": "application/json"}, msgspec.json.encode(first))
    assert (await faults.handle(kcr_cluster.server, put)).status == 409
    _, newer = await send(faults, kcr_cluster, "GET", f"{MAPS}/a")
    assert newer["metadata"]["annotations"].keys() == {INTERFERENCE}
    again = await faults.handle(kcr_cluster.server, put._replace(body=msgspec.json.encode(newer)))
    assert again.status == 200


async def test_interference_is_a_fault_of_subresources_too(kcr_cluster: EmbeddedCluster) -> None:
    _, first = await send(ListenerFaults(), kcr_cluster, "GET", "/api/v1/namespaces/default")
    faults = ListenerFaults([FaultRule(verb="update", resource="namespaces", interfere=True)])
    put = HTTPRequest("PUT", "/api/v1/namespaces/default/status", {}, msgspec.json.encode(first))
    assert (await faults.handle(kcr_cluster.server, put)).status == 409


async def read(response: APIResponse) -> tuple[bytes, bool]:
    """Return what arrives of a body, and whether the connection is lost before its end."""
    assert not isinstance(response.body, bytes)
    seen = b""
    try:
        async for chunk in response.body:
            seen += chunk
    except ConnectionLostError:
        return seen, True
    return seen, False


async def test_expired_watch_has_to_list_again(kcr_cluster: EmbeddedCluster) -> None:
    faults = ListenerFaults([FaultRule(verb="watch", resource="configmaps", times=1, expire=True)])
    first = await faults.handle(
        kcr_cluster.server, request("GET", f"{MAPS}?watch=1&resourceVersion=0&timeoutSeconds=1")
    )
    assert await read(first) == (b"", False)
    resumed = request("GET", f"{MAPS}?watch=1&resourceVersion=1&timeoutSeconds=1")
    line, lost = await read(await faults.handle(kcr_cluster.server, resumed))
    event = msgspec.json.decode(line)
    assert (event["type"], event["object"]["code"], event["object"]["reason"], lost) == ("ERROR", 410, "Expired", False)
    assert (await read(await faults.handle(kcr_cluster.server, resumed)))[0] == b""


async def test_body_ends_early(kcr_cluster: EmbeddedCluster) -> None:
    whole = await ListenerFaults().handle(kcr_cluster.server, request("GET", MAPS))
    cut = await ListenerFaults([FaultRule(truncate=10)]).handle(kcr_cluster.server, request("GET", MAPS))
    assert isinstance(whole.body, bytes)
    assert cut.headers["Content-Length"] == str(len(whole.body))
    assert await read(cut) == (whole.body[:10], True)


async def test_body_comes_slowly(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    whole = await ListenerFaults().handle(kcr_cluster.server, request("GET", MAPS))
    assert isinstance(whole.body, bytes)
    slow = await ListenerFaults([FaultRule(throttle=10)]).handle(kcr_cluster.server, request("GET", MAPS))
    before = kcr_clock.now()
    assert await read(slow) == (whole.body, False)
    assert (kcr_clock.now() - before).total_seconds() == pytest.approx(len(whole.body) / 10)
