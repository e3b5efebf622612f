"""The breaker of a key: whose writes it slows, how it is reported, and whom it leaves alone."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

import kcr
from kcr.api.core import ConfigMap, Event
from kcr.api.full.apiextensions_v1 import CustomResourceDefinition
from kcr.api.meta import ObjectMeta
from kcr.dependents import set_controller
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]

KEY = kcr.Key("default", "wall")


class LightStatus(kcr.Object):
    """Whether it is on."""

    conditions: tuple[kcr.Condition, ...] = ()


class Light(kcr.Resource, api_version="example.dev/v1", plural="lights"):
    """A kind with a status of conditions."""

    status: LightStatus = LightStatus()


class Does:
    """Calls a function at each reconcile, and notes when."""

    def __init__(self, act: Callable[[kcr.Key], Awaitable[object]]) -> None:
        self.act, self.times = act, list[float]()

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        self.times.append(asyncio.get_running_loop().time())
        result = await self.act(key)
        return result if isinstance(result, kcr.Result) else kcr.Result()

    def since(self, seconds: float) -> int:
        return sum(time > asyncio.get_running_loop().time() - seconds for time in self.times)


class World:
    """A manager with one controller, and an outside writer."""

    def __init__(self, cluster: EmbeddedCluster, clock: VirtualClock) -> None:
        self.clock, self.client = clock, cluster.client
        self.manager = kcr.Manager(cluster.client, clock=clock, random=random.Random(0))
        self.walls = self.manager.store(ConfigMap)

    def add(self, act: Callable[[kcr.Key], Awaitable[object]], **options: Any) -> Does:
        does = Does(act)
        options.setdefault("watches", [kcr.watch(ConfigMap)])
        options.setdefault("breaker", 24)
        self.controller = self.manager.add_controller("painter", does, **options)
        return does

    @asynccontextmanager
    async def running(self, *, every: float = 0) -> AsyncIterator[None]:
        """Run, with an outside writer that turns the wall blue now and then; for 0 with none."""
        async with self.manager.running(), asyncio.TaskGroup() as group:
            metadata = ObjectMeta(name=KEY.name, namespace=KEY.namespace)
            await self.client.apply(ConfigMap(metadata=metadata, data={"size": "3 m"}))
            self.outside = group.create_task(self._paint(every))
            yield
            self.outside.cancel()

    async def _paint(self, every: float) -> None:
        outside = self.client.with_options(field_manager="outside")
        while every:
            await asyncio.sleep(every)
            await outside.merge_patch(ConfigMap, KEY, {"data": {"color": "blue"}})

    async def red(self, key: kcr.Key) -> None:
        wall = self.walls.get(key)
        if wall is not None and wall.data.get("color") != "red":
            await self.manager.client.merge_patch(ConfigMap, key, {"data": {"color": "red"}})

    @property
    def wall(self) -> ConfigMap:
        found = self.walls.get(KEY)
        assert found is not None
        return found

    @property
    def slowed(self) -> float | None:
        return self.manager.metrics.registry.get_sample_value("kcr_slowed_keys", {"controller": "painter"})


@pytest.fixture
def world(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> World:
    return World(kcr_cluster, kcr_clock)


async def test_key_whose_writes_are_undone_is_slowed(world: World) -> None:
    does = world.add(world.red)
    with capture_logs() as logs:
        async with world.running(every=0.2):
            await world.clock.advance(20)
            assert does.since(1) >= 5
            assert world.slowed == 0
            await world.clock.advance(60)
            assert world.slowed == 1
            await world.clock.advance(300)
            assert does.since(240) == 24
            found = world.controller.hot_loop(KEY, asyncio.get_running_loop().time())
    (line,) = [one for one in logs if "slowed" in one["event"]]
    assert line["event"] == "hot loop: two writers change a field by turns, slowed to one reconcile in 10 s"
    assert line["object"].startswith("data.color of configmaps default/wall by kcr, outside")
    assert found is not None
    assert (found.event, found.place) == (line["event"], line["object"])
    (event,) = [one for one in await world.client.list(Event, "default") if one.reason == "ReconcileSlowed"]
    assert "data.color of configmaps default/wall" in event.message


async def test_slowed_key_is_free_once_it_is_calm(world: World) -> None:
    does = world.add(world.red)
    with capture_logs() as logs:
        async with world.running(every=0.1):
            await world.clock.advance(60)
            assert world.slowed == 1
            world.outside.cancel()
            await world.clock.advance(75)
            assert world.slowed == 0
            assert world.controller.hot_loop(KEY, asyncio.get_running_loop().time() + 600) is None
            # Its changes are reconciled at once, as before.
            for number in range(10):
                await world.client.merge_patch(ConfigMap, KEY, {"data": {"color": f"shade {number}"}})
                await world.clock.advance(1)
            assert world.wall.data["color"] == "red"
            assert does.since(10) >= 10
    (line,) = [one for one in logs if "no longer slowed" in one["event"]]
    assert (line["controller"], line["namespace"], line["name"]) == ("painter", *KEY)


async def test_no_change_is_missed_while_slowed(world: World) -> None:
    world.add(world.red)
    async with world.running(every=0.1):
        await world.clock.advance(60)
        world.outside.cancel()
        await world.client.merge_patch(ConfigMap, KEY, {"data": {"color": "green"}})
        await world.clock.advance(10.1)
        assert world.wall.data["color"] == "red"


async def test_condition_that_flips_with_new_times_is_slowed(world: World) -> None:
    async def flip(key: kcr.Key) -> None:
        light = lights.get(key)
        if light is None or kcr.is_condition_true(light.status.conditions, "Ready"):
            return
        conditions = (ready("True"),)
        await world.manager.client.patch_status(light, replace(light, status=LightStatus(conditions=conditions)))

    def ready(status: str) -> kcr.Condition:
        return kcr.Condition(type="Ready", status=status, reason="R", last_transition_time=world.manager.clock.now())

    await world.client.create_manifest(CustomResourceDefinition, kcr.crd_manifest(Light))
    lights = world.manager.store(Light)
    does = world.add(flip, watches=[kcr.watch(Light)])
    async with world.running():
        await world.client.create(Light(metadata=ObjectMeta(name=KEY.name, namespace=KEY.namespace)))
        for _ in range(600):
            await world.clock.advance(0.2)
            light = await world.client.get(Light, KEY)
            await world.client.merge_patch(Light, KEY, {"status": {"conditions": []}}, subresource="status")
        assert world.slowed == 1
        assert does.since(60) <= 7
        del light


async def test_children_without_end_are_slowed(world: World) -> None:
    async def create(key: kcr.Key) -> None:
        wall = world.walls.get(key)
        if key == KEY and wall is not None:
            child = ConfigMap(metadata=ObjectMeta(generate_name="brick-", namespace="default"))
            await world.manager.client.create(set_controller(child, wall))
            await asyncio.sleep(0.02)

    does = world.add(create, watches=[kcr.watch(ConfigMap), kcr.owned(ConfigMap, by=ConfigMap)])
    async with world.running():
        await world.clock.advance(200)
        assert world.slowed == 1
        assert does.since(60) <= 14


async def test_many_new_objects_slow_nobody(world: World) -> None:
    """A bulk: a child and the counter of its owner with each reconcile, some twenty a second for half a minute."""
    bricks = 600

    async def build(key: kcr.Key) -> kcr.Result | None:
        wall = world.walls.get(key)
        laid = int(wall.data.get("laid", "0")) if wall is not None else bricks
        if key != KEY or laid == bricks:
            return None
        await world.manager.client.create(ConfigMap(metadata=ObjectMeta(name=f"brick-{laid}", namespace="bricks")))
        await world.manager.client.merge_patch(ConfigMap, key, {"data": {"laid": str(laid + 1)}})
        await asyncio.sleep(0.05)
        return None

    world.add(build)
    async with world.running():
        await world.client.create(kcr.api.core.Namespace(metadata=ObjectMeta(name="bricks")))
        await world.clock.advance(40)
        assert world.slowed == 0
        assert world.wall.data["laid"] == str(bricks)


async def test_writes_that_change_nothing_slow_nobody(world: World) -> None:
    async def apply(key: kcr.Key) -> None:
        child = ConfigMap(metadata=ObjectMeta(name="child", namespace="default"), data={"a": "b"})
        await world.manager.client.apply(child, force=True)

    does = world.add(apply, watches=[kcr.watch(ConfigMap, predicate=lambda old, new: (new or old).key == KEY)])
    async with world.running():
        for number in range(400):
            await world.client.merge_patch(ConfigMap, KEY, {"data": {"n": str(number)}})
            await world.clock.advance(0.2)
        assert world.slowed == 0
        assert does.since(60) >= 290


async def test_breaker_none_slows_nobody(world: World) -> None:
    does = world.add(world.red, breaker=None)
    async with world.running(every=0.1):
        await world.clock.advance(40)
        assert does.since(10) >= 100
        assert world.slowed == 0


async def test_lowest_limit_slows_once_the_writes_are_known(world: World) -> None:
    world.add(world.red, breaker=0.01)
    with capture_logs() as logs:
        async with world.running(every=0.5):
            await world.clock.advance(30)
            assert world.slowed == 1
    (line,) = [one for one in logs if "slowed" in one["event"]]
    assert line["event"] == "hot loop: own writes are repeated, slowed to one reconcile in 10 s"
    assert line["object"] == "configmaps default/wall"


async def test_failing_key_keeps_its_backoff(world: World) -> None:
    async def fail(key: kcr.Key) -> None:
        await world.red(key)
        raise kcr.RetryLater("no", after=0.2)

    does = world.add(fail)
    async with world.running(every=0.1):
        await world.clock.advance(40)
        assert does.since(10) >= 40
        assert world.slowed == 0


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 30))])
async def test_key_without_own_writes_is_never_slowed(world: World, seed: int) -> None:
    """Each key is reconciled as often as can be; those named `r-…` read, the others write what they find to and fro."""
    draw = random.Random(seed)

    async def act(key: kcr.Key) -> kcr.Result:
        if key.name.startswith("w-"):
            await world.manager.client.merge_patch(ConfigMap, key, {"data": {"color": draw.choice("ab")}})
        elif draw.random() < 0.1:
            await world.manager.client.get(ConfigMap, key)
        return kcr.Result(requeue_after=draw.choice((0.02, 0.1, 0.3)))

    does = world.add(act, workers=3, own_writes=draw.choice((True, False)), retry_on_event=draw.choice((True, False)))
    async with world.running():
        for name in ("r-0", "r-1", "w-0", "w-1"):
            await world.client.create(ConfigMap(metadata=ObjectMeta(name=name, namespace="default")))
        for _ in range(120):
            await world.clock.advance(0.5)
            await world.client.merge_patch(ConfigMap, kcr.Key("default", "r-0"), {"data": {"n": str(draw.random())}})
        slowed = {key.name for key in (kcr.Key("default", f"{kind}-{n}") for kind in "rw" for n in "01")
                  if (found := world.controller.hot_loop(key, asyncio.get_running_loop().time()))
                  and "slowed" in found.event}  # fmt: skip
        assert slowed == {"w-0", "w-1"}
        assert world.slowed == 2
    assert len(does.times) > 1000
