import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from kcr.api.core import ConfigMap, Namespace, Pod
from kcr.api.meta import Key
from kcr.client import Client
from kcr.errors import AlreadyExistsError, ApiError, ConflictError, ServerError, TooManyRequestsError, TransportError
from kcr.testing import FaultyTransport, VirtualClock, build
from kcr_devcluster.calls import Call
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.rules import Rule

pytestmark = pytest.mark.kcr_virtual


def faulty(cluster: EmbeddedCluster) -> tuple[FaultyTransport, Client]:
    faults = FaultyTransport(cluster.transport)
    return faults, Client(faults)


async def names(cluster: EmbeddedCluster) -> list[str]:
    return sorted(found.metadata.name for found in await cluster.client.list(ConfigMap))


async def test_only_the_nth_creation_of_a_kind_fails(kcr_cluster: EmbeddedCluster) -> None:  # TK-8
    faults, client = faulty(kcr_cluster)
    rule = faults.on("create", ConfigMap, nth=2)
    rule.fail(ConflictError)
    await client.create(Namespace(metadata=build.metadata("other", namespace="", uid="", resource_version="")))
    for name in ("a", "b", "c"):
        try:
            await client.create(plain(name))
        except ConflictError as error:
            assert (name, error.code, error.reason) == ("b", 409, "Conflict")
    assert rule.met == 1
    assert await names(kcr_cluster) == ["a", "c"]


@pytest.mark.parametrize("error", [ServerError, ApiError(418, "Teapot", "short and stout")], ids=str)
async def test_failed_request_never_reaches_the_server(kcr_cluster: EmbeddedCluster, error: ApiError) -> None:  # TK-8
    faults, client = faulty(kcr_cluster)
    faults.on("create").fail(error)
    with pytest.raises(ApiError):
        await client.create(plain("a"))
    faults.heal()
    await client.create(plain("a"))


async def test_refusal_with_a_time_to_wait_is_tried_again_then(kcr_cluster: EmbeddedCluster) -> None:  # TK-8
    faults, client = faulty(kcr_cluster)
    faults.on("get", Namespace, nth=1).fail(TooManyRequestsError, retry_after_seconds=7)
    await client.get(Namespace, Key("", "default"))
    assert 7 <= asyncio.get_running_loop().time() <= 1.2 * 7


async def test_delayed_request_arrives_later(kcr_cluster: EmbeddedCluster) -> None:  # TK-8
    faults, client = faulty(kcr_cluster)
    faults.on("create", name="", kind=ConfigMap).delay(2)
    async with asyncio.TaskGroup() as group:
        group.create_task(client.create(plain("a")))
        await asyncio.sleep(1.9)
        assert await names(kcr_cluster) == []
    assert await names(kcr_cluster) == ["a"]


async def test_lost_reply_is_a_write_that_happened(kcr_cluster: EmbeddedCluster) -> None:  # TK-8
    faults, client = faulty(kcr_cluster)
    faults.on("create").lose_reply()
    with pytest.raises(TransportError, match="the reply was lost"):
        await client.create(plain("a"))
    assert await names(kcr_cluster) == ["a"]


async def test_lost_request_is_a_write_that_did_not(kcr_cluster: EmbeddedCluster) -> None:  # TK-8
    faults, client = faulty(kcr_cluster)
    faults.on("delete", name="a").lose_request()
    await client.create(plain("a"))
    with pytest.raises(TransportError, match="the request was lost"):
        await client.delete(ConfigMap, Key("default", "a"))
    assert await names(kcr_cluster) == ["a"]


