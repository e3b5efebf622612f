from collections.abc import Iterable, Iterator

import pytest

from kcr.api.codec import WatchEvent
from kcr.api.core import Pod
from kcr.api.meta import ObjectMeta
from kcr.client import Client
from kcr.informer import Handler, Informer
from kcr.informer.store import reading_early
from tests.unit.client.scripted import Script


def pod(name: str, version: int, uid: str = "") -> Pod:
    return Pod(metadata=ObjectMeta(name=name, uid=uid or f"uid-{name}", resource_version=str(version)))


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

    def on_delete(self, obj: Pod) -> None:
        self.heard.append(f"delete {obj.metadata.name} {obj.metadata.resource_version}")


class Broken(Handler[Pod]):
    """Fails whatever it hears."""

    def on_add(self, obj: Pod, initial: bool) -> None:
        raise RuntimeError("broken")


@pytest.fixture(autouse=True)
def in_the_task_of_the_informer() -> Iterator[None]:
    token = reading_early.set(True)
    yield
    reading_early.reset(token)


def made() -> tuple[Informer[Pod], Notes]:
    informer = Informer(Client(Script()), Pod)
    notes = Notes(informer)
    informer.add_handler(notes)
    return informer, notes


def apply(informer: Informer[Pod], *found: tuple[str, Pod]) -> None:
    for type_, obj in found:
        informer.apply(WatchEvent(type=type_, object=obj))


def replace(informer: Informer[Pod], pods: Iterable[Pod], version: str) -> None:
    informer.replace([informer.share(found) for found in pods], {}, version)


def test_first_list_is_initial_and_later_adds_are_not() -> None:
    informer, notes = made()
    replace(informer, [pod("a", 1)], "5")
    apply(informer, ("ADDED", pod("b", 6)))
    assert notes.heard == ["add a initial", "add b"]
    assert informer.store.resource_version == 6


def test_relist_tells_deletes_then_adds_then_updates() -> None:
    informer, notes = made()
    replace(informer, [pod("gone", 1), pod("same", 2), pod("changed", 3)], "5")
    notes.heard.clear()
    replace(informer, [pod("same", 2), pod("changed", 7), pod("new", 8)], "9")
    assert notes.heard == ["delete gone 1", "add new", "update changed 3-7"]


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


def test_version_that_comes_twice_is_told_once() -> None:
    informer, notes = made()
    apply(informer, ("ADDED", pod("a", 1)), ("ADDED", pod("a", 1)), ("MODIFIED", pod("a", 2)))
    assert notes.heard == ["add a", "update a 1-2"]


def test_late_handler_hears_of_what_is_there() -> None:
    informer, _ = made()
    replace(informer, [pod("a", 1)], "5")
    late = Notes(informer)
    informer.add_handler(late)
    apply(informer, ("MODIFIED", pod("a", 6)))
    assert late.heard == ["add a initial", "update a 1-6"]


def test_broken_handler_does_not_stop_the_next() -> None:
    informer = Informer(Client(Script()), Pod)
    informer.add_handler(Broken())
    notes = Notes(informer)
    informer.add_handler(notes)
    apply(informer, ("ADDED", pod("a", 1)))
    assert notes.heard == ["add a"]


@pytest.mark.virtual
async def test_waiting_for_the_store_ends_with_the_first_list() -> None:
    informer, _ = made()
    assert not informer.store.synced
    replace(informer, [], "5")
    await informer.wait_synced()
    assert informer.store.synced
