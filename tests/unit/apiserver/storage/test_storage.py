"""Versions, history and order."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcr_devcluster.apiserver.kinds.catalogue import CONFIG_MAPS, PODS
from kcr_devcluster.apiserver.protocol.responses import StatusError
from kcr_devcluster.apiserver.storage.records import Change, Record
from kcr_devcluster.apiserver.storage.storage import Storage
from kcr_devcluster.apiserver.storage.watch_cache import HISTORY


def manifest(name: str, namespace: str = "ns", **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace, "uid": name}, **more}


def put(storage: Storage, name: str, namespace: str = "ns", **more: Any) -> Record:
    old = storage.get(CONFIG_MAPS, namespace, name)
    return storage.put(CONFIG_MAPS, manifest(name, namespace, **more), old)


def state(records: Mapping[str, Record]) -> dict[str, bytes]:
    return {key: record.body for key, record in records.items()}


def test_one_counter_serves_all_kinds() -> None:
    storage = Storage()
    first = put(storage, "a")
    second = storage.put(PODS, manifest("a"), None)
    assert second.revision == first.revision + 1 == storage.revision


def test_record_carries_its_version_and_type() -> None:
    record = put(Storage(), "a", data={"x": "y"})
    assert record.manifest() == {
        "kind": "ConfigMap", "apiVersion": "v1", "data": {"x": "y"},
        "metadata": {"name": "a", "namespace": "ns", "uid": "a", "resourceVersion": "2"},
    }  # fmt: skip
    assert record.data.startswith(b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{')


def test_type_is_there_once_although_the_object_had_it() -> None:
    record = put(Storage(), "a", kind="ConfigMap", apiVersion="v1", data={})
    assert [record.data.count(b'"%s"' % name) for name in (b"kind", b"apiVersion", b"metadata")] == [1, 1, 1]


def test_removal_shows_the_old_content_under_its_own_version() -> None:
    storage = Storage()
    # The label looks like a version of its own: only the real one may change.
    labels = {"resourceVersion": "2"}
    old = storage.put(CONFIG_MAPS, {"metadata": {"labels": labels, **manifest("a")["metadata"]}}, None)
    gone = storage.remove(old)
    assert gone.manifest()["metadata"] == {**old.manifest()["metadata"], "resourceVersion": "3"}
    assert gone.metadata.resource_version == "3"
    assert storage.get(CONFIG_MAPS, "ns", "a") is None


def test_subscribers_are_told_after_the_change() -> None:
    storage = Storage()
    seen: list[tuple[Change, bool]] = []
    cache = storage.cache(CONFIG_MAPS)
    cache.subscribers[lambda change: seen.append((change, change.record.key in cache.records))] = None
    storage.remove(put(storage, "a"))
    assert [(change.old is None, change.new is None, present) for change, present in seen] == [
        (True, False, True),
        (False, True, False),
    ]


def test_history_is_bounded_and_says_so() -> None:
    storage = Storage()
    for _ in range(HISTORY + 5):
        put(storage, "a")
    cache = storage.cache(CONFIG_MAPS)
    assert len(cache.history) == HISTORY
    assert len(cache.changes_since(cache.compacted_revision)) == HISTORY
    with pytest.raises(StatusError, match="too old resource version"):
        cache.changes_since(cache.compacted_revision - 1)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=30), st.data())
def test_past_states_can_be_told_from_the_history(steps: list[tuple[str, bool]], data: st.DataObject) -> None:
    storage = Storage()
    cache = storage.cache(CONFIG_MAPS)
    states = {storage.revision: state(cache.records)}
    for place, (name, keep) in enumerate(steps):
        old = storage.get(CONFIG_MAPS, "ns", name)
        if keep or old is None:
            put(storage, name, data={"step": str(place)})
        else:
            storage.remove(old)
        states[storage.revision] = state(cache.records)
    revision = data.draw(st.sampled_from(sorted(states)))
    records, keys = cache.snapshot_at(revision)
    assert state(records) == states[revision]
    assert keys == sorted(records)


@given(st.lists(st.tuples(st.sampled_from(["a", "a-b", "a.b", "b"]), st.sampled_from(["x", "x-y", "y"])), max_size=12))
def test_lists_are_in_the_order_of_their_keys(places: list[tuple[str, str]]) -> None:
    storage = Storage()
    for namespace, name in places:
        put(storage, name, namespace)
    keys = [record.key for record in storage.cache(CONFIG_MAPS).select()]
    assert keys == sorted({f"{namespace}/{name}" for namespace, name in places})
    inside = [record.key for record in storage.cache(CONFIG_MAPS).select("a")]
    assert inside == [key for key in keys if key.startswith("a/")]


def test_fields_compare_by_their_text() -> None:
    pod = Storage().put(PODS, manifest("a", spec={"hostNetwork": True, "nodeName": "n"}), None)
    assert [pod.field(path) for path in ("spec.hostNetwork", "spec.nodeName", "status.phase", "metadata.name")] == [
        "true", "n", "", "a",
    ]  # fmt: skip


def test_waiting_ends_when_the_revision_is_there() -> None:
    async def waits() -> int:
        storage = Storage()
        asyncio.get_running_loop().call_soon(put, storage, "a")
        await storage.wait_for_revision(2)
        return storage.revision

    assert asyncio.run(waits()) == 2


def test_writes_after_a_commit_keep_the_order_of_changes() -> None:
    storage = Storage()
    cache = storage.cache(CONFIG_MAPS)
    seen: list[int] = []

    def answer(change: Change) -> None:
        if change.new is not None and change.old is None:
            put(storage, "a", data={"x": "y"})

    cache.after_commit[answer] = None
    cache.subscribers[lambda change: seen.append(change.revision)] = None
    put(storage, "a")
    assert seen == [2, 3]
