import asyncio
from collections.abc import Iterable, Iterator

import pytest

from kcr.api.codec import WatchEvent
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.client import Client
from kcr.errors import NotSyncedError
from kcr.informer import Handler, Informer
from kcr.informer.store import allow_unsynced_reads
from kcr.testing import VirtualClock
from tests.kit.informer_pods import Told, pod, replaced
from tests.kit.scripted_transport import Say, Script, events

END = {"metadata": {"resourceVersion": "10", "annotations": {"k8s.io/initial-events-end": "true"}}}


class Notes(Handler[Pod]):
    """Writes down what it hears, and what the store has at that moment."""

    def __init__(self, informer: Informer[Pod]) -> None:
        self.heard: list[str] = []
        self._store = informer.store

    def on_add(self, obj: Pod, initial: bool) -> None:
        assert self._store.get(obj.key) is obj
        self.heard.append(f"add {obj.metadata.name}{' initial' if initial else ''}")

    def on_update(self, old: Pod, new: Pod) -> None:
        assert self._store.get(new.key) is new
        self.heard.append(f"update {new.metadata.name} {old.metadata.resource_version}-{new.metadata.resource_version}")

    def on_delete(self, obj: Pod, final_state_unknown: bool) -> None:
        self.heard.append(f"delete {obj.metadata.name} {obj.metadata.resource_version}")


class Broken(Handler[Pod]):
    """Fails whatever it hears."""

    def on_add(self, obj: Pod, initial: bool) -> None:
        raise RuntimeError("broken")


@pytest.fixture(autouse=True)
def in_the_task_of_the_informer() -> Iterator[None]:
    token = allow_unsynced_reads.set(True)
    yield
    allow_unsynced_reads.reset(token)


def made() -> tuple[Informer[Pod], Notes]:
    informer = Informer(Client(Script()), Pod)
    notes = Notes(informer)
    informer.add_handler(notes)
    return informer, notes


def apply(informer: Informer[Pod], *found: tuple[str, Pod]) -> None:
    for type_, obj in found:
        informer.writer.apply(WatchEvent(type=type_, object=obj))


def replace(informer: Informer[Pod], pods: Iterable[Pod], version: str) -> None:
    replaced(informer.writer.replace([informer.writer.share(found) for found in pods], {}, version))


# IN-3, RF-35
def test_first_list_is_initial_and_later_adds_are_not() -> None:
    informer, notes = made()
    replace(informer, [pod("a", 1)], "5")
    apply(informer, ("ADDED", pod("b", 6)))
    assert notes.heard == ["add a initial", "add b"]
    assert informer.store.resource_version == 6


# RF-29
def test_relist_tells_deletes_then_adds_then_updates() -> None:
    informer, notes = made()
    replace(informer, [pod("gone", 1), pod("same", 2), pod("changed", 3)], "5")
    notes.heard.clear()
    replace(informer, [pod("same", 2), pod("changed", 7), pod("new", 8)], "9")
    assert notes.heard == ["delete gone 1", "add new", "update changed 3-7"]


# RF-35
def test_deleted_object_is_told_in_its_last_version() -> None:
    informer, notes = made()
    apply(informer, ("ADDED", pod("a", 1)), ("DELETED", pod("a", 4)))
    assert notes.heard == ["add a", "delete a 4"]
    assert informer.store.resource_version == 4


def test_deletion_of_an_unknown_object_is_not_told() -> None:
    informer, notes = made()
    apply(informer, ("DELETED", pod("a", 4)))
    assert notes.heard == []


@pytest.mark.parametrize("type_", ["ADDED", "MODIFIED"])
def test_same_name_with_another_uid_is_death_and_birth(type_: str) -> None:
    """Source: IN-5."""
    informer, notes = made()
    apply(informer, ("ADDED", pod("a", 1)), (type_, pod("a", 2, uid="other")))
    assert notes.heard == ["add a", "delete a 1", "add a"]


# IN-1
def test_version_that_comes_twice_is_told_once() -> None:
    informer, notes = made()
    apply(informer, ("ADDED", pod("a", 1)), ("ADDED", pod("a", 1)), ("MODIFIED", pod("a", 2)))
    assert notes.heard == ["add a", "update a 1-2"]


# IN-6
def test_late_handler_hears_of_what_is_there() -> None:
    informer, _ = made()
    replace(informer, [pod("a", 1)], "5")
    late = Notes(informer)
    informer.add_handler(late)
    apply(informer, ("MODIFIED", pod("a", 6)))
    assert late.heard == ["add a initial", "update a 1-6"]


# IN-2, IN-9
def test_broken_handler_does_not_stop_the_next() -> None:
    informer = Informer(Client(Script()), Pod)
    informer.add_handler(Broken())
    notes = Notes(informer)
    informer.add_handler(notes)
    apply(informer, ("ADDED", pod("a", 1)))
    assert notes.heard == ["add a"]


# IN-8
@pytest.mark.kcr_virtual
async def test_waiting_for_the_store_ends_with_the_first_list() -> None:
    informer, _ = made()
    assert not informer.store.synced
    replace(informer, [], "5")
    await informer.wait_synced()
    assert informer.store.synced


# RF-30
def test_object_that_a_relist_lacks_has_vanished() -> None:
    informer, _ = made()
    told = Told()
    informer.add_handler(told)
    replace(informer, [pod("a", 1)], "5")
    replace(informer, [], "9")
    assert told.heard == ["add a 1 initial", "vanish a 1"]