async def test_late_request_arrives_though_its_sender_has_ended(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:  # TK-8
    faults, client = faulty(kcr_cluster)
    faults.on("create").arrive_late(4)
    sending = asyncio.get_running_loop().create_task(client.create(plain("a")))
    await kcr_clock.advance(1)
    assert [request.method for request in faults.under_way] == ["POST"]
    sending.cancel()
    await kcr_clock.advance(2)
    assert await names(kcr_cluster) == []
    await faults.arrived()
    assert (await names(kcr_cluster), faults.under_way) == (["a"], [])


@pytest.mark.parametrize(
    ("cut_after", "answered", "ends_after"),
    [
        pytest.param(None, True, 4, id="answered"),
        pytest.param(0.3, True, 0.3, id="cut"),
        pytest.param(None, False, 30, id="timeout"),
    ],
)
async def test_sender_of_a_late_request_waits_as_long_as_it_is_told(
    kcr_cluster: EmbeddedCluster, cut_after: float | None, answered: bool, ends_after: float
) -> None:
    faults, client = faulty(kcr_cluster)
    faults.on("create").arrive_late(lambda: 4.0, cut_after=cut_after, answered=answered)
    loop = asyncio.get_running_loop()
    start = loop.time()
    if ends_after == 4:
        await client.create(plain("a"))
    else:
        with pytest.raises(TransportError, match=r"POST .*: the connection was cut"):
            await client.create(plain("a"))
    assert loop.time() - start == pytest.approx(ends_after)
    await faults.arrived()
    assert await names(kcr_cluster) == ["a"]


async def test_chance_is_drawn_for_each_request(kcr_cluster: EmbeddedCluster) -> None:  # TK-8
    faults, client = faulty(kcr_cluster)
    rule = faults.on("list", Pod, chance=0.3)
    rule.delay(0.1)
    for _ in range(100):
        await client.list(Pod)
    assert 15 < rule.met < 45


async def test_frozen_watch_is_given_up_after_its_silence(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    faults, client = faulty(kcr_cluster)  # TK-8
    faults.on("watch", ConfigMap).freeze(after=1)
    seen, ended = await follow(kcr_cluster, client)
    assert seen == ["a"]
    assert 91 <= ended < 92  # a second later the first line came, and 90 seconds nothing


async def test_cut_watch_ends_at_the_line_asked_for(kcr_cluster: EmbeddedCluster) -> None:  # TK-8
    faults, client = faulty(kcr_cluster)
    faults.on("watch", ConfigMap).cut(after=2)
    seen, ended = await follow(kcr_cluster, client)
    assert seen == ["a", "b"]
    assert ended < 5


async def test_repeated_watch_tells_everything_twice(kcr_cluster: EmbeddedCluster) -> None:  # TK-8
    faults, client = faulty(kcr_cluster)
    faults.on("watch", ConfigMap).repeat()
    faults.on("watch", ConfigMap).cut(after=6)
    seen, _ = await follow(kcr_cluster, client)
    assert seen == ["a", "a", "b", "b", "c", "c"]


async def follow(cluster: EmbeddedCluster, client: Client) -> tuple[list[str], float]:
    """What a watch sees of three creations, and when it breaks off."""
    seen: list[str] = []
    now = (await cluster.client.list_page(ConfigMap))[0].resource_version

    async def read() -> None:
        async with client.watch(ConfigMap, resource_version=now, timeout_seconds=3600) as events:
            async for event in events:
                seen.append(event.object.metadata.name)

    async with asyncio.TaskGroup() as group:
        watch = group.create_task(_until_cut(read()))
        await asyncio.sleep(1)
        for name in ("a", "b", "c"):
            await cluster.client.create(plain(name))
    return seen, watch.result()


async def _until_cut(reading: object) -> float:
    with pytest.raises(TransportError):
        await reading  # type: ignore[misc]  # a coroutine
    return asyncio.get_running_loop().time()


def plain(name: str) -> ConfigMap:
    return build.config_map(name, uid="", resource_version="", creation_timestamp=None)


async def test_lagging_watch_tells_each_line_later(kcr_cluster: EmbeddedCluster) -> None:  # TK-8
    faults, client = faulty(kcr_cluster)
    faults.on("watch", ConfigMap).lag(5)
    faults.on("watch", ConfigMap).cut(after=2)
    seen, ended = await follow(kcr_cluster, client)
    assert seen == ["a", "b"]
    # Both were written one after the other, and so they arrive.
    assert ended == pytest.approx(6)


async def test_lines_that_lag_by_different_times_keep_their_order(kcr_cluster: EmbeddedCluster) -> None:  # TK-8
    faults, client = faulty(kcr_cluster)
    faults.on("watch", ConfigMap).cut(after=2)
    delays = iter((5.0, 1.0, 3.0))
    faults.on("watch", ConfigMap).lag(lambda: next(delays))
    seen, ended = await follow(kcr_cluster, client)
    assert seen == ["a", "b"]
    assert ended == pytest.approx(6)


async def test_healed_wire_has_no_faults(kcr_cluster: EmbeddedCluster) -> None:  # TK-8
    faults, client = faulty(kcr_cluster)
    faults.on().fail(ServerError)
    with pytest.raises(ServerError):
        await client.get(Namespace, Key("", "default"))
    faults.heal()
    await client.get(Namespace, Key("", "default"))
    assert faults.calls == [Call("get", ("", "v1", "namespaces"), "default")] * 2


async def test_something_else_may_happen_first(kcr_cluster: EmbeddedCluster) -> None:  # TK-8
    faults, client = faulty(kcr_cluster)
    faults.on("create", ConfigMap, nth=1).then(lambda: kcr_cluster.client.create(plain("a")))
    with pytest.raises(AlreadyExistsError):
        await client.create(plain("a"))


@pytest.mark.parametrize(
    ("choose", "expected"),
    [
        pytest.param(lambda rule: rule.drop(), ["a", "c"], id="drop"),
        pytest.param(lambda rule: rule.repeat(), ["a", "b", "b", "c"], id="repeat"),
        pytest.param(lambda rule: rule.delay(7), ["a", "b", "c"], id="delay"),
        pytest.param(lambda rule: rule.change(rename), ["a", "renamed", "c"], id="change"),
        pytest.param(lambda rule: rule.cut(), ["a"], id="cut"),
        pytest.param(lambda rule: rule.cut(how="half"), ["a"], id="half"),
        pytest.param(lambda rule: rule.cut(how="end"), ["a"], id="end"),
        pytest.param(lambda rule: rule.freeze(), ["a"], id="freeze"),
    ],
)
async def test_only_the_chosen_event_of_a_watch_is_disturbed(
    kcr_cluster: EmbeddedCluster, choose: Callable[[Rule], None], expected: list[str]
) -> None:  # TK-8
    faults, client = faulty(kcr_cluster)
    rule = faults.on("event", ConfigMap, nth=2)
    choose(rule)
    seen: list[str] = []
    with suppress(TransportError, ApiError, TimeoutError):
        await asyncio.wait_for(_collect(kcr_cluster, client, seen), 100)
    assert (seen, rule.met) == (expected, 1)


def rename(obj: dict[str, Any]) -> None:
    obj["metadata"]["name"] = "renamed"


async def _collect(cluster: EmbeddedCluster, client: Client, seen: list[str]) -> None:
    """Collect the names of three creations until the watch ends."""
    now = (await cluster.client.list_page(ConfigMap))[0].resource_version
    for name in ("a", "b", "c"):
        await cluster.client.create(plain(name))
    async with client.watch(ConfigMap, resource_version=now, timeout_seconds=60) as events:
        async for event in events:
            if event.type != "BOOKMARK":
                seen.append(event.object.metadata.name)


async def test_delayed_event_delays_those_behind_it(kcr_cluster: EmbeddedCluster) -> None:
    faults, client = faulty(kcr_cluster)
    faults.on("event", name="a").delay(lambda: 7.0)
    faults.on("watch").cut(after=2, how="end")
    seen: list[str] = []
    await _collect(kcr_cluster, client, seen)
    assert seen == ["a", "b"]
    assert asyncio.get_running_loop().time() == pytest.approx(7)


async def test_watch_that_has_begun_is_held_until_it_is_released(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    faults, client = faulty(kcr_cluster)
    seen: list[str] = []
    released = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(_collect(kcr_cluster, client, seen))
        await kcr_clock.advance(1)
        faults.on("event", ConfigMap).then(released.wait)
        await kcr_cluster.client.create(plain("d"))
        await kcr_clock.advance(10)
        assert seen == ["a", "b", "c"]
        released.set()
        await kcr_clock.advance(1)
        assert seen == ["a", "b", "c", "d"]


async def test_lifted_rule_and_healed_wire_leave_open_watches_alone(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    faults, client = faulty(kcr_cluster)
    lag = faults.on("watch")
    lag.lag(5)
    faults.on("watch").repeat()
    faults.on("watch").cut(after=8)
    faults.on("event").delay(5)
    seen: list[str] = []
    async with asyncio.TaskGroup() as group:
        group.create_task(_collect(kcr_cluster, client, seen))
        await kcr_clock.advance(21)
        assert seen == ["a", "a", "b", "b", "c", "c"]
        lag.lift()
        faults.heal()
        await kcr_cluster.client.create(plain("d"))
        await kcr_clock.advance(1)
        assert seen[6:] == ["d"]


async def test_created_object_is_changed_on_its_way(kcr_cluster: EmbeddedCluster) -> None:
    faults, client = faulty(kcr_cluster)
    faults.on("create", ConfigMap).change(lambda obj: obj["metadata"].update(labels={"by": "webhook"}))
    assert (await client.create(plain("kept"))).metadata.labels == {"by": "webhook"}
    faults.on("patch", name="kept").change(lambda patch: patch["data"].update(by="webhook"))
    patched = await client.merge_patch(ConfigMap, Key("default", "kept"), {"data": {"a": "b"}})
    assert patched.data == {"a": "b", "by": "webhook"}


async def test_rule_matches_so_often_at_most(kcr_cluster: EmbeddedCluster) -> None:
    faults, client = faulty(kcr_cluster)
    rule = faults.on("write", most=2)
    rule.fail(ConflictError)
    refused = 0
    for name in ("a", "b", "c", "d"):
        try:
            await client.create(plain(name))
        except ConflictError:
            refused += 1
    assert (refused, rule.met, faults.seen) == (2, 2, {"409": 2})


async def test_outage_has_a_beginning_and_an_end(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    faults, client = faulty(kcr_cluster)
    await kcr_clock.advance(5)
    faults.on("create").during(10, 20).lose_request()
    created: list[float] = []
    for number in range(30):
        with suppress(TransportError):
            await client.create(plain(str(number)))
            created.append(number)
        await kcr_clock.advance(1)
    assert created == [*range(10), *range(20, 30)]


@pytest.mark.parametrize("verb", ["write", "get", "list", "event", ""])
async def test_drawn_faults_suit_what_they_happen_to(kcr_cluster: EmbeddedCluster, verb: Any) -> None:
    faults = FaultyTransport(kcr_cluster.transport, random=random.Random(1))
    client = Client(faults)
    faults.on(verb, chance=0.7).draw()
    for number in range(60):
        with suppress(ApiError, TransportError):
            await client.create(plain(str(number)))
        with suppress(ApiError, TransportError):
            await client.get(ConfigMap, Key("default", "0"))
        with suppress(ApiError, TransportError):
            await client.list(ConfigMap)
        if verb in ("event", ""):
            with suppress(ApiError, TransportError):
                async with client.watch(ConfigMap, resource_version="", timeout_seconds=5) as events:
                    async for _ in events:
                        pass
    await faults.arrived()
    names = {name.partition(" ")[0] for name in faults.seen}
    reads = {"delay", "lose_request", "lose_reply", "429", "500", "503", "page"}
    writes = reads | {"409", "arrive_late"}
    expected = {"write": writes, "get": reads, "list": reads, "event": {"delay", "repeat", "cut", "freeze"}, "": writes}
    assert names == expected[verb]


async def test_drawn_faults_are_those_named(kcr_cluster: EmbeddedCluster) -> None:
    faults, client = faulty(kcr_cluster)
    faults.on().draw("409", "500")
    for number in range(20):
        with suppress(ApiError):
            await client.create(plain(str(number)))
    assert set(faults.seen) == {"409", "500"}


async def test_one_seed_draws_the_same_faults_again(kcr_cluster: EmbeddedCluster) -> None:
    async def seen(seed: int) -> list[tuple[str, int]]:
        faults = FaultyTransport(kcr_cluster.transport, random=random.Random(seed))
        faults.on("list", chance=0.5).draw("429", "lose_request", "page 502")
        for _ in range(30):
            with suppress(ApiError, TransportError):
                await Client(faults).list(ConfigMap)
        return sorted(faults.seen.items())

    assert await seen(1) == await seen(1) != await seen(2)
