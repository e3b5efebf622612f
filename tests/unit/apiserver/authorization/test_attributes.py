"""Source: apiserver/pkg/endpoints/request/requestinfo_test.go, TestGetAPIRequestInfo; handlers/responsewriters."""

import pytest

from kcr_devcluster.apiserver.authentication import User
from kcr_devcluster.apiserver.authorization.attributes import Attributes, forbidden, quoted, request_attributes
from kcr_devcluster.apiserver.protocol.query import Query

CORE = "/api/v1/namespaces/default"


@pytest.mark.parametrize(
    ("method", "target", "wanted"),
    [
        pytest.param("GET", f"{CORE}/pods", Attributes("list", "", "pods", "", "default"), id="list"),
        pytest.param("GET", "/api/v1/pods", Attributes("list", "", "pods"), id="list-all"),
        pytest.param("GET", f"{CORE}/pods?watch=1", Attributes("watch", "", "pods", "", "default"), id="watch"),
        pytest.param("GET", f"{CORE}/pods?watch=false", Attributes("list", "", "pods", "", "default"), id="no-watch"),
        pytest.param("GET", f"{CORE}/pods/a?watch=1", Attributes("get", "", "pods", "", "default", "a"), id="get"),
        pytest.param("GET", f"{CORE}/pods/a/log", Attributes("get", "", "pods", "log", "default", "a"), id="log"),
        pytest.param("POST", f"{CORE}/pods", Attributes("create", "", "pods", "", "default"), id="create"),
        pytest.param("PUT", f"{CORE}/pods/a", Attributes("update", "", "pods", "", "default", "a"), id="update"),
        pytest.param("PATCH", f"{CORE}/pods/a", Attributes("patch", "", "pods", "", "default", "a"), id="patch"),
        pytest.param("DELETE", f"{CORE}/pods/a", Attributes("delete", "", "pods", "", "default", "a"), id="delete"),
        pytest.param("DELETE", f"{CORE}/pods", Attributes("deletecollection", "", "pods", "", "default"), id="all"),
        pytest.param(
            "POST", f"{CORE}/pods/a/eviction", Attributes("create", "", "pods", "eviction", "default", "a"), id="evict"
        ),
        pytest.param("GET", CORE, Attributes("get", "", "namespaces", "", "default", "default"), id="namespace"),
        pytest.param(
            "PUT",
            f"{CORE}/finalize",
            Attributes("update", "", "namespaces", "finalize", "default", "default"),
            id="finalize",
        ),
        pytest.param("GET", "/api/v1/namespaces", Attributes("list", "", "namespaces"), id="namespaces"),
        pytest.param(
            "GET",
            "/apis/batch/v1/namespaces/a/jobs/b/status/",
            Attributes("get", "batch", "jobs", "status", "a", "b"),
            id="group",
        ),
        pytest.param("GET", "/apis/no/v1/things", Attributes("list", "no", "things"), id="unknown-kind"),
        pytest.param(
            "GET", f"/api/v1/watch{CORE[7:]}/pods", Attributes("watch", "", "pods", "", "default"), id="old-watch"
        ),
        pytest.param(
            "GET",
            f"{CORE}/secrets?watch=1&fieldSelector=metadata.name%3Da",
            Attributes("watch", "", "secrets", "", "default", "a"),
            id="one-by-selector",
        ),
        pytest.param(
            "GET",
            f"{CORE}/secrets?fieldSelector=metadata.name!%3Da",
            Attributes("list", "", "secrets", "", "default"),
            id="all-but-one",
        ),
        pytest.param("GET", "/apis/batch/v1", Attributes("get", path="/apis/batch/v1"), id="discovery"),
        pytest.param("GET", "/api/v1", Attributes("get", path="/api/v1"), id="old-discovery"),
        pytest.param("POST", "/metrics", Attributes("post", path="/metrics"), id="path"),
    ],
)
def test_attributes_follow_from_method_and_path(method: str, target: str, wanted: Attributes) -> None:
    path, _, query = target.partition("?")
    assert request_attributes(method, path, Query(query)) == wanted


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        pytest.param(
            Attributes("list", "", "pods", "", "default"),
            'pods is forbidden: User "x" cannot list resource "pods" in API group "" in the namespace "default"',
            id="namespace",
        ),
        pytest.param(
            Attributes("get", "apps", "deployments", "scale", "", "a"),
            'deployments.apps "a" is forbidden: User "x" cannot get resource "deployments/scale" in API group "apps" '
            "at the cluster scope",
            id="cluster",
        ),
        pytest.param(Attributes("get", path="/x"), 'forbidden: User "x" cannot get path "/x"', id="path"),
        pytest.param(Attributes("get", path="/<"), 'forbidden: User "x" cannot get path "/&lt;"', id="no-html"),
    ],
)
def test_refusal_names_user_verb_and_place(wanted: Attributes, message: str) -> None:
    error = forbidden(User("x"), wanted)
    assert (error.code, error.reason, error.message) == (403, "Forbidden", message)
    assert forbidden(User("x"), wanted, "RBAC: why").message == f"{message}: RBAC: why"


def test_several_texts_are_quoted_as_in_go() -> None:
    assert quoted(('a"b', "c")) == '["a\\"b" "c"]'
