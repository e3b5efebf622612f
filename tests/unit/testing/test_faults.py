import asyncio

import pytest

from kcr.api.core import ConfigMap, Namespace, Pod
from kcr.api.meta import Key
from kcr.client import Client
from kcr.errors import AlreadyExistsError, ApiError, ConflictError, ServerError, TooManyRequestsError, TransportError
from kcr.testing import FaultyTransport, VirtualClock, build
from kcr_devcluster.calls import Call
from kcr_devcluster.cluster import EmbeddedCluster

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
