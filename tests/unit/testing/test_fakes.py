import asyncio

import pytest
from msgspec.structs import replace

import kcr
from kcr.api.apps import Deployment
from kcr.api.core import ConfigMap, Namespace, Pod
from kcr.api.meta import Key, ObjectMeta
from kcr.errors import NotSyncedError
from kcr.informer import Handler
from kcr.testing import FakeInformer, FakeManager, VirtualClock, build
from tests.kit.owners import Website

A, B = build.config_map("a", {"x": "1"}), build.config_map("b")


class Notes(Handler[ConfigMap]):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_add(self, obj: ConfigMap, initial: bool) -> None:
        self.heard.append(f"add {obj.metadata.name}{' initially' if initial else ''}")

    def on_update(self, old: ConfigMap, new: ConfigMap) -> None:
        self.heard.append(f"update {new.metadata.name} {old.data} {new.data}")

    def on_delete(self, obj: ConfigMap, final_state_unknown: bool) -> None:
        self.heard.append(f"delete {obj.metadata.name}")


def test_handlers_hear_of_changes_before_the_call_returns() -> None:  # TK-5
    informer, notes = FakeInformer(ConfigMap, A), Notes()
    informer.add_handler(notes)
    informer.add(B)
    informer.modify(replace(A, data={"x": "2"}))
    informer.delete(B)
    assert notes.heard == ["add a initially", "add b", "update a {'x': '1'} {'x': '2'}", "delete b"]
    assert [obj.data for obj in informer.store.list()] == [{"x": "2"}]


def test_fake_informer_is_synced_until_the_test_says_otherwise() -> None:  # TK-5
    informer = FakeInformer(ConfigMap)
    assert informer.synced
    informer.synced = False
    assert not informer.store.synced


def test_indexes_follow_a_fake_informer() -> None:  # TK-5
    informer = FakeInformer(ConfigMap)
    informer.store.add_index("data", lambda obj: obj.data.values())
    added = informer.add(A)
    assert informer.store.by_index("data", "1") == (added,)
    informer.delete(A)
    assert informer.store.by_index("data", "1") == ()


@pytest.mark.kcr_virtual
async def test_version_that_the_server_gave_is_kept() -> None:
    manager = FakeManager()
    informer = manager.informer(ConfigMap)
    metadata = ObjectMeta(name="a", namespace="default")
    created = await manager.client.create(ConfigMap(metadata=metadata, data={"x": "1"}))
    assert informer.add(created).metadata.resource_version == created.metadata.resource_version
    written = await manager.client.merge_patch(ConfigMap, A.key, {"data": {"x": "2"}})
    assert informer.modify(written) == written
    assert str(informer.store.resource_version) == written.metadata.resource_version


def test_generation_counts_changes_of_the_spec_as_a_server_does() -> None:
    informer = FakeInformer(Deployment)
    made = informer.add(Deployment(metadata=build.metadata("web")))
    scaled = informer.modify(replace(made, spec=replace(made.spec, replicas=3)))
    ready = informer.modify(replace(scaled, status=replace(scaled.status, ready_replicas=3)))
    labelled = informer.modify(replace(ready, metadata=replace(ready.metadata, labels={"a": "b"})))
    assert [one.metadata.generation for one in (made, scaled, ready, labelled)] == [1, 2, 2, 2]
    assert FakeInformer(ConfigMap).add(build.config_map("colors")).metadata.generation is None


def test_change_of_an_earlier_state_gets_a_newer_version() -> None:
    informer = FakeInformer(ConfigMap)
    first = informer.add(A)
    second = informer.modify(replace(first, data={"x": "2"}))
    third = informer.modify(replace(first, data={"x": "3"}))
    versions = [int(obj.metadata.resource_version) for obj in (first, second, third)]
    assert versions == sorted(set(versions))


def test_objects_get_what_a_server_gives_them() -> None:
    informer = FakeInformer(ConfigMap)
    first = informer.add(replace(A, metadata=replace(A.metadata, uid="", resource_version="")))
    again = informer.modify(replace(first, data={}))
    assert first.metadata.uid
    assert again.metadata.uid == first.metadata.uid
    assert int(again.metadata.resource_version) > int(first.metadata.resource_version)


def test_name_that_comes_back_is_another_object() -> None:
    informer, notes = FakeInformer(ConfigMap), Notes()
    informer.add_handler(notes)
    bare = replace(A, metadata=replace(A.metadata, uid="", resource_version=""))
    informer.delete(informer.add(bare))
    informer.add(bare)
    assert notes.heard == ["add a", "delete a", "add a"]


@pytest.mark.kcr_virtual
async def test_manager_gives_one_fake_per_kind_and_component() -> None:
    manager = FakeManager()
    manager.informer(ConfigMap).add(A)
    assert len(manager.store(ConfigMap)) == 1
    assert len(manager.store(Namespace)) == 0
    manager.recorder("x").event(A, "Normal", "Seen", "it")
    assert [str(event) for event in manager.recorder("x").find("Seen", about=A.key)] == ["Normal Seen it"]  # EV-17
    assert manager.recorder("y").events == []


