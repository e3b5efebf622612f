import asyncio
import gc
import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

import kcr
from kcr.api.batch import Job
from kcr.api.core import Event, Namespace, Pod
from kcr.api.meta import Key, ObjectMeta
from kcr.app.faults import unexpected
from kcr.client import Client
from kcr.errors import ForbiddenError, LeadershipLostError
from kcr.informer import Selection
from kcr.serving.health import ProbeResult
from kcr.testing import CrashingTransport, FakeSource, FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.transports import late_watches

pytestmark = pytest.mark.kcr_virtual


class Greeter:
    """Labels every namespace, and tells."""

    def __init__(self, manager: kcr.Manager) -> None:
        self._client = manager.client
        self._namespaces = manager.store(Namespace)
        self._recorder = manager.recorder("greeter")
        self.seen: list[str] = []

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        self.seen.append(key.name)
        found = self._namespaces.get(key)
        if found is not None and "greeted" not in found.metadata.labels:
            await self._client.merge_patch(Namespace, key, {"metadata": {"labels": {"greeted": "yes"}}})
            self._recorder.event(found, "Normal", "Greeted", f"Hello {key.name}")
        return kcr.Result()


def manager_on(client: Client, clock: VirtualClock) -> kcr.Manager:
    return kcr.Manager(client, clock=clock, random=random.Random(0))


@asynccontextmanager
async def task_of(manager: kcr.Manager) -> AsyncIterator[asyncio.Task[None]]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(manager.run())
        await manager.wait_ready()
        yield task
        task.cancel()


async def create(cluster: EmbeddedCluster, name: str) -> None:
    await cluster.client.create(Namespace(metadata=ObjectMeta(name=name)))


