"""What counts as a difference of two rehearsals, and what does not."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kcr_devcluster.rehearsal.comparison import Condition, Difference, compare, conditions
from kcr_devcluster.rehearsal.snapshot_file import Head, Snapshot, SnapshotKind
from kcr_devcluster.rehearsal.versions import List, Outcome

KINDS = {
    "Shop": SnapshotKind("example.dev/v1", "Shop", "shops", namespaced=True, whole=True),
    "ConfigMap": SnapshotKind("v1", "ConfigMap", "configmaps", namespaced=True, whole=True),
    "Job": SnapshotKind("batch/v1", "Job", "jobs", namespaced=True, whole=True),
    "Pod": SnapshotKind("v1", "Pod", "pods", namespaced=True, whole=False),
    "ReplicaSet": SnapshotKind("apps/v1", "ReplicaSet", "replicasets", namespaced=True, whole=False),
    "Event": SnapshotKind("v1", "Event", "events", namespaced=True, whole=False),
}
Manifest = dict[str, Any]


def obj(kind: str, name: str, uid: str, owner: Manifest | None = None, **fields: Any) -> Manifest:
    metadata: Manifest = {"name": name, "namespace": "default", "uid": uid, **fields.pop("metadata", {})}
    if owner is not None:
        reference = {"kind": owner["kind"], "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        metadata["ownerReferences"] = [{**reference, "controller": True}]
    return {"apiVersion": KINDS[kind].api_version, "kind": kind, "metadata": metadata, **fields}


def snapshot(*objects: Manifest) -> Snapshot:
    head = Head(
        kcr="", kubernetes="", server="", time=datetime(2026, 1, 1, tzinfo=UTC), controllers=(),
        kinds=tuple(KINDS.values()),
    )  # fmt: skip
    return Snapshot(head, objects)


def outcome(*objects: Manifest) -> Outcome:
    lists = [
        List(kind.api_version, kind.plural, [one for one in objects if one["kind"] == kind.kind])
        for kind in KINDS.values()
    ]
    return Outcome(protocol=1, lists=lists)


SHOP = obj("Shop", "blue", "u-shop", spec={"color": "blue"})
FRONT = obj("ConfigMap", "front", "u-front", SHOP, data={"color": "blue"})
BOTH = snapshot(SHOP, FRONT)
AGAIN = obj("ConfigMap", "front", "u-again", SHOP, data={"color": "blue"})


def of(old: Outcome, new: Outcome, before: Snapshot = BOTH) -> list[Difference]:
    return compare(before, old, new)


def test_same_objects_are_no_difference() -> None:
    assert of(outcome(SHOP, FRONT), outcome(SHOP, FRONT)) == []


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        pytest.param([SHOP, FRONT], [SHOP], "deletes", id="deleted"),
        pytest.param([SHOP, FRONT], [SHOP, AGAIN], "replaces", id="replaced"),
        pytest.param([SHOP], [SHOP, FRONT], "keeps", id="kept"),
        pytest.param([SHOP, AGAIN], [SHOP, FRONT], "keeps", id="kept-and-not-replaced"),
    ],
)  # fmt: skip
def test_fate_of_an_object_of_the_snapshot(old: list[Manifest], new: list[Manifest], what: Any) -> None:
    assert of(outcome(*old), outcome(*new)) == [Difference(what, "configmaps", "default/front")]


def test_object_that_both_versions_delete_or_replace_is_no_difference() -> None:
    again = obj("ConfigMap", "front", "u-old", SHOP, data={"color": "blue"})
    other = obj("ConfigMap", "front", "u-new", SHOP, data={"color": "blue"})
    assert of(outcome(SHOP), outcome(SHOP)) == []
    assert of(outcome(SHOP, again), outcome(SHOP, other)) == []


def test_created_objects_are_matched_by_kind_and_name() -> None:
    back = obj("ConfigMap", "back", "u-old", SHOP, data={"color": "blue"})
    other = obj("ConfigMap", "back", "u-new", SHOP, data={"color": "red"})
    side = obj("ConfigMap", "side", "u-side", SHOP)
    assert of(outcome(SHOP, FRONT, back), outcome(SHOP, FRONT, other)) == [
        Difference("changes", "configmaps", "default/back", "data.color", '"blue"', '"red"')
    ]
    assert of(outcome(SHOP, FRONT), outcome(SHOP, FRONT, side)) == [Difference("creates", "configmaps", "default/side")]
    assert of(outcome(SHOP, FRONT, side), outcome(SHOP, FRONT)) == [Difference("lacks", "configmaps", "default/side")]


def job(name: str, uid: str, color: str = "blue", **metadata: Any) -> Manifest:
    given = {"generateName": "nightly-", **metadata}
    return obj("Job", name, uid, SHOP, metadata=given, spec={"color": color})


def test_generated_names_are_no_difference_wherever_they_stand() -> None:
    def side(name: str, uid: str, time: str) -> Outcome:
        made = job(name, f"{uid}-0000-4000-8000-000000000000", creationTimestamp=time, resourceVersion=uid)
        pod = obj("Pod", f"{name}-x{uid}", f"p-{uid}", made, metadata={"generateName": f"{name}-"}, spec={})
        shop = {**SHOP, "status": {"job": name, "since": time, "text": f"Job {name} runs since {time}"}}
        return outcome(shop, FRONT, made, pod)

    old = side("nightly-aaaaa", "11111111", "2026-01-01T00:00:01Z")
    assert of(old, side("nightly-bbbbb", "22222222", "2026-01-01T00:00:07Z")) == []
    more = outcome(*(item for one in old.lists for item in one.items), job("nightly-ccccc", "u-c"))
    assert of(old, more) == [Difference("creates", "jobs.batch", "default/nightly-ccccc")]


def test_objects_of_one_role_are_matched_by_their_content_first() -> None:
    old = outcome(SHOP, FRONT, job("nightly-a", "u-1", "red"), job("nightly-b", "u-2", "blue"))
    new = outcome(SHOP, FRONT, job("nightly-c", "u-3", "blue"), job("nightly-d", "u-4", "red"))
    assert of(old, new) == []
    changed = outcome(SHOP, FRONT, job("nightly-c", "u-3", "blue"), job("nightly-d", "u-4", "green"))
    assert of(old, changed) == [
        Difference("changes", "jobs.batch", "default/nightly-a", "spec.color", '"red"', '"green"')
    ]


def test_hash_of_a_template_is_no_role() -> None:
    def side(drawn: str, uid: str, image: str) -> Outcome:
        labels = {"labels": {"pod-template-hash": drawn}}
        made = obj("ReplicaSet", f"web-{drawn}", uid, SHOP, metadata=labels, spec={"image": image})
        return outcome(SHOP, FRONT, made)

    assert of(side("6d9", "u-1", "nginx:1"), side("7ff", "u-2", "nginx:2")) == [
        Difference("changes", "replicasets.apps", "default/web-6d9", "spec.image", '"nginx:1"', '"nginx:2"')
    ]


def test_volatile_fields_are_no_difference() -> None:
    def side(number: int) -> Outcome:
        metadata = {
            "resourceVersion": str(number), "generation": number, "managedFields": [{"time": f"t{number}"}],
            "creationTimestamp": f"2026-01-01T00:00:0{number}Z",
        }  # fmt: skip
        condition = {"type": "Ready", "status": "True", "lastTransitionTime": f"2026-01-01T00:00:0{number}.25Z"}
        status = {"observedGeneration": number, "podIP": f"10.0.0.{number}", "conditions": [condition]}
        return outcome(obj("Shop", "blue", "u-shop", metadata=metadata, spec={}, status=status), FRONT)

    assert of(side(1), side(2)) == []


def test_status_that_is_behind_is_a_difference() -> None:
    def side(observed: int) -> Outcome:
        return outcome(
            obj("Shop", "blue", "u-shop", metadata={"generation": 3}, status={"observedGeneration": observed}), FRONT
        )

    assert of(side(3), side(2)) == [
        Difference("changes", "shops.example.dev", "default/blue", "status.observedGeneration", "current", "1 behind")
    ]


def test_items_of_lists_are_named_by_type_or_name() -> None:
    def side(*types: tuple[str, str]) -> Outcome:
        listed = [{"type": type_, "status": status} for type_, status in types]
        return outcome({**SHOP, "status": {"conditions": listed}}, FRONT)

    assert of(side(("A", "True"), ("B", "True")), side(("B", "False"), ("A", "True"))) == [
        Difference("changes", "shops.example.dev", "default/blue", "status.conditions[B].status", '"True"', '"False"')
    ]


def test_field_that_only_one_version_writes_is_missing_in_the_other() -> None:
    finalizer = {**SHOP, "metadata": {**SHOP["metadata"], "finalizers": ["example.dev/shop"]}}
    assert of(outcome(SHOP, FRONT), outcome(finalizer, FRONT)) == [
        Difference(
            "changes", "shops.example.dev", "default/blue", "metadata.finalizers", "missing", '["example.dev/shop"]'
        )
    ]


def test_child_that_loses_its_owner_is_a_difference() -> None:
    orphan = obj("ConfigMap", "front", "u-front", data={"color": "blue"})
    assert of(outcome(SHOP, FRONT), outcome(SHOP, orphan)) == [
        Difference("changes", "configmaps", "default/front", "metadata.ownerReferences", "Shop blue", "none")
    ]


def test_events_are_no_difference_and_deletions_come_first() -> None:
    event = obj("Event", "blue.1", "u-event")
    side = obj("ConfigMap", "a-side", "u-side", SHOP)
    assert [one.what for one in of(outcome(SHOP, FRONT), outcome(SHOP, side, event))] == ["deletes", "creates"]


def test_owners_in_a_circle_end() -> None:
    one = obj("Job", "one", "u-1")
    other = obj("Job", "other", "u-2", one)
    one["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "other", "uid": "u-2", "controller": True}]
    assert of(outcome(SHOP, FRONT, one, other), outcome(SHOP, FRONT, one, other)) == []


def test_conditions_are_counted_by_kind_type_status_and_reason() -> None:
    def shop(name: str, status: object) -> Manifest:
        return obj("Shop", name, f"u-{name}", status=status)

    ready = {"conditions": [{"type": "Ready", "status": "True", "reason": "Up"}]}
    waits = {"conditions": [{"type": "Ready", "status": "False"}]}
    odd = [shop("odd", "a text"), shop("odder", {"conditions": ["a text"]}), shop("oddest", {"conditions": 1})]
    old, new = outcome(shop("a", ready), shop("b", ready), *odd), outcome(shop("a", ready), shop("b", waits))
    assert conditions(BOTH, old, new) == [
        Condition("shops.example.dev", "Ready", "False", "", 0, 1),
        Condition("shops.example.dev", "Ready", "True", "Up", 2, 1),
    ]