# IN-5, RF-30
def test_namesake_found_by_a_relist_is_death_and_birth() -> None:
    informer, _ = made()
    told = Told()
    informer.add_handler(told)
    replace(informer, [pod("a", 1)], "5")
    replace(informer, [pod("a", 7, uid="other")], "9")
    assert told.heard == ["add a 1 initial", "vanish a 1", "add a 7"]


# RF-29
def test_handlers_of_a_relist_see_the_whole_new_state() -> None:
    informer, _ = made()
    sizes: list[int] = []

    class Counts(Handler[Pod]):
        def on_add(self, obj: Pod, initial: bool) -> None:
            sizes.append(len(informer.store.list()))

        def on_delete(self, obj: Pod, final_state_unknown: bool) -> None:
            sizes.append(len(informer.store.list()))

    informer.add_handler(Counts())
    replace(informer, [pod("a", 1), pod("b", 1), pod("c", 1)], "5")
    replace(informer, [pod("d", 6)], "9")
    assert sizes == [3, 3, 3, 1, 1, 1, 1]


# RF-32
def test_informer_is_synced_after_its_handlers_have_heard_the_list() -> None:
    informer, _ = made()

    class Looks(Handler[Pod]):
        def on_add(self, obj: Pod, initial: bool) -> None:
            assert not informer.store.synced

    informer.add_handler(Looks())
    replace(informer, [pod("a", 1)], "5")
    assert informer.store.synced
    assert informer.counts["handler_errors"] == 0


# IN-9
def test_failures_of_handlers_are_counted() -> None:
    informer = Informer(Client(Script()), Pod)
    informer.add_handler(Broken())
    replace(informer, [pod("a", 1), pod("b", 1)], "5")
    assert informer.counts["handler_errors"] == 2


# IN-6
def test_handler_that_comes_while_others_hear_of_a_change_hears_it_once() -> None:
    informer, _ = made()
    late = Told()

    class Brings(Handler[Pod]):
        def on_add(self, obj: Pod, initial: bool) -> None:
            if obj.metadata.name == "a":
                assert not informer.add_handler(late).synced

    informer.add_handler(Brings())
    replace(informer, [pod("a", 1), pod("b", 2)], "5")
    assert late.heard == ["add a 1 initial", "add b 2 initial"]


# IN-13
def test_handler_may_remove_another_that_is_about_to_hear() -> None:
    informer, _ = made()

    class Removes(Handler[Pod]):
        def on_add(self, obj: Pod, initial: bool) -> None:
            registration.remove()

    informer.add_handler(Removes())
    told = Told()
    registration = informer.add_handler(told)
    replace(informer, [pod("a", 1)], "5")
    assert told.heard == []


# IN-14
@pytest.mark.kcr_virtual
async def test_ended_informer_takes_no_handler(kcr_clock: VirtualClock) -> None:
    informer, _ = made()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        await kcr_clock.settle()
        task.cancel()
    with pytest.raises(RuntimeError, match="pods: the informer has ended"):
        informer.add_handler(Broken())


def test_store_that_is_not_synced_says_why_when_it_is_read() -> None:
    allow_unsynced_reads.set(False)
    informer, _ = made()
    informer.store.add_index("namespace")
    for read in (
        lambda: informer.store.get(Key("d", "a")),
        informer.store.list,
        lambda: informer.store.by_index("owner", "x"),
    ):
        with pytest.raises(NotSyncedError, match="read before it is synced: pods: its informer does not run"):
            read()
    replace(informer, [pod("a", 1)], "5")
    assert len(informer.store.list()) == 1


@pytest.mark.kcr_virtual
async def test_handlers_may_read_a_store_that_is_not_synced(kcr_clock: VirtualClock) -> None:
    allow_unsynced_reads.set(False)
    found: list[int] = []
    found_pod = {"metadata": {"name": "a", "namespace": "d", "uid": "a"}}
    script = Script(Say(events(("ADDED", found_pod), ("BOOKMARK", END)), then="stay"))
    informer, other = Informer(Client(script), Pod), Informer(Client(Script()), Pod)

    class Reads(Handler[Pod]):
        def on_add(self, obj: Pod, initial: bool) -> None:
            found.append(len(other.store.list()))

    informer.add_handler(Reads())
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        await informer.wait_synced()
        informer.add_handler(Reads())
        task.cancel()
    assert found == [0, 0]


# RF-31, RF-34
def test_long_list_is_told_little_by_little() -> None:
    informer, _ = made()
    told = Told()
    informer.add_handler(told)
    steps = informer.writer.replace([pod(f"p{number}", number) for number in range(1, 1001)], {}, "2000")
    seen = [len(told.heard) for _ in steps if len(informer.store) == 1000]
    # All are stored before a handler is called; then two get a thousand pods each, two hundred at a time.
    assert seen[-10:] == [0, 0, 0, 0, 0, 200, 400, 600, 800, 1000]
    assert informer.store.resource_version == 2000


# IN-6, IN-7
def test_handler_that_comes_in_the_middle_of_a_list_hears_it_once() -> None:
    informer, _ = made()
    steps = informer.writer.replace([pod(f"p{number}", number) for number in range(1, 1001)], {}, "2000")
    next(steps)
    late = Told()
    registration = informer.add_handler(late)
    assert not registration.synced
    replaced(steps)
    assert registration.synced
    assert len(late.heard) == 1000