async def test_change_travels_from_watch_to_write_and_event(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    manager = manager_on(kcr_cluster.client, kcr_clock)
    greeter = Greeter(manager)
    manager.add_controller("greeter", greeter, watches=[kcr.watch(Namespace)])
    async with manager.running():
        await create(kcr_cluster, "team")
        await kcr_clock.advance(1)
        assert (await kcr_cluster.client.get(Namespace, Key("", "team"))).metadata.labels["greeted"] == "yes"
        events = [event.message for event in await kcr_cluster.client.list(Event, "default")]
        assert "Hello team" in events


async def test_controllers_start_with_full_stores(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:  # CM-12, CM-20
    for number in range(20):
        await create(kcr_cluster, f"team-{number}")
    manager = manager_on(kcr_cluster.client, kcr_clock)
    counts: list[int] = []

    class Counter:
        async def reconcile(self, key: kcr.Key) -> kcr.Result:
            counts.append(len(manager.store(Namespace)))
            return kcr.Result()

    manager.add_controller("counter", Counter(), watches=[kcr.watch(Namespace)])
    async with manager.running():
        await kcr_clock.advance(1)
    assert len(counts) >= 20
    assert set(counts) == {len(counts)}


async def test_store_and_informer_of_a_kind_are_made_once(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    manager = manager_on(kcr_cluster.client, kcr_clock)
    assert manager.informer(Pod) is manager.informer(Pod)
    assert manager.store(Pod) is manager.informer(Pod).store
    assert manager.recorder("a") is manager.recorder("a")
    assert manager.recorder("a") is not manager.recorder("b")


async def test_two_controllers_of_one_name_are_refused(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:  # CM-3
    manager = manager_on(kcr_cluster.client, kcr_clock)
    manager.add_controller("greeter", Greeter(manager))
    with pytest.raises(ValueError, match="controller greeter"):
        manager.add_controller("greeter", Greeter(manager))


async def test_watch_added_to_a_running_controller_enqueues_its_keys(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    manager = manager_on(kcr_cluster.client, kcr_clock)
    greeter = Greeter(manager)
    controller = manager.add_controller("greeter", greeter)
    async with manager.running():
        await create(kcr_cluster, "before")
        await kcr_clock.settle()
        assert greeter.seen == []
        manager.add_watch(controller, kcr.watch(Namespace))
        await create(kcr_cluster, "after")
        await kcr_clock.settle()
        assert {"before", "after"} <= set(greeter.seen)


async def test_controller_added_late_runs_as_well(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:  # CM-12, CM-21
    manager = manager_on(kcr_cluster.client, kcr_clock)
    async with manager.running():
        greeter = Greeter(manager)
        manager.add_controller("greeter", greeter, watches=[kcr.watch(Namespace)])
        await create(kcr_cluster, "team")
        await kcr_clock.advance(1)
        assert "team" in greeter.seen
        assert len(await kcr_cluster.client.list(Event, "default")) > 0


async def test_owner_is_reconciled_when_its_dependent_changes(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:  # CM-15
    manager = manager_on(kcr_cluster.client, kcr_clock)
    seen: list[kcr.Key] = []

    class Watcher:
        async def reconcile(self, key: kcr.Key) -> kcr.Result:
            seen.append(key)
            return kcr.Result()

    manager.add_controller("watcher", Watcher(), watches=[kcr.owned(Pod, by=Job)])
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "pi", "uid": "1", "controller": True}
    async with manager.running():
        for name, owners in (("ours", [owner]), ("alone", [])):
            pod = {
                "metadata": {"name": name, "ownerReferences": owners},
                "spec": {"containers": [{"name": "main", "image": "busybox"}]},
            }
            await kcr_cluster.client.create_manifest(Pod, pod, "default")
        await kcr_clock.settle()
    assert set(seen) == {kcr.Key("default", "pi")}


async def test_failure_of_a_component_stops_all_and_comes_out_as_it_is(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:  # CM-21
    class Broken:
        async def run(self) -> None:
            await asyncio.sleep(5)
            raise ZeroDivisionError("component")

    manager = manager_on(kcr_cluster.client, kcr_clock)
    manager.add_controller("greeter", Greeter(manager), watches=[kcr.watch(Namespace)])
    manager.add(Broken())
    with pytest.raises(ZeroDivisionError, match="component"):
        await manager.run()
    assert not [task for task in asyncio.all_tasks() if "greeter" in task.get_name()]


async def test_store_that_cannot_be_filled_stops_the_manager_and_says_why(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:  # CM-12, IN-8
    faults = FaultyTransport(kcr_cluster.transport)
    manager = manager_on(Client(faults), kcr_clock)
    manager.store(Namespace)
    manager.store(Job)
    faults.on("list", Job).fail(ForbiddenError)
    faults.on("watch", Job).fail(ForbiddenError)
    with (
        capture_logs() as logs,
        pytest.raises(kcr.NotSyncedError, match=r"not synced after 120 s: jobs\.batch: forbidden"),
    ):
        await manager.run()
    waiting = [line for line in logs if line["event"] == "waiting for caches to sync"]
    assert len(waiting) == 5
    assert {line["kinds"] for line in waiting} == {1}
    assert all("jobs.batch: forbidden, list and watch are needed" in line["error"] for line in waiting)


async def test_stopping_manager_writes_the_last_events(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:  # CM-22, CM-24
    manager = manager_on(kcr_cluster.client, kcr_clock)
    namespace = await kcr_cluster.client.get(Namespace, Key("", "default"))

    class Slow:
        async def reconcile(self, key: kcr.Key) -> kcr.Result:
            await asyncio.sleep(1)
            manager.recorder("slow").event(namespace, "Normal", "Finished", "in time")
            return kcr.Result()

    controller = manager.add_controller("slow", Slow())
    manager.recorder("slow")
    async with manager.running():
        controller.queue.add(kcr.Key("", "default"))
        await kcr_clock.settle()
    assert "in time" in [event.message for event in await kcr_cluster.client.list(Event, "default")]


async def test_server_that_hangs_delays_the_end_by_seconds_only(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:  # CM-23
    transport = CrashingTransport(kcr_cluster.transport)
    manager = manager_on(Client(transport), kcr_clock)
    greeter = Greeter(manager)
    manager.add_controller("greeter", greeter, watches=[kcr.watch(Namespace)])
    async with task_of(manager) as task:
        transport.crash_after(transport.writes + 1)
        await create(kcr_cluster, "team")
        await kcr_clock.advance(1)
        assert transport.crashed.is_set()
        manager.recorder("greeter").event(
            await kcr_cluster.client.get(Namespace, Key("", "team")), "Normal", "Last", "words"
        )
        began = kcr_clock.now()
        task.cancel()
        await asyncio.wait([task])
        assert (kcr_clock.now() - began).total_seconds() <= 4.5


async def test_manager_cancelled_before_it_is_synced_ends_at_once(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    transport = CrashingTransport(kcr_cluster.transport)
    transport.crash_after(0)
    manager = manager_on(Client(transport), kcr_clock)
    manager.add_controller("greeter", Greeter(manager), watches=[kcr.watch(Namespace)])
    async with asyncio.TaskGroup() as group:
        task = group.create_task(manager.run())
        await kcr_clock.advance(1)
        task.cancel()
    assert asyncio.get_running_loop().time() == 1


async def test_nothing_is_added_to_a_manager_that_stops(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:  # CM-21
    manager = manager_on(kcr_cluster.client, kcr_clock)
    async with manager.running():
        await kcr_clock.settle()
    with pytest.raises(RuntimeError, match="the manager is stopping"):
        manager.add_controller("greeter", Greeter(manager))


@pytest.mark.soak
async def test_many_cached_objects_are_spared_the_collector(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kcr.informer.cache.FREEZE_FROM", 3)
    manager = manager_on(kcr_cluster.client, kcr_clock)
    manager.store(Namespace)
    gc.unfreeze()
    try:
        async with manager.running():
            assert len(manager.store(Namespace)) >= 3
            assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


@pytest.mark.parametrize(
    ("failure", "others"),
    [
        pytest.param(LookupError, ["other"], id="kept"),
        # Each write of a process that has lost its Lease fails for the same reason.
        pytest.param(LeadershipLostError, [], id="of-a-lost-lease"),
    ],
)
async def test_second_failure_is_not_lost(
    failure: type[Exception], others: list[str], kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    class Broken:
        async def run(self) -> None:
            await asyncio.sleep(5)
            raise failure("one")

    class BrokenWhenStopped:
        async def run(self) -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                raise failure("other")

    manager = manager_on(kcr_cluster.client, kcr_clock)
    manager.add(BrokenWhenStopped())
    manager.add(Broken())
    with capture_logs() as lines, pytest.raises(failure, match="one"):
        await manager.run()
    assert [line["error"] for line in lines if line["event"] == "additional error during shutdown"] == others


async def test_channel_brings_keys_from_elsewhere(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:  # CM-11
    async def ticks() -> AsyncIterator[kcr.Key]:
        for _ in range(3):
            yield kcr.Key("", "default")
            await asyncio.sleep(60)

    manager = manager_on(kcr_cluster.client, kcr_clock)
    greeter = Greeter(manager)
    manager.add_controller("greeter", greeter, watches=[kcr.channel(ticks())])
    async with manager.running():
        await kcr_clock.advance(600)
    assert greeter.seen == ["default"] * 3


async def test_channel_that_fails_stops_the_manager(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # CM-11, CM-21
    async def broken() -> AsyncIterator[kcr.Key]:
        await asyncio.sleep(1)
        raise LookupError("no more keys")
        yield kcr.Key("", "never")

    manager = manager_on(kcr_cluster.client, kcr_clock)
    manager.add_controller("greeter", Greeter(manager), watches=[kcr.channel(broken())])
    with pytest.raises(LookupError, match="no more keys"):
        await manager.run()


async def test_late_source_does_not_hold_up_what_runs(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:  # CM-12
    class Unknown(kcr.Resource, api_version="example.dev/v1", plural="unknowns"):
        pass

    manager = manager_on(kcr_cluster.client, kcr_clock)
    greeter = Greeter(manager)
    manager.add_controller("greeter", greeter, watches=[kcr.watch(Namespace)])
    async with manager.running():
        late = Greeter(manager)
        manager.add_controller("late", late, watches=[kcr.watch(Unknown), kcr.watch(Pod)])
        await create(kcr_cluster, "team")
        await kcr_clock.advance(60)
        assert "team" in greeter.seen
        assert late.seen == []


async def test_workers_begin_when_all_sources_are_there(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:  # CM-12
    manager = manager_on(kcr_cluster.client, kcr_clock)
    sizes: list[tuple[int, int]] = []

    class Counter:
        async def reconcile(self, key: kcr.Key) -> kcr.Result:
            sizes.append((len(manager.store(Namespace)), len(manager.store(Job))))
            return kcr.Result()

    job = {
        "metadata": {"name": "pi"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}},
    }
    await kcr_cluster.client.create_manifest(Job, job, "default")
    manager.add_controller("counter", Counter(), watches=[kcr.watch(Namespace), kcr.watch(Job)])
    async with manager.running():
        await kcr_clock.advance(1)
    assert set(sizes) == {(len(manager.store(Namespace)), 1)}


async def test_selections_are_what_is_watched(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    manager = kcr.Manager(kcr_cluster.client, clock=kcr_clock, namespace="web")
    chosen = (Selection(Job, "a"), Selection(Job, "b"))
    manager.select(*chosen)
    manager.add_controller("greeter", Greeter(manager), watches=[kcr.owned(Pod, by=Job), kcr.watch(Job)])
    # Namespaces are in no namespace.
    assert manager.selections == (Selection(Namespace), Selection(Pod, "web"), *chosen)


async def test_writer_sees_its_own_write_in_the_next_run(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # CL-21, as the key rests instead of the worker
    class Marker:
        """Counts in an annotation, twice in a row without waiting for an event."""

        def __init__(self, manager: kcr.Manager) -> None:
            self.own_writes = kcr.OwnWrites()
            self._client = manager.client
            self._store = manager.store(Namespace)
            self.conflicts = 0

        async def reconcile(self, key: kcr.Key) -> kcr.Result:
            old = self._store.get(key)
            assert old is not None
            count = int(old.metadata.annotations.get("count", "0"))
            if count == 5:
                return kcr.Result()
            new = replace(old, metadata=replace(old.metadata, annotations={"count": str(count + 1)}))
            try:
                written = await self._client.patch(old, new)
            except kcr.ConflictError:
                self.conflicts += 1
                raise
            self.own_writes.wrote(key, self._store, written)
            return kcr.Result(requeue_after=timedelta(0))

    manager = manager_on(Client(late_watches(kcr_cluster.transport, random.Random(0), {"namespaces": 0.3})), kcr_clock)
    marker = Marker(manager)
    controller = manager.add_controller("marker", marker, own_writes=marker.own_writes)
    async with manager.running():
        controller.queue.add(kcr.Key("", "default"))
        await kcr_clock.advance(10)
        namespace = await kcr_cluster.client.get(Namespace, Key("", "default"))
    assert namespace.metadata.annotations["count"] == "5"
    assert marker.conflicts == 0


class Broken:
    name = "door"

    async def run(self) -> None:
        raise LookupError("no key under the mat")


async def test_component_that_fails_is_named_in_one_line(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    manager = manager_on(kcr_cluster.client, kcr_clock)
    manager.add(Broken())
    with pytest.raises(LookupError) as caught:
        await manager.run()
    line = unexpected(caught.value)
    assert re.fullmatch(r"component door: LookupError: no key under the mat at test_manager.py:\d+ in run", line)


async def test_component_whose_run_returns_no_coroutine_is_named(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    manager = manager_on(kcr_cluster.client, kcr_clock)
    manager.add(type("Door", (), {"name": "door", "run": lambda self: None})())
    with pytest.raises(TypeError, match="component door: run returned None: write it with `async def`"):
        await manager.run()


async def test_watch_that_fails_after_the_first_sync_is_named_by_readiness(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    faults = FaultyTransport(kcr_cluster.transport)
    manager = manager_on(Client(faults), kcr_clock)
    manager.store(Namespace)
    async with manager.running():
        well = manager.health.answer("/readyz", {"verbose": [""]})
        assert well is not None
        assert "[+]informer-namespaces ok\n" in well.text
        faults.on("watch").fail(ForbiddenError)
        faults.on("list").fail(ForbiddenError)
        with capture_logs() as logs:
            # The watch that is open ends within ten minutes.
            await kcr_clock.advance(700)
        ill = manager.health.answer("/readyz", {"verbose": [""]})
        assert ill is not None
        assert ill.status == 500
        words = r"\[-\]informer-namespaces failed: namespaces: forbidden.* \(failing for \d{2,3} s\)\n"
        assert re.search(words, ill.text)
        assert any(line["event"] == "watch failed" and line["kind"] == "namespaces" for line in logs)
        faults.heal()
        await kcr_clock.advance(100)
        assert manager.health.answer("/readyz", {}) == ProbeResult(200, "ok")


async def test_failing_mapping_function_is_named_and_stops_nothing(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    def owner(namespace: Namespace) -> list[kcr.Key]:
        return [kcr.Key("", namespace.metadata.labels["owner"])]

    manager = manager_on(kcr_cluster.client, kcr_clock)
    greeter = Greeter(manager)
    manager.add_controller("greeter", greeter, watches=[kcr.watch(Namespace, map_to=owner)])
    with capture_logs() as logs:
        async with manager.running():
            metadata = ObjectMeta(name="team", labels={"owner": "default"})
            await kcr_cluster.client.create(Namespace(metadata=metadata))
            await kcr_clock.advance(1)
    errors = {line["error"] for line in logs if line["event"] == "handler failed"}
    assert "controller 'greeter': the mapping function failed for Namespace default: KeyError: 'owner'" in errors
    assert greeter.seen == ["default"]


async def test_frozen_server_shows_in_readyz_and_in_a_metric(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    wire = FaultyTransport(kcr_cluster.transport)
    # The initial events of four namespaces and their end; then nothing comes any more, on no connection.
    wire.on("watch", Namespace).freeze(after=5)
    manager = kcr.Manager(Client(wire), clock=kcr_clock, random=random.Random(1))
    manager.store(Namespace)
    async with manager.running():
        wire.on("list").delay(3600)

        def line() -> str:
            answer = manager.health.answer("/readyz", {"verbose": ()})
            assert answer is not None
            (found,) = (line for line in answer.text.splitlines() if "informer-namespaces" in line)
            return found

        await kcr_clock.advance(60)
        assert line() == "[+]informer-namespaces ok"
        await kcr_clock.advance(20)
        assert line() == (
            "[+]informer-namespaces ok: namespaces: nothing has come for 80 s, perhaps the server or a proxy is frozen"
        )
        labels = {"name": "namespaces", "group": "", "version": "v1", "resource": "namespaces"}
        assert manager.metrics.registry.get_sample_value("kcr_reflector_last_event_age_seconds", labels) == 80


async def test_manager_runs_once(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    manager = manager_on(kcr_cluster.client, kcr_clock)
    manager.add_controller("greeter", Greeter(manager), watches=[kcr.watch(Namespace)])
    async with manager.running():
        with pytest.raises(RuntimeError, match=r"^Manager: this one runs already: one manager runs once: make another"):
            manager.running()
        with pytest.raises(RuntimeError, match="runs already"):
            await manager.run()
    with pytest.raises(RuntimeError, match=r"^Manager: this one has run"):
        manager.running()
    with pytest.raises(RuntimeError, match=r"^Manager: this one has run"):
        await manager.run()


async def nothing() -> AsyncIterator[kcr.Key]:
    """Yield no key, and never end."""
    await asyncio.get_running_loop().create_future()
    yield kcr.Key("", "")


async def test_controller_without_watches_is_warned_of(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    manager = manager_on(kcr_cluster.client, kcr_clock)
    greeter = Greeter(manager)
    manager.add_controller("forgotten", greeter)
    manager.add_controller("meant", greeter, watches=())
    manager.add_controller("own-queue", greeter, queue=manager.queue("own-queue"))
    manager.add_controller("filled", greeter).queue.add(kcr.Key("", "default"))
    manager.add_watch(manager.add_controller("later", greeter), kcr.watch(Namespace))
    manager.add_watch(manager.add_controller("channel", greeter), kcr.channel(nothing()))
    manager.add_controller("declared", greeter).declare(manager.informer(Namespace), Namespace)
    with capture_logs() as logs:
        async with manager.running():
            pass
    (line,) = [line for line in logs if line["event"] == "controller has no watches"]
    assert (line["log_level"], line["controller"]) == ("warning", "forgotten")
    assert line["remedy"] == "give it watches=[kcr.watch(…)], or watches=() if other code adds keys to its queue"


def test_manager_is_empty_until_something_is_added() -> None:
    def made() -> kcr.Manager:
        return kcr.Manager(Client(FakeSource(Namespace)))

    assert made().is_empty
    with_informer, with_component, with_controller = made(), made(), made()
    with_informer.informer(Namespace)
    with_component.add(with_informer)
    with_controller.add_controller("greeter", Greeter(made()), watches=())
    assert not any(one.is_empty for one in (with_informer, with_component, with_controller))
