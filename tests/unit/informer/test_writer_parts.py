from collections.abc import Mapping

import pytest

from kcr.api.codec import WatchEvent
from kcr.api.core import ConfigMap
from kcr.api.meta import Key, ObjectMeta
from kcr.client import Client
from kcr.informer import Handler, Informer, Selection
from kcr.informer.selection import disjoint
from kcr.informer.writer import StorePart
from tests.kit.informer_pods import replaced
from tests.kit.scripted_transport import Script

SELECTIONS = (Selection(ConfigMap, "a"), Selection(ConfigMap, "b"), Selection(ConfigMap))


def config(namespace: str, name: str, version: int) -> ConfigMap:
    metadata = ObjectMeta(namespace=namespace, name=name, uid=f"{namespace}-{name}", resource_version=str(version))
    return ConfigMap(metadata=metadata)


class Heard(Handler[ConfigMap]):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_add(self, obj: ConfigMap, initial: bool) -> None:
        self.heard.append(f"add {obj.key}{' initial' if initial else ''}")

    def on_delete(self, obj: ConfigMap, final_state_unknown: bool) -> None:
        self.heard.append(f"delete {obj.key}")


def made() -> tuple[Informer[ConfigMap], list[StorePart[ConfigMap]], Heard]:
    informer, heard, parts = Informer(Client(Script()), SELECTIONS), Heard(), list[StorePart[ConfigMap]]()
    informer.add_handler(heard)
    for selection in disjoint(SELECTIONS):
        StorePart(informer.writer, selection.covers, parts)
    return informer, parts, heard


def fill(part: StorePart[ConfigMap], version: int, *objects: ConfigMap, undecodable: Mapping[Key, str] = {}) -> None:
    replaced(part.replace(objects, undecodable, str(version)))


# IN-37
def test_store_is_synced_once_every_part_is_filled() -> None:
    informer, (a, b, others), heard = made()
    fill(a, 5, config("a", "x", 1))
    fill(others, 6, config("c", "x", 2))
    assert not informer.store.synced
    fill(b, 7, config("b", "x", 3))
    assert informer.store.synced
    assert heard.heard == ["add a/x initial", "add c/x initial", "add b/x initial"]
    assert len(informer.store.list()) == 3


def test_part_goes_back_with_a_server_that_was_restored_from_a_backup() -> None:
    informer, (a, b, others), _ = made()
    for part, name in ((a, "a"), (b, "b"), (others, "c")):
        fill(part, 10, config(name, "x", 9))
    fill(a, 5, config("a", "x", 4))
    assert [obj.metadata.resource_version for obj in informer.store.list()] == ["4", "9", "9"]
    assert (a.progress.resource_version, informer.store.resource_version) == (5, 5)
    a.apply(WatchEvent(type="MODIFIED", object=config("a", "x", 6)))
    assert informer.store.list("a")[0].metadata.resource_version == "6"


# IN-37
def test_relist_of_a_part_leaves_the_others_alone() -> None:
    informer, (a, b, others), heard = made()
    fill(a, 5, config("a", "x", 1))
    fill(b, 5, undecodable={Key("b", "bad"): "why"})
    fill(others, 5, config("c", "x", 2))
    fill(a, 9, config("a", "y", 8))
    assert heard.heard[2:] == ["delete a/x", "add a/y"]
    assert informer.store.undecodable == {Key("b", "bad"): "why"}
    fill(others, 9)
    assert [found.key for found in informer.store.list()] == [Key("a", "y")]
    fill(b, 9)
    assert informer.store.undecodable == {}


# IN-37, RF-35
def test_store_has_reached_what_all_parts_have() -> None:
    informer, (a, b, others), _ = made()
    fill(a, 5)
    fill(b, 9)
    assert informer.store.resource_version == 0
    fill(others, 7)
    assert informer.store.resource_version == 5
    a.apply(WatchEvent(type="ADDED", object=config("a", "x", 20)))
    assert informer.store.resource_version == 7
    others.on_decode_error(Key("c", "x"), "why", "8")
    assert informer.store.resource_version == 8
    others.advance("30")
    assert informer.store.resource_version == 9


# IN-8, IN-37
def test_each_part_that_is_not_filled_is_named() -> None:
    informer, _, _ = made()
    assert informer.not_synced_reason == (
        "configmaps in a: its informer does not run; configmaps in b: its informer does not run; "
        "configmaps (metadata.namespace!=a,metadata.namespace!=b): its informer does not run"
    )


@pytest.mark.parametrize("selections", [(), (Selection(ConfigMap, "a"), Selection(ConfigMap, "a"))])
def test_selections_that_overlap_are_refused(selections: tuple[Selection[ConfigMap], ...]) -> None:
    with pytest.raises(ValueError, match="one"):
        Informer(Client(Script()), selections)
