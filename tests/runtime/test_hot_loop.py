"""Hot loops: what is said of two writers of one field, and of one that never agrees with itself."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import pytest
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

import kcr
from kcr.api.core import ConfigMap, Secret
from kcr.api.meta import Key, ObjectMeta
from kcr.client import Client, Request, Response, Transport
from kcr.testing import FakeManager, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing import loop

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]

KEY = Key("default", "wall")
ENDLESS = "hot loop: each reconcile creates another object"
SLOWED = f"{ENDLESS}, slowed to one reconcile in 10 s"


class Painter:
    """A reconciler that wants the wall in its color, or in a new one each time."""

    def __init__(
        self, kcr_manager: kcr.Manager, color: str = "", coats: int = 10**9, manager: str = "", seconds: float = 0.02
    ) -> None:
        self._client = kcr_manager.client.with_options(field_manager=manager or f"painter-{color}")
        self._walls = kcr_manager.store(ConfigMap)
        self._color = color
        self._seconds = seconds
        self.coats = coats

    async def reconcile(self, key: Key) -> kcr.Result:
        await asyncio.sleep(self._seconds)
        wall = self._walls.get(key)
        if key != KEY or wall is None or wall.data.get("color") == self._color or not self.coats:
            return kcr.Result()
        self.coats -= 1
        color = self._color or f"shade {self.coats}"
        await self._client.merge_patch(ConfigMap, key, {"data": {"color": color}})
        return kcr.Result()


class Silent:
    """A transport to a server that does not answer who has written an object."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.asked = 0

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        if "fieldSelector" in request.target:
            self.asked += 1
            await asyncio.get_running_loop().create_future()
        async with self.inner.send(request) as response:
            yield response


