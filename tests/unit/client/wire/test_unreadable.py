"""What answers prove that the API server has not written, or that have been cut on their way."""

from collections.abc import Awaitable, Callable

import pytest

from kcr.api.core import ConfigMap, Pod
from kcr.api.meta import Key, ObjectMeta
from kcr.client import Client
from kcr.client.wire.decoding import UNEXPECTED_RESPONSE
from kcr.errors import (
    ApiError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    TransportError,
    UnauthorizedError,
)
from tests.kit.scripted_transport import Say, Script, failure

pytestmark = pytest.mark.kcr_virtual

KEY = Key("default", "a")
CONFIG = ConfigMap(metadata=ObjectMeta(name="a", namespace="default"))
PAGE = b"<html><title>404 Not Found</title></html>"
NO_ROUTE = b'{"message": "no Route matched with those values"}'

CALLS: dict[str, Callable[[Client], Awaitable[object]]] = {
    "create": lambda client: client.create(CONFIG),
    "create-manifest": lambda client: client.create_manifest(Pod, {"metadata": {"name": "a"}}, "default"),
    "patch": lambda client: client.merge_patch(Pod, KEY, {"metadata": {"labels": {}}}, subresource="status"),
    "apply": lambda client: client.apply(CONFIG),
    "delete": lambda client: client.delete(Pod, KEY, uid="u"),
    "evict": lambda client: client.evict(KEY),
    "scale": lambda client: client.set_scale(Pod, KEY, 2),
    "get": lambda client: client.get(Pod, Key("default", "a")),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"kind":"Pod","metadata":{"name":"a","name', id="cut"),
        pytest.param(b"", id="empty"),
        pytest.param(PAGE, id="page"),
        pytest.param(b'{"metadata":{"name":"\xff"}}', id="no-utf-8"),
        pytest.param(b'{"metadata":{"name":5}}', id="other-type"),
        pytest.param(b"{}", id="nothing"),
    ],
)
async def test_success_that_cannot_be_read_is_no_refusal(call: str, body: bytes) -> None:
    with pytest.raises(TransportError, match="does not fit"):
        await CALLS[call](Client(Script(Say(body, status=201))))


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("code", [302, 400, 403, 404, 409, 410, 418, 422, 502])
@pytest.mark.parametrize("body", [PAGE, b"", NO_ROUTE, b"404 page not found\n"], ids=["page", "empty", "json", "text"])
async def test_refusal_without_a_status_proves_nothing(call: str, code: int, body: bytes) -> None:
    with pytest.raises(ServerError) as caught:
        await CALLS[call](Client(Script(Say(body, status=code))))
    assert caught.value.code == code
    assert caught.value.has_cause(UNEXPECTED_RESPONSE)


async def test_cut_status_proves_nothing() -> None:
    whole = await failure(404, "NotFound", "gone", name="a").read()
    with pytest.raises(ServerError, match="HTTP 404"):
        await Client(Script(Say(whole[:-5], status=404))).get(Pod, Key("default", "a"))


@pytest.mark.parametrize(
    ("code", "expected"), [(401, UnauthorizedError), (429, TooManyRequestsError)], ids=["unknown", "busy"]
)
async def test_filters_of_the_server_may_answer_in_plain_text(code: int, expected: type[ApiError]) -> None:
    # Source: apiserver/pkg/server/filters/maxinflight.go, tooManyRequests.
    with pytest.raises(expected):
        await Client(Script(Say(b"Too many requests, please try again later.", status=code))).create(CONFIG)


async def test_plain_404_is_believed_of_all_objects_of_a_kind_only() -> None:
    # So the server answers for a group that it does not have; but so does any other server written in Go.
    answer = Say(b"404 page not found\n", status=404)
    message = r"HTTP 404: the server does not know /api/v1/namespaces/default/pods"
    with pytest.raises(NotFoundError, match=message):
        await Client(Script(answer)).list(Pod, "default")
    with pytest.raises(ServerError, match=message):
        await Client(Script(answer)).get(Pod, Key("default", "a"))
    with pytest.raises(ServerError, match="HTTP 404: the server does not know"):
        await Client(Script(answer)).create(CONFIG)


async def test_proxy_cannot_promise_that_a_write_did_not_happen() -> None:
    # A 503 with Retry-After is sent again, but only where the API server has said so itself.
    script = Script(Say(PAGE, status=503, headers={"retry-after": "1"}))
    with pytest.raises(ServerError):
        await Client(script).create(CONFIG)
    assert len(script.requests) == 1


async def test_read_that_a_proxy_refused_is_sent_again_when_it_says() -> None:
    pod = {"metadata": {"name": "a"}}
    script = Script(Say(PAGE, status=503, headers={"retry-after": "1"}), Say(pod))
    await Client(script).get(Pod, Key("default", "a"))
    assert script.times == [0, pytest.approx(1.1, abs=0.1)]
