import gc
import sys
import tracemalloc
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from structlog.testing import capture_logs

from kcr.api import codec
from kcr.api.core import Pod
from kcr.api.meta import Key, OwnerReference
from kcr.informer import Store
from kcr.informer.store import Changes, version_of
from kcr.testing import build


def pod(name: str, version: int = 1, *, owner: str = "", **metadata: Any) -> Pod:
    owners = (OwnerReference(kind="Job", name=owner, uid=owner, controller=True),) if owner else ()
    return build.pod(name, resource_version=str(version), owner_references=owners, **metadata)


def names(pods: tuple[Pod, ...]) -> list[str]:
    return [found.metadata.name for found in pods]


def replaced(store: Store[Pod], pods: list[Pod], undecodable: Mapping[Key, str]) -> Changes[Pod]:
    """Take all the steps of a replace, and return what it changed."""
    steps = store.replace(pods, undecodable)
    try:
        while True:
            next(steps)
    except StopIteration as end:
        changes: Changes[Pod] = end.value
        return changes


@pytest.mark.parametrize(("synced", "stops"), [(False, True), (True, False)])
def test_first_list_is_stored_little_by_little_and_later_ones_at_once(synced: bool, stops: bool) -> None:
    # RF-12, RF-29: readers never see half of a list, and do not read the first one early.
    store = Store[Pod]()
    store.synced = synced
    steps = list(store.replace([pod(f"p{number}") for number in range(1000)], {}))
    assert bool(steps) is stops
    assert len(store) == 1000


def test_put_returns_the_version_it_replaces() -> None:
    store = Store[Pod]()
    first, second = pod("a", 1), pod("a", 2)
    assert store.put(first) is None
    assert store.put(second) is first
    assert store.get(Key("default", "a")) is second
    assert len(store) == 1


# IN-24
def test_list_is_of_one_namespace_or_all() -> None:
    store = Store[Pod]()
    for namespace in ("x", "y"):
        store.put(pod("a", namespace=namespace))
    assert len(store.list()) == 2
    assert [found.metadata.namespace for found in store.list("x")] == ["x"]


# IN-22, IN-23
def test_owner_index_follows_the_controller_reference() -> None:
    store = Store[Pod]()
    store.put(pod("a", owner="j"))
    store.put(pod("b", owner="j"))
    store.put(pod("c"))
    assert names(store.by_index("owner", "j")) == ["a", "b"]
    assert names(store.by_index("owner", "default/")) == ["c"]
    store.put(pod("a", 2))
    assert names(store.by_index("owner", "j")) == ["b"]
    store.remove(Key("default", "b"))
    assert store.by_index("owner", "j") == ()


def test_index_shows_the_newest_version() -> None:
    store = Store[Pod]()
    store.put(pod("a", 1, owner="j"))
    store.put(pod("a", 2, owner="j"))
    assert [found.metadata.resource_version for found in store.by_index("owner", "j")] == ["2"]


# IN-21
def test_index_added_late_holds_what_was_there() -> None:
    store = Store[Pod]()
    store.put(pod("a"))
    store.add_index("first letter", lambda found: [found.metadata.name[:1]])
    assert names(store.by_index("first letter", "a")) == ["a"]
    with pytest.raises(KeyError):
        store.by_index("unknown", "a")


# IN-20
def test_object_that_an_index_cannot_take_is_stored_all_the_same() -> None:
    store = Store[Pod]()
    store.add_index("broken", lambda found: [str(1 // len(found.metadata.labels))])
    store.put(pod("a"))
    assert names(store.list()) == ["a"]
    assert names(store.by_index("owner", "default/")) == ["a"]


# IN-20, IN-21
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["", "x", "y"]), st.booleans())))
def test_indexes_agree_with_a_scan_and_leave_nothing(steps: list[tuple[str, str, bool]]) -> None:
    store = Store[Pod]()
    for version, (name, owner, removed) in enumerate(steps, 1):
        if removed:
            store.remove(Key("default", name))
        else:
            store.put(pod(name, version, owner=owner))
    for owner in ("x", "y"):
        scanned = {p.key for p in store.list() if p.metadata.owner_references[:1] and
                   p.metadata.owner_references[0].uid == owner}  # fmt: skip
        assert {found.key for found in store.by_index("owner", owner)} == scanned
    for name in "abcd":
        store.remove(Key("default", name))
    assert store.by_index("owner", "x") == store.by_index("owner", "default/") == ()


