from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from kcr.api.core import ConfigMap, Namespace
from kcr.api.meta import ObjectMeta, OwnerReference, PartialObjectMetadata, Resource, metadata_only
from kcr_devcluster.cluster.controllers.graph import FOREGROUND, ORPHAN, Graph

DELETED = datetime(2026, 1, 1, tzinfo=UTC)


def obj(name: str, *owners: OwnerReference, kind: type[Resource] = ConfigMap, **metadata: Any) -> PartialObjectMetadata:
    namespace = "" if kind is Namespace else "default"
    fields = {"namespace": namespace, "uid": f"uid-{name}", "owner_references": owners, **metadata}
    return metadata_only(kind)(metadata=ObjectMeta(name=name, **fields))


def owned_by(name: str, **other: Any) -> OwnerReference:
    return OwnerReference(**{"api_version": "v1", "kind": "ConfigMap", "name": name, "uid": f"uid-{name}", **other})


def graph_of(*objects: PartialObjectMetadata) -> tuple[Graph, list[str]]:
    changed = list[str]()
    graph = Graph(lambda uid, _: changed.append(uid), lambda *_: None)
    for each in objects:
        graph.on_add(each, initial=True)
    changed.clear()
    return graph, changed


def test_dependent_whose_owner_exists_is_settled() -> None:
    graph, changed = graph_of(obj("owner"))
    graph.on_add(obj("a", owned_by("owner")), initial=False)
    assert changed == []


@pytest.mark.parametrize(
    "reference",
    [
        pytest.param(owned_by("absent"), id="absent"),
        pytest.param(owned_by("other", uid="uid-owner"), id="other-name"),
        pytest.param(owned_by("owner", kind="Secret"), id="other-kind"),
    ],
)
def test_dependent_whose_reference_fits_no_object_is_not(reference: OwnerReference) -> None:
    graph, changed = graph_of(obj("owner"))
    graph.on_add(obj("a", reference), initial=False)
    assert changed == ["uid-a"]


def test_deleted_owner_has_its_dependents_looked_at() -> None:
    owner = obj("owner")
    graph, changed = graph_of(owner, obj("a", owned_by("owner")), obj("b", owned_by("owner")), obj("c"))
    graph.on_delete(owner, final_state_unknown=True)
    assert changed == ["uid-a", "uid-b"]


def test_owner_is_looked_at_when_a_dependent_is_deleted_or_released() -> None:
    owner, first, second = obj("owner"), obj("a", owned_by("owner")), obj("b", owned_by("owner"))
    graph, changed = graph_of(owner, first, second)
    graph.on_delete(first, final_state_unknown=False)
    graph.on_update(second, obj("b"))
    assert changed == ["uid-owner", "uid-owner"]
    assert graph.dependents(owner) == []


@pytest.mark.parametrize(("finalizer", "expected"), [(FOREGROUND, True), (ORPHAN, True), ("example.dev/hold", False)])
def test_terminating_object_matters_while_the_collector_holds_it(finalizer: str, expected: bool) -> None:
    graph, changed = graph_of(obj("a"))
    graph.on_update(obj("a"), obj("a", deletion_timestamp=DELETED, finalizers=(finalizer,)))
    assert bool(changed) is expected


def test_dependent_of_an_owner_that_waits_for_it_is_not_settled() -> None:
    waiting = obj("owner", deletion_timestamp=DELETED, finalizers=(FOREGROUND,))
    dependent = obj("a", owned_by("owner"))
    graph, _ = graph_of(waiting, dependent)
    assert not graph.is_settled(dependent)


def test_references_do_not_reach_into_other_namespaces() -> None:
    owner, near, far = obj("owner"), obj("a", owned_by("owner")), obj("b", owned_by("owner"), namespace="other")
    graph, _ = graph_of(owner, near, far)
    assert graph.dependents(owner) == [near]
    assert not graph.is_settled(far)


def test_owner_without_a_namespace_has_dependents_in_all() -> None:
    owner = obj("team", kind=Namespace)
    reference = owned_by("team", kind="Namespace")
    near, far = obj("a", reference), obj("b", reference, namespace="other")
    graph, _ = graph_of(owner, near, far)
    assert graph.dependents(owner) == [near, far]
    assert graph.is_settled(far)


OWNER = obj("owner", namespace="other")
NEAR = obj("near", namespace="other")
LINKED = obj("a", owned_by("ghost"), owned_by("owner"), owned_by("near"))
CLUSTER = obj("room", owned_by("owner"), kind=Namespace)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([OWNER, NEAR, LINKED], [("a", "owner")], id="owner-first"),
        pytest.param([LINKED, OWNER], [("a", "owner")], id="owner-last"),
        pytest.param([OWNER, CLUSTER], [("room", "owner")], id="without-a-namespace"),
        pytest.param([OWNER, obj("a", owned_by("owner"), namespace="other")], [], id="same"),
        pytest.param([obj("team", kind=Namespace), obj("a", owned_by("team", kind="Namespace"))], [], id="of-all"),
        pytest.param([LINKED], [], id="absent"),
    ],
)
def test_owner_in_another_namespace_is_reported_once(
    events: list[PartialObjectMetadata], expected: list[tuple[str, str]]
) -> None:
    reported = list[tuple[str, str]]()
    graph = Graph(lambda *_: None, lambda found, reference: reported.append((found.metadata.name, reference.name)))
    for each in events:
        graph.on_add(each, initial=False)
    for each in events:
        graph.on_update(each, replace(each, metadata=replace(each.metadata, labels={"new": ""})))
    assert reported == expected


def test_reference_that_is_added_later_is_reported() -> None:
    reported = list[str]()
    graph = Graph(lambda *_: None, lambda _, reference: reported.append(reference.name))
    for each in (OWNER, NEAR, obj("a", owned_by("owner"))):
        graph.on_add(each, initial=False)
    graph.on_update(obj("a", owned_by("owner")), obj("a", owned_by("owner"), owned_by("near")))
    assert reported == ["owner", "near"]
