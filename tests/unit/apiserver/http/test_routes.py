"""Paths."""

import pytest

from kcr_devcluster.apiserver.http.routes import Route, Routes
from kcr_devcluster.apiserver.kinds.catalogue import KINDS, NAMESPACES, NODES, PODS
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.protocol.responses import StatusError

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
        ("nodes/n/status", NODES, "", "n", "status"),
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