# RF-29
def test_replace_tells_what_changed_and_no_more() -> None:
    store = Store[Pod]()
    for name in ("gone", "same", "changed", "remade"):
        store.put(pod(name))
    changes = replaced(store, [pod("same"), pod("changed", 2), pod("remade", 3, uid="other"), pod("new", 4)], {})
    assert names(changes.deleted) == ["remade", "gone"]
    assert names(changes.added) == ["remade", "new"]
    assert [(old.metadata.resource_version, new.metadata.resource_version) for old, new in changes.updated] == [
        ("1", "2")
    ]
    assert sorted(names(store.list())) == ["changed", "new", "remade", "same"]


# ST-6
def test_replace_keeps_the_last_good_version_of_the_undecodable() -> None:
    store = Store[Pod]()
    store.put(pod("a"))
    assert replaced(store, [], {Key("default", "a"): "why"}).deleted == ()
    assert store.get(Key("default", "a")) is not None
    assert store.undecodable == {Key("default", "a"): "why"}
    store.put(pod("a", 2))
    assert store.undecodable == {}


def test_version_only_rises() -> None:
    store = Store[Pod]()
    for text, expected in (("5", 5), ("3", 5), ("", 5), ("abc", 5), ("10", 10)):
        store.advance(text)
        assert store.resource_version == expected


# RF-5
@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("12", 12),
        ("", 0),
        ("0", 0),
        ("012", 0),
        ("-1", 0),
        ("1.5", 0),
        ("²", 0),
        ("9" * 30, 10**30 - 1),
        ("9" * 5000, 0),
    ],
)
def test_version_is_a_plain_positive_number(text: str, version: int) -> None:
    assert version_of(text) == version


# RF-35, IN-25
def test_callbacks_come_when_their_version_is_reached() -> None:
    store, calls = Store[Pod](), list[str]()
    store.notify_at_version(7, lambda: calls.append("seven"))
    store.notify_at_version(5, lambda: calls.append("five"))
    store.notify_at_version(5, lambda: calls.append("five again"))
    store.advance("4")
    assert calls == []
    store.advance("6")
    assert calls == ["five", "five again"]
    store.advance("7")
    store.notify_at_version(7, lambda: calls.append("at once"))
    assert calls == ["five", "five again", "seven", "at once"]


