"""Gangs get nodes all at once or not at all (KEP-4671)."""

from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
import pytest_asyncio

from kcr.api.meta import Key
from kcr.api.scheduling import BetaPodGroup
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import FOREVER, RunResult
from tests.kit.node_pods import delete, events
from tests.kit.scheduling import change_node, node_of, schedule, why_unscheduled

pytestmark = pytest.mark.kcr_virtual

NODE = "kcr-node-0"
GROUP: dict[str, Any] = {"schedulingGroup": {"podGroupName": "g"}}


@pytest_asyncio.fixture
async def cluster(kcr_clock: VirtualClock) -> AsyncIterator[EmbeddedCluster]:
    """A cluster with a node of four cpus, whose pods run until they are deleted."""
    async with EmbeddedCluster(
        clock=kcr_clock, random=Random(0), gangs=True, kubernetes_version="1.37",
        on_run=lambda *_: RunResult(run_for=FOREVER),
    ) as running:  # fmt: skip
        await kcr_clock.advance(1)
        await change_node(running.client, NODE, {"allocatable": {"cpu": "4"}}, status=True)
        await kcr_clock.advance(1)
        yield running


async def add_group(cluster: EmbeddedCluster, policy: dict[str, Any], name: str = "g") -> None:
    made = {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy}}
    await cluster.client.create_manifest(BetaPodGroup, made, "default")


async def add_pods(cluster: EmbeddedCluster, *names: str, cpu: str = "1") -> None:
    for name in names:
        await schedule(cluster.client, name, cpu=cpu, **GROUP)


async def placed(cluster: EmbeddedCluster, *names: str) -> list[bool]:
    return [bool(await node_of(cluster.client, name)) for name in names]


async def condition(cluster: EmbeddedCluster) -> tuple[str, str]:
    group = await cluster.client.get(BetaPodGroup, Key("default", "g"))
    return next(((one.status, one.message) for one in group.status.conditions), ("", ""))


async def test_gang_waits_for_its_pods(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await add_group(cluster, {"gang": {"minCount": 3}})
    await add_pods(cluster, "a", "b")
    await kcr_clock.advance(60)
    assert await placed(cluster, "a", "b") == [False, False]
    # As upstream, that is no failure: there are neither events nor conditions.
    assert (await events(cluster.client, "a"), await condition(cluster)) == ([], ("", ""))
    await add_pods(cluster, "c")
    await kcr_clock.advance(1)
    assert await placed(cluster, "a", "b", "c") == [True] * 3
    assert await condition(cluster) == ("True", "")


async def test_gang_waits_for_room_for_all(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await schedule(cluster.client, "other", cpu="2")
    await kcr_clock.advance(1)
    await add_group(cluster, {"gang": {"minCount": 3}})
    await add_pods(cluster, "a", "b", "c")
    await kcr_clock.advance(60)
    assert await placed(cluster, "a", "b", "c") == [False] * 3
    message = "2 of 3 pods can be placed; waits for room: 0/1 nodes are available: 1 Insufficient cpu."
    assert [await why_unscheduled(cluster.client, name) for name in "abc"] == [f"gang g: {message}"] * 3
    assert await events(cluster.client, "a") == [("FailedScheduling", 1, f"gang g: {message}")]
    assert await condition(cluster) == ("False", message)
    # What the gang cannot use yet is free for others.
    await schedule(cluster.client, "small", cpu="2")
    await kcr_clock.advance(1)
    assert await placed(cluster, "small") == [True]
    for name in ("other", "small"):
        await delete(cluster.client, name)
    await kcr_clock.advance(40)
    assert await placed(cluster, "a", "b", "c") == [True] * 3


async def test_two_gangs_never_hold_half_of_the_room_each(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    for name in ("g", "h"):
        await add_group(cluster, {"gang": {"minCount": 3}}, name)
    for number in range(3):
        for name in ("g", "h"):
            member = {"schedulingGroup": {"podGroupName": name}}
            await schedule(cluster.client, f"{name}{number}", cpu="1", **member)
    await kcr_clock.advance(60)
    assert sorted([sum(await placed(cluster, *(f"{name}{n}" for n in range(3)))) for name in "gh"]) == [0, 3]


async def test_pods_beyond_the_size_are_placed_as_far_as_there_is_room(
    cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    await add_pods(cluster, "a", "b", "c", "d", "e")
    await add_group(cluster, {"gang": {"minCount": 3}})
    await kcr_clock.advance(60)
    assert sum(await placed(cluster, *"abcde")) == 4
    await delete(cluster.client, "a")
    await delete(cluster.client, "b")
    await kcr_clock.advance(40)
    # One of the gang takes the place of another: the gang has been scheduled.
    assert sum(await placed(cluster, *"cde")) == 3


async def test_group_without_a_gang_holds_no_pod_back(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await add_group(cluster, {"basic": {}})
    await add_pods(cluster, "a")
    await kcr_clock.advance(1)
    assert await placed(cluster, "a") == [True]


async def test_smaller_size_lets_a_gang_start(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await add_group(cluster, {"gang": {"minCount": 5}})
    await add_pods(cluster, "a", "b", "c", "d", "e")
    await kcr_clock.advance(60)
    assert sum(await placed(cluster, *"abcde")) == 0
    patch = {"spec": {"schedulingPolicy": {"gang": {"minCount": 4}}}}
    await cluster.client.merge_patch(BetaPodGroup, Key("default", "g"), patch)
    await kcr_clock.advance(1)
    assert sum(await placed(cluster, *"abcde")) == 4


async def test_finalizer_holds_a_group_until_its_pods_have_ended(
    cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    key = Key("default", "g")
    await add_group(cluster, {"gang": {"minCount": 1}})
    await add_pods(cluster, "a")
    await kcr_clock.advance(5)
    await cluster.client.delete(BetaPodGroup, key)
    await kcr_clock.advance(60)
    assert (await cluster.client.get(BetaPodGroup, key)).metadata.deletion_timestamp is not None
    await delete(cluster.client, "a")
    await kcr_clock.advance(1)
    assert await cluster.client.list(BetaPodGroup, "default") == ()
