"""Paths and queries."""

import pytest

from kcr_devcluster.apiserver.endpoints.routes import Query, Route, Routes, version_priority
from kcr_devcluster.apiserver.kinds.catalogue import KINDS, NAMESPACES, NODES, PODS, Kind
from kcr_devcluster.apiserver.responses import StatusError

ROUTES = Routes(KINDS)


@pytest.mark.parametrize(
    ("path", "kind", "namespace", "name", "subresource"),
    [
        ("pods", PODS, "", "", ""),
        ("namespaces/ns/pods", PODS, "ns", "", ""),
        ("namespaces/ns/pods/p", PODS, "ns", "p", ""),
        ("namespaces/ns/pods/p/log", PODS, "ns", "p", "log"),
        ("namespaces", NAMESPACES, "", "", ""),
        ("namespaces/ns", NAMESPACES, "", "ns", ""),
        ("namespaces/ns/status", NAMESPACES, "", "ns", "status"),
        ("namespaces/ns/finalize", NAMESPACES, "", "ns", "finalize"),
        ("nodes/n%2Fo/status", NODES, "", "n/o", "status"),
    ],
)
def test_path_names_kind_and_object(path: str, kind: Kind, namespace: str, name: str, subresource: str) -> None:
    assert ROUTES.find("", "v1", path.split("/")) == Route(kind, namespace, name, subresource)


@pytest.mark.parametrize(
    "path", ["", "nope", "pods/p", "namespaces/ns/nodes", "namespaces/ns/pods/p/log/x", "nodes/n/log"]
)
def test_path_to_nothing_is_not_found(path: str) -> None:
    with pytest.raises(StatusError) as caught:
        ROUTES.find("", "v1", path.split("/"))
    assert (caught.value.code, caught.value.details) == (404, {})


@pytest.mark.parametrize(
    ("text", "is_true"),
    [
        ("", False),
        ("watch", False),
        ("watch=0", False),
        ("watch=False", False),
        ("watch=1", True),
        ("watch=banana", True),
    ],
)
def test_anything_but_false_is_true(text: str, is_true: bool) -> None:
    assert Query(text).flag("watch") is is_true


def test_query_is_percent_decoded() -> None:
    query = Query("labelSelector=a+in+%28b%2Cc%29&x")
    assert query.text("labelSelector") == "a in (b,c)"
    assert query.has("x")
    assert query.integer("limit") is None


def test_versions_of_a_group_are_ordered_by_what_they_promise() -> None:
    names = ["v1alpha1", "v10", "foo", "v2beta1", "v1", "v2alpha2", "v2beta2", "v11beta1", "v2", "bar"]
    assert sorted(names, key=version_priority) == [
        "v10", "v2", "v1", "v11beta1", "v2beta2", "v2beta1", "v2alpha2", "v1alpha1", "bar", "foo",
    ]  # fmt: skip
