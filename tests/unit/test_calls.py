import pytest

from kcr_devcluster.calls import Call, call_of


@pytest.mark.parametrize(
    ("method", "target", "call"),
    [
        pytest.param("GET", "/api/v1/pods", Call("list", ("", "v1", "pods")), id="list-all"),
        pytest.param("GET", "/api/v1/namespaces/a/pods?watch=true", Call("watch", ("", "v1", "pods")), id="watch"),
        pytest.param(
            "PATCH",
            "/apis/batch/v1/namespaces/a/jobs/pi/status",
            Call("patch", ("batch", "v1", "jobs"), "pi", "status"),
            id="status",
        ),
        pytest.param("GET", "/api/v1/namespaces/a", Call("get", ("", "v1", "namespaces"), "a"), id="namespace"),
        pytest.param(
            "PUT",
            "/api/v1/namespaces/a/finalize",
            Call("update", ("", "v1", "namespaces"), "a", "finalize"),
            id="finalize",
        ),
        pytest.param("GET", "/version", Call("get"), id="no-resource"),
        pytest.param("GET", "/apis/batch/v1", Call("get"), id="discovery"),
    ],
)
def test_request_is_known_by_what_it_asks_for(method: str, target: str, call: Call) -> None:  # TK-8
    assert call_of(method, target) == call