@pytest.mark.kcr_virtual
async def test_writes_of_a_fake_manager_reach_a_server() -> None:
    client = FakeManager().client
    await client.create(replace(A, metadata=replace(A.metadata, uid="", resource_version="")))
    assert (await client.get(ConfigMap, Key("default", "a"))).data == {"x": "1"}


def of(name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data=data)


@pytest.mark.kcr_virtual
async def test_relist_shows_what_the_server_has_as_it_is() -> None:
    manager, notes = FakeManager(), Notes()
    informer = manager.informer(ConfigMap)
    informer.add_handler(notes)
    first, second = [await manager.client.create(of(name, x="1")) for name in ("first", "second")]
    await manager.relist()
    await manager.relist()
    assert manager.store(ConfigMap).get(first.key) == first
    changed = await manager.client.patch(first, replace(first, data={"x": "2"}))
    await manager.client.delete(ConfigMap, second.key)
    await manager.relist(ConfigMap)
    assert manager.store(ConfigMap).list("default") == (changed,)
    told = [line for line in notes.heard if "first" in line or "second" in line]
    assert sorted(told) == ["add first", "add second", "delete second", "update first {'x': '1'} {'x': '2'}"]


@pytest.mark.kcr_virtual
async def test_relist_leaves_the_tests_own_objects_alone() -> None:
    manager = FakeManager(namespace="default")
    own = manager.informer(ConfigMap).add(A)
    manager.informer(Website).add(Website(metadata=ObjectMeta(name="shop", namespace="default")))
    await manager.client.create(of("first"))
    await manager.relist(ConfigMap)
    await manager.relist(ConfigMap)
    assert own in manager.store(ConfigMap).list()
    assert {obj.metadata.name for obj in manager.store(ConfigMap).list()} == {"a", "first"}


@pytest.mark.kcr_virtual
async def test_followed_write_is_in_the_stores_before_it_returns() -> None:
    manager = FakeManager(follow_writes=True)
    store = manager.store(ConfigMap)
    manager.informer(Website).add(Website(metadata=ObjectMeta(name="shop", namespace="default")))
    created = await manager.client.create(of("first"))
    assert store.get(created.key) == created
    with pytest.raises(kcr.AlreadyExistsError):
        await manager.client.create(of("first"))
    await manager.client.delete(ConfigMap, created.key)
    assert store.get(created.key) is None
    assert len(manager.store(Website)) == 1


def test_writes_of_another_server_are_not_followed() -> None:
    with pytest.raises(ValueError, match=r"call relist\(\) after the client's writes"):
        FakeManager(client=FakeManager().client, follow_writes=True)


class Noting:
    def __init__(self) -> None:
        self.keys: list[str] = []

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        self.keys.append(str(key))
        return kcr.Result()


@pytest.mark.kcr_virtual
async def test_controller_runs_on_fake_informers(kcr_clock: VirtualClock) -> None:  # TK-5
    manager, reconciler = FakeManager(clock=kcr_clock), Noting()
    manager.informer(ConfigMap).add(A)
    manager.add_controller("noting", reconciler, watches=[kcr.watch(ConfigMap)])
    async with manager.running():
        manager.informer(ConfigMap).add(B)
        await kcr_clock.settle()
        # What changed comes before what was there.
        assert reconciler.keys == ["default/b", "default/a"]


@pytest.mark.kcr_virtual
async def test_who_waits_for_a_fake_informer_waits_for_the_test(kcr_clock: VirtualClock) -> None:  # TK-5
    informer = FakeInformer(ConfigMap)
    await informer.wait_synced()
    informer.synced = False
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(informer.wait_synced())
        await kcr_clock.settle()
        assert not waiting.done()
        informer.synced = True


@pytest.mark.kcr_virtual
async def test_reader_of_an_unsynced_fake_is_told() -> None:  # TK-5
    manager = FakeManager()
    manager.informer(ConfigMap).synced = False
    with pytest.raises(kcr.NotSyncedError, match="configmaps"):
        manager.store(ConfigMap).list()


@pytest.mark.asyncio
async def test_closed_handle_of_a_fake_manager_takes_the_fake_along() -> None:
    manager = FakeManager()
    async with manager.open_informer(Pod) as pods:
        manager.informer(Pod).add(build.pod("a"))
        manager.remove_informer(Pod)
        with pytest.raises(NotSyncedError, match="pods: its informer was removed"):
            pods.store.list()
    assert manager.store(Pod).list() == ()


@pytest.mark.kcr_virtual
async def test_queue_of_a_controller_of_a_setup_knows_why() -> None:
    def setup(manager: kcr.Manager) -> None:
        manager.add_controller("copier", Noting(), watches=[kcr.watch(ConfigMap)])

    manager = FakeManager()
    setup(manager)
    colors = manager.informer(ConfigMap).add(build.config_map("colors"))
    state = manager.controllers["copier"].queue.state(colors.key)
    assert (state.queued, *map(str, state.reasons)) == (0, "ConfigMap add default/colors 1")
    with pytest.raises(KeyError):
        manager.controllers["painter"]
