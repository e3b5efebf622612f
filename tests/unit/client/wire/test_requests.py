from typing import Any

import pytest

from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.client import Client
from kcr.client.wire.requests import Call, call_of, object_path, target
from tests.kit.scripted_transport import Script


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_what_is_no_name_never_becomes_a_path(name: str) -> None:
    with pytest.raises(ValueError, match=r"pods: .* is no name of an object"):
        object_path(Pod, Key("default", name))


@pytest.mark.parametrize("key", ["a", "default/a", ("default", "a")])
def test_key_that_is_none_is_refused_with_the_remedy(key: Any) -> None:
    with pytest.raises(TypeError, match=r"pods: .* is no kcr.Key: write kcr.Key\(namespace, name\)"):
        object_path(Pod, key)


@pytest.mark.kcr_virtual
async def test_deletion_without_a_name_does_not_delete_everything() -> None:
    script = Script()
    with pytest.raises(ValueError, match="is no name"):
        await Client(script).delete(Pod, Key("default", ""))
    with pytest.raises(ValueError, match="is no name"):
        await Client(script).get(Pod, Key("", ""))
    assert script.requests == []


def test_names_and_parameters_are_percent_encoded() -> None:
    assert object_path(Pod, Key("a/b", "c?d"), "log") == "/api/v1/namespaces/a%2Fb/pods/c%3Fd/log"
    assert (
        target("/x", {"labelSelector": "a in (b)", "limit": 0, "none": ""}) == "/x?labelSelector=a+in+%28b%29&limit=0"
    )


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