async def paint(
    cluster: EmbeddedCluster,
    clock: VirtualClock,
    *colors: str,
    limit: float = 10,
    client: Client | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Let painters work for a while, and return their warnings."""
    with capture_logs() as logs:
        async with AsyncExitStack() as stack:
            for color in colors:
                manager = kcr.Manager(client or cluster.client, clock=clock, random=random.Random(0))
                manager.add_controller("painter", Painter(manager, color, **options), watches=[kcr.watch(ConfigMap)])
                await stack.enter_async_context(manager.running())
            wall = ConfigMap(metadata=ObjectMeta(name=KEY.name, namespace=KEY.namespace), data={"size": "3 m"})
            # The embedded server keeps managedFields from the first apply on.
            await cluster.client.apply(wall)
            await clock.advance(limit)
    return [dict(line) for line in logs if line["log_level"] == "warning"]


async def test_two_writers_of_a_field_are_named(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    mine, other = await paint(kcr_cluster, kcr_clock, "red", "blue")
    assert mine["event"] == "hot loop: two writers change a field by turns"
    assert mine["object"] == "configmaps default/wall"
    assert mine["fields"] == ["data.color"]
    assert mine["writers"] == other["writers"] == ["painter-blue", "painter-red"]
    assert mine["reconciles"] >= 100


async def test_finding_is_kept_for_ten_minutes(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    manager = kcr.Manager(kcr_cluster.client, clock=kcr_clock, random=random.Random(0))
    painter = Painter(manager, coats=300)
    controller = manager.add_controller("painter", painter, watches=[kcr.watch(ConfigMap)])
    running = asyncio.get_running_loop()
    async with manager.running():
        await kcr_cluster.client.apply(ConfigMap(metadata=ObjectMeta(name=KEY.name, namespace=KEY.namespace)))
        await kcr_clock.advance(20)
        found = controller.hot_loop(KEY, running.time())
        assert found is not None
        assert found.event == "hot loop: each write enqueues the key again"
        assert found.place.startswith("data.color of configmaps default/wall")
        # A ConfigMap has no generation.
        assert found.remedy == "write only when something else differs"
        assert controller.hot_loop(Key("default", "door"), running.time()) is None
        await kcr_clock.advance(600)
        assert controller.hot_loop(KEY, running.time()) is None
        # The next one is found as the first one was.
        painter.coats = 300
        await kcr_cluster.client.merge_patch(ConfigMap, KEY, {"data": {"size": "3 m"}})
        await kcr_clock.advance(20)
        assert controller.hot_loop(KEY, running.time()) == found


@pytest.mark.soak
async def test_one_name_of_two_writers_is_said_to_be_one(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    lines = await paint(kcr_cluster, kcr_clock, "red", "blue", manager="painter")
    for line in lines:
        assert line["event"] == "hot loop: one writer changes a field to and fro"
        assert line["writers"] == ["painter"]
        assert "whether two programs write under its name" in line["remedy"]
    assert len(lines) == 2


async def test_server_that_does_not_tell_the_writers_holds_up_no_worker(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    silent = Silent(kcr_cluster.transport)
    lines = await paint(kcr_cluster, kcr_clock, "red", "blue", limit=40, client=Client(silent), seconds=0.1)
    assert [line["event"] for line in lines] == ["hot loop: a field changes to and fro"] * 2
    assert not [line for line in lines if "writers" in line]
    assert silent.asked >= 2


async def test_reconciler_that_enqueues_itself_is_told_so(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    (line,) = await paint(kcr_cluster, kcr_clock, "")
    assert line["event"] == "hot loop: each write enqueues the key again"
    assert (line["object"], line["fields"], line["writers"]) == (
        "configmaps default/wall",
        ["data.color"],
        ["painter-"],
    )


async def test_busy_spell_that_ends_is_no_hot_loop(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    assert not await paint(kcr_cluster, kcr_clock, "", coats=90)


async def test_values_of_fields_are_not_shown(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    lines = await paint(kcr_cluster, kcr_clock, "hunter2", "s3cret")
    shown = " ".join(str({**line, "writers": ""}) for line in lines)
    assert lines
    assert "hunter2" not in shown
    assert "s3cret" not in shown


@pytest.mark.parametrize("values", [10**9, 3], ids=["always-new", "to-and-fro"])
async def test_objects_that_change_with_others_are_no_loop(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, values: int
) -> None:
    class Counts:
        """Follows the changes of others, and writes what it has counted, perhaps the same again and again."""

        def __init__(self, manager: kcr.Manager) -> None:
            self._client, self._seen = manager.client, 0

        async def reconcile(self, key: Key) -> kcr.Result:
            self._seen += 1
            await self._client.merge_patch(ConfigMap, KEY, {"data": {"seen": str(self._seen // 2 % values)}})
            return kcr.Result()

    with capture_logs() as logs:
        manager = kcr.Manager(kcr_cluster.client, clock=kcr_clock, random=random.Random(0))
        to_wall = kcr.watch(ConfigMap, map_to=lambda _: (KEY,))
        for name in (KEY.name, "source"):
            await kcr_cluster.client.apply(ConfigMap(metadata=ObjectMeta(name=name, namespace="default")))
        manager.add_controller("counts", Counts(manager), watches=[to_wall])
        async with manager.running():
            for number in range(200):
                await kcr_cluster.client.merge_patch(ConfigMap, Key("default", "source"), {"data": {"n": str(number)}})
                await kcr_clock.advance(0.1)
    assert not [line for line in logs if line["log_level"] == "warning"]


class Impatient:
    """A reconciler that asks for its key again so many times."""

    def __init__(self, after: float, times: int) -> None:
        self._after, self.times = after, times

    async def reconcile(self, key: Key) -> kcr.Result:
        self.times -= 1
        return kcr.Result(requeue_after=self._after if self.times else None)


@pytest.mark.parametrize("after", [0, -3, 0.0005])
async def test_key_that_is_requeued_at_once_is_a_hot_loop(kcr_clock: VirtualClock, after: float) -> None:
    manager, reconciler = FakeManager(clock=kcr_clock), Impatient(after, 250)
    controller = manager.add_controller("impatient", reconciler, watches=[kcr.watch(ConfigMap)])
    with capture_logs([merge_contextvars]) as logs:
        async with manager.running():
            controller.queue.add(KEY)
            await kcr_clock.advance(10)
            finding = controller.hot_loop(KEY, asyncio.get_running_loop().time())
    (line,) = [line for line in logs if line["log_level"] == "warning"]
    assert line["event"] == "hot loop: each reconcile requeues its key at once"
    assert (line["controller"], line["name"], line["reconciles"]) == ("impatient", "wall", 100)
    assert line["remedy"].startswith("return requeue_after with the seconds to wait")
    assert finding == (line["event"], "", line["remedy"])
    assert reconciler.times == 0


@pytest.mark.parametrize(("after", "times"), [(0, 99), (0.1, 250)], ids=["few", "with-a-wait"])
async def test_requeue_now_and_then_is_no_hot_loop(kcr_clock: VirtualClock, after: float, times: int) -> None:
    manager = FakeManager(clock=kcr_clock)
    controller = manager.add_controller("impatient", Impatient(after, times), watches=[kcr.watch(ConfigMap)])
    with capture_logs() as logs:
        async with manager.running():
            controller.queue.add(KEY)
            await kcr_clock.advance(59)
    assert not [line for line in logs if line["log_level"] == "warning"]


async def test_requeues_at_once_are_named_again_after_ten_minutes(kcr_clock: VirtualClock) -> None:
    manager, reconciler = FakeManager(clock=kcr_clock), Impatient(0, 150)
    controller = manager.add_controller("impatient", reconciler, watches=[kcr.watch(ConfigMap)])
    with capture_logs() as logs:
        async with manager.running():
            for _ in range(13):
                reconciler.times = 150
                controller.queue.add(KEY)
                await kcr_clock.advance(60)
    assert len([line for line in logs if line["log_level"] == "warning"]) == 2


@pytest.mark.soak
async def test_writers_that_never_wait_let_virtual_time_pass(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "MOST_PASSES", 1_000)
    lines = await paint(kcr_cluster, kcr_clock, "red", "blue", seconds=0.0, limit=0.1)
    assert 0.1 <= asyncio.get_running_loop().time() < 1
    events = [line["event"] for line in lines]
    assert events.count("hot loop: two writers change a field by turns") == 2
    assert events.count("the event loop is never idle, so virtual time passes although work is left") == 1


class Parent:
    """A reconciler that creates the child of a ConfigMap whenever it is missing, under its own name or a drawn one."""

    def __init__(self, manager: kcr.Manager, *, draws: bool) -> None:
        self._client, self._walls, self._draws = manager.client, manager.store(ConfigMap), draws
        self._children = manager.store(Secret)

    async def reconcile(self, key: Key) -> kcr.Result:
        await asyncio.sleep(0.02)
        wall = self._walls.get(key)
        if key == KEY and wall is not None and not self._children.list(key.namespace):
            name, prefix = ("", "child-") if self._draws else ("child", "")
            child = Secret(metadata=ObjectMeta(name=name, generate_name=prefix, namespace=key.namespace))
            await self._client.create(kcr.set_controller(child, wall))
        return kcr.Result()


class Deleter:
    """A program that deletes all Secrets."""

    def __init__(self, manager: kcr.Manager) -> None:
        self._client = manager.client

    async def reconcile(self, key: Key) -> kcr.Result:
        await asyncio.sleep(0.02)
        with suppress(kcr.NotFoundError):
            await self._client.delete(Secret, key)
        return kcr.Result()


@pytest.mark.parametrize("draws", [False, True], ids=["its-name", "drawn-names"])
async def test_child_that_another_program_deletes_is_a_hot_loop(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, draws: bool
) -> None:
    client = kcr_cluster.client.with_options(field_manager="parent")
    await kcr_cluster.client.create(ConfigMap(metadata=ObjectMeta(name=KEY.name, namespace=KEY.namespace)))
    mine, other = [kcr.Manager(client, clock=kcr_clock, random=random.Random(seed)) for seed in (0, 1)]
    watches = [kcr.watch(ConfigMap), kcr.owned(Secret, by=ConfigMap)]
    controller = mine.add_controller("parent", Parent(mine, draws=draws), watches=watches)
    other.add_controller("deleter", Deleter(other), watches=[kcr.watch(Secret)])
    with capture_logs() as logs:
        async with mine.running(), other.running():
            await kcr_clock.advance(10)
            finding = controller.hot_loop(KEY, asyncio.get_running_loop().time())
    lines = [line for line in logs if line["event"].startswith("hot loop")]
    # That of the other program finds the loop too, where the name is always the same.
    line, *_ = [line for line in lines if line["object"].startswith("secrets default/child")]
    assert line["event"] == "hot loop: objects are deleted and created again"
    assert "fields" not in line
    assert line["remedy"].startswith("see who deletes them")
    assert finding is not None
    assert finding.place.startswith("secrets default/child")


class Endless:
    """A reconciler that creates children of a ConfigMap, one each time, and never looks whether there is one."""

    def __init__(self, manager: kcr.Manager, *, draws: bool, most: int = 10**9) -> None:
        self._client, self._walls, self._draws, self.rest = manager.client, manager.store(ConfigMap), draws, most

    async def reconcile(self, key: Key) -> kcr.Result:
        await asyncio.sleep(0.02)
        wall = self._walls.get(key)
        if key == KEY and wall is not None and self.rest:
            self.rest -= 1
            name, prefix = ("", "child-") if self._draws else (f"child-{self.rest}", "")
            child = Secret(metadata=ObjectMeta(name=name, generate_name=prefix, namespace=key.namespace))
            await self._client.create(kcr.set_controller(child, wall))
        return kcr.Result()


@pytest.mark.parametrize(
    ("draws", "most", "events"),
    [
        pytest.param(True, 10**9, [ENDLESS, SLOWED], id="drawn-names"),
        pytest.param(False, 10**9, [ENDLESS, SLOWED], id="names-that-differ"),
        pytest.param(False, 120, [], id="it-ends"),
    ],
)
async def test_children_that_are_created_without_end_are_a_hot_loop(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, draws: bool, most: int, events: list[str]
) -> None:
    await kcr_cluster.client.create(ConfigMap(metadata=ObjectMeta(name=KEY.name, namespace=KEY.namespace)))
    manager = kcr.Manager(kcr_cluster.client, clock=kcr_clock, random=random.Random(0))
    watches = [kcr.watch(ConfigMap), kcr.owned(Secret, by=ConfigMap)]
    controller = manager.add_controller("parent", Endless(manager, draws=draws, most=most), watches=watches)
    with capture_logs() as logs:
        async with manager.running():
            await kcr_clock.advance(10)
            finding = controller.hot_loop(KEY, asyncio.get_running_loop().time())
    lines = [line for line in logs if line["event"].startswith("hot loop")]
    assert [line["event"] for line in lines] == events
    assert (finding is not None) == bool(events)
    for line in lines:
        assert line["object"].startswith("secrets default/child-")
        assert line["remedy"].startswith("look for the object before you create one")