def test_callback_that_fails_does_not_stop_the_next() -> None:
    store, calls = Store[Pod](), list[int]()
    store.notify_at_version(1, lambda: calls.append(1 // 0))
    store.notify_at_version(1, lambda: calls.append(1))
    store.advance("1")
    assert calls == [1]


# RF-22, ST-14
def test_share_returns_the_stored_object_when_nothing_changed() -> None:
    store = Store[Pod]()
    old = pod("a")
    store.put(old)
    assert store.share(pod("a")) is old
    assert store.share(pod("a", 2)) is not old


def test_siblings_share_what_they_have_in_common() -> None:
    store = Store[Pod]()
    owned = '"labels":{"a":"b"},"ownerReferences":[{"uid":"j","controller":true}]'
    first, other, second = (
        codec.decode(Pod, f'{{"metadata":{{"name":"{name}","uid":"{name}",{owned}}}}}'.encode())
        for name in ("one", "other", "two")
    )
    for found in (first, other, second):
        before = codec.encode(found)
        store.put(store.share(found))
        assert codec.encode(found) == before
    assert second.metadata.labels is first.metadata.labels
    assert second.metadata.owner_references is first.metadata.owner_references
    assert second.spec is first.spec


def test_nothing_of_a_cached_pod_is_tracked_by_the_collector() -> None:
    """Source: ST-3, ST-4."""
    store = Store[Pod]()
    for number in range(1000):
        store.put(store.share(codec.decode(Pod, full_pod(number))))
    gc.collect()
    seen: set[int] = set()
    waiting: list[object] = list(store.list())
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, type):
            continue
        seen.add(id(value))
        # Python 3.14 tracks every dict.
        assert gc.is_tracked(value) == (isinstance(value, dict) and sys.version_info >= (3, 14)), value
        # A value out of the collector's sight names no referents: walk it by its fields.
        waiting += gc.get_referents(value)
        if isinstance(value, msgspec.Struct):
            waiting += [getattr(value, name) for name in value.__struct_fields__]
    assert len(seen) > 5000


def full_pod(number: int) -> bytes:
    """Return a pod with everything that a controller reads."""
    second = f"2026-01-01T00:00:{number % 60:02}Z"
    conditions = [
        {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": second}
        for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ]
    owner = f"job-{number % 10}"
    return msgspec.json.encode(
        {
            "metadata": {
                "name": f"pod-{number}", "namespace": "default", "uid": f"uid-{number}",
                "resourceVersion": str(number + 1), "creationTimestamp": second,
                "labels": {"batch.kubernetes.io/job-name": owner, "index": str(number)},
                "annotations": {"a": "b"}, "finalizers": ["batch.kubernetes.io/job-tracking"],
                "ownerReferences": [{"kind": "Job", "name": owner, "uid": owner, "controller": True}],
            },
            "spec": {"nodeName": f"node-{number % 3}", "containers": [{"name": "main", "image": "perl"}]},
            "status": {
                "phase": "Running", "conditions": conditions,
                "containerStatuses": [
                    {"name": "main", "ready": True, "restartCount": 1, "state": {"running": {"startedAt": second}}}
                ],
            },
        }
    )  # fmt: skip


# IN-24
def test_list_by_labels_finds_the_same_with_an_index_and_without() -> None:
    store = Store[Pod]()
    for number in range(20):
        labels = {"app": "web" if number % 2 else "db", "tier": str(number % 3)}
        found = pod(f"p{number}", namespace="xy"[number % 4 // 2])
        store.put(replace(found, metadata=replace(found.metadata, labels=labels)))
    scanned = [store.list(namespace, labels={"app": "web", "tier": "1"}) for namespace in (None, "x", "nowhere")]
    assert [len(found) for found in scanned] == [4, 2, 0]
    store.add_index("label:app")
    store.add_index("label:tier")
    indexed = [store.list(namespace, labels={"app": "web", "tier": "1"}) for namespace in (None, "x", "nowhere")]
    assert [sorted(names(found)) for found in indexed] == [sorted(names(found)) for found in scanned]


# IN-24
def test_what_was_listed_stays_as_it_was() -> None:
    store = Store[Pod]()
    store.put(pod("a"))
    for namespace in (None, "default"):
        listed = store.list(namespace)
        for found in listed:
            store.remove(found.key)
            store.put(pod("b"))
        assert names(listed) in (["a"], ["b"])


# IN-22
def test_built_in_indexes_are_made_when_first_asked_for() -> None:
    store = Store[Pod]()
    store.put(pod("a", namespace="x"))
    store.put(pod("b", namespace="y"))
    assert names(store.by_index("namespace", "x")) == ["a"]
    assert names(store.by_index("field:metadata.uid", "uid-b")) == ["b"]
    store.remove(Key("x", "a"))
    assert store.by_index("namespace", "x") == ()


# IN-20
def test_object_that_an_index_cannot_take_is_logged_and_kept() -> None:
    store = Store[Pod]()
    store.add_index("broken", lambda found: [str(1 // len(found.metadata.labels))])
    with capture_logs() as lines:
        store.put(pod("a"))
    assert [(line["event"], line["index"], line["key"]) for line in lines] == [("index failed", "broken", "default/a")]
    assert names(store.list()) == ["a"]


# IN-25
def test_many_changes_wake_those_who_wait_once() -> None:
    store, seen = Store[Pod](), list[int]()
    store.notify_at_version(3, lambda: seen.append(len(store)))
    replaced(store, [pod("a", 1), pod("b", 2), pod("c", 3)], {})
    assert seen == []
    store.advance("9")
    assert seen == [3]


@pytest.mark.parametrize("count", [1, 40, 3000])
@pytest.mark.parametrize("size", [0, 2000])
def test_estimated_bytes_are_those_of_the_objects(count: int, size: int) -> None:
    bodies = [
        codec.encode(pod(f"p{number}", number, uid=f"uid-{number}", owner=f"job-{number // 10}",
                         annotations={"text": f"{number}" + "x" * size}))
        for number in range(count)
    ]  # fmt: skip
    codec.decode(Pod, bodies[0])
    gc.collect()
    tracemalloc.start()
    store = Store[Pod]()
    for body in bodies:
        store.put(store.share(codec.decode(Pod, body)))
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    estimated = store.estimate_bytes()
    if count > 1:
        # The store itself has a share, of the places of objects and indexes.
        assert 0.4 * taken < estimated < 1.1 * taken
    assert estimated > count * size
    assert Store[Pod]().estimate_bytes() == 0


class Counted(dict[str, str]):
    """A mapping that counts how often it was read."""

    reads = 0

    def values(self) -> Any:
        Counted.reads += 1
        return super().values()


def test_estimate_reads_few_objects_of_many() -> None:
    store = Store[Pod]()
    for number in range(5000):
        store.put(pod(f"p{number}", number, annotations=Counted(a="b")))
    Counted.reads = 0
    store.estimate_bytes()
    assert 0 < Counted.reads <= 50


def test_estimate_reaches_the_bottom_of_a_deep_object() -> None:
    """A server accepts objects that are nested more deeply than Python calls."""
    deep: Any = "x" * 1000
    for _ in range(600):
        deep = {"a": deep}
    store, plain = Store[Pod](), pod("a")
    store.put(replace(plain, metadata=replace(plain.metadata, annotations=deep)))
    assert store.estimate_bytes() > 600 * sys.getsizeof({"a": 1})
