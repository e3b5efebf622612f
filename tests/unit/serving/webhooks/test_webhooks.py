"""The one entry of all webhooks: codes, deadlines, panics, metrics."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

import kcr
from kcr.api.core import ConfigMap
from kcr.api.meta import ObjectMeta
from kcr.errors import LeadershipLostError
from kcr.metrics import Metrics
from kcr.serving.webhooks import WebhookOptions, Webhooks
from kcr.serving.webhooks.webhooks import MAX_BODY_BYTES, timeout_in
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.reviews import VALIDATE, Website, post, review, serve, website

pytestmark = pytest.mark.kcr_virtual


class Calls:
    """Calls a function that may fail or wait."""

    def __init__(self, call: Any) -> None:
        self._call = call

    async def validate_create(self, obj: Website, request: kcr.WebhookRequest) -> Any:
        return await self._call()


async def allow() -> None: ...


def counted(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"controller_runtime_webhook_{name}", labels)


@pytest.mark.parametrize(
    ("request_", "code", "reason"),
    [
        pytest.param({"path": "/validate-else"}, 404, "NotFound", id="path"),
        pytest.param({"content_type": "text/plain"}, 415, "UnsupportedMediaType", id="content-type"),
        pytest.param({"content_type": ""}, 415, "UnsupportedMediaType", id="no-content-type"),
        pytest.param({"body": b"{}"}, 400, "BadRequest", id="no-review"),
        pytest.param({"body": b""}, 400, "BadRequest", id="empty"),
        pytest.param({"body": b"\xff"}, 400, "BadRequest", id="no-text"),
        pytest.param({"body": b"[" * 100_000}, 400, "BadRequest", id="deep"),
        pytest.param({"body": b" " * (MAX_BODY_BYTES + 1)}, 413, "RequestEntityTooLarge", id="huge"),
    ],
)
async def test_malformed_request_has_its_code(request_: dict[str, Any], code: int, reason: str) -> None:  # WH-3
    given: dict[str, Any] = {"path": VALIDATE, "body": review(website()), **request_}
    status, answer = await post(serve(Calls(allow)), **given)
    assert (status, answer["code"], answer["reason"], answer["kind"]) == (code, code, reason, "Status")


async def test_content_type_may_have_parameters() -> None:
    status, _ = await post(
        serve(Calls(allow)), VALIDATE, review(website()), content_type="Application/JSON; charset=utf-8"
    )
    assert status == 200


def test_duplicate_path_is_refused_at_registration() -> None:  # WH-2
    webhooks = serve(Calls(allow))
    with pytest.raises(ValueError, match=f"webhook {VALIDATE}: there is one with this path already"):
        webhooks.add(Website, Calls(allow), WebhookOptions())
    webhooks.add(Website, Calls(allow), WebhookOptions(validating_path="/other"))
    assert webhooks.paths == (VALIDATE, "/other")
    assert [one.path for one in webhooks.rules] == [VALIDATE, "/other"]


@pytest.mark.parametrize(
    ("query", "seconds"),
    [("timeout=5s", 5), ("a=b&timeout=1m0s", 30), ("", 10), ("timeout=", 10), ("timeout=x", 10), ("timeout=-1s", 10)],
)
def test_timeout_is_that_of_the_caller(query: str, seconds: float) -> None:
    assert timeout_in(query) == seconds


async def test_slow_handler_is_cancelled_before_the_caller_gives_up(kcr_clock: VirtualClock) -> None:  # WH-7
    cancelled = asyncio.Event()

    async def hang() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            cancelled.set()

    began = asyncio.get_running_loop().time()
    status, answer = await post(serve(Calls(hang)), VALIDATE, review(website()), query="timeout=5s")
    assert (status, answer["reason"]) == (504, "Timeout")
    assert asyncio.get_running_loop().time() - began == 4.5
    assert cancelled.is_set()


async def cancel_oneself() -> None:
    raise asyncio.CancelledError


async def time_out() -> None:
    raise TimeoutError("of a library")


async def panic() -> None:
    raise KeyError("image")


async def lose_connection() -> None:
    raise kcr.TransportError("connection refused")


async def warn_of_a_number() -> Any:
    return [3]


@pytest.mark.parametrize(
    ("call", "message", "panics"),
    [
        pytest.param(panic, "panic: KeyError: 'image' [recovered]", 1, id="exception"),
        pytest.param(time_out, "panic: TimeoutError: of a library [recovered]", 1, id="timeout-of-a-library"),
        pytest.param(cancel_oneself, "panic: CancelledError [recovered]", 1, id="cancelled-by-itself"),
        pytest.param(lose_connection, "connection refused", 0, id="transport-error"),
        pytest.param(
            warn_of_a_number,
            "panic: TypeError: Calls.validate_create returned [3]: raise kcr.Denied to deny the request, return "
                "warnings as a list of strings, or None [recovered]", 1,
            id="warnings",
        ),
    ],
)  # fmt: skip
async def test_unexpected_exception_is_answered_and_counted(call: Any, message: str, panics: int) -> None:
    metrics = Metrics()
    webhooks = Webhooks(metrics)
    webhooks.add(Website, Calls(call), WebhookOptions())
    status, answer = await post(webhooks, VALIDATE, review(website()))
    assert (status, answer["message"]) == (500, message)
    assert counted(metrics, "panics_total") == panics
    assert counted(metrics, "requests_total", webhook=VALIDATE, code="500") == 1


class Panic(BaseException):
    """As the panic of a native module."""


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), Panic("x")], ids=["exit", "interrupt", "panic"])
def test_exception_of_any_kind_does_not_end_the_thread(error: BaseException) -> None:
    metrics = Metrics()
    webhooks = Webhooks(metrics)

    async def fail(body: bytes) -> bytes:
        raise error

    webhooks.add_endpoint("/fail", fail)
    with ThreadPoolExecutor() as threads:
        status, answer = threads.submit(asyncio.run, webhooks.handle("/fail", 10, b"{}", "application/json")).result(5)
    assert (status, b"[recovered]" in answer) == (500, True)
    assert counted(metrics, "panics_total") == 1


async def test_webhook_writes_without_the_lease(kcr_cluster: EmbeddedCluster) -> None:
    def lost() -> None:
        raise LeadershipLostError("leader election lost")

    client, webhooks = kcr_cluster.client.with_options(fence=lost), Webhooks(Metrics())

    async def create(body: bytes) -> bytes:
        await client.create(ConfigMap(metadata=ObjectMeta(namespace="default", name=body.decode())))
        return b"{}"

    webhooks.add_endpoint("/create", create)
    assert (await webhooks.handle("/create", 10, b"a", "application/json"))[0] == 200
    with pytest.raises(LeadershipLostError):
        await create(b"b")


async def test_each_error_is_logged_once(capsys: pytest.CaptureFixture[str]) -> None:
    webhooks = serve(Calls(panic))
    for _ in range(3):
        await post(webhooks, VALIDATE, review(website()))
    assert capsys.readouterr().err.count("webhook panicked") == 1


async def test_cancelled_request_ends(kcr_clock: VirtualClock) -> None:
    webhooks = serve(Calls(lambda: asyncio.sleep(3600)))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await post(webhooks, VALIDATE, review(website()))


async def test_requests_are_counted_under_the_names_of_controller_runtime(kcr_clock: VirtualClock) -> None:  # CM-58
    metrics = Metrics()
    webhooks = Webhooks(metrics)
    webhooks.add(Website, Calls(lambda: asyncio.sleep(2)), WebhookOptions())
    assert counted(metrics, "requests_total", webhook=VALIDATE, code="200") == 0
    async with asyncio.TaskGroup() as group:
        group.create_task(post(webhooks, VALIDATE, review(website())))
        await kcr_clock.advance(1)
        assert counted(metrics, "requests_in_flight", webhook=VALIDATE) == 1
    assert counted(metrics, "requests_in_flight", webhook=VALIDATE) == 0
    assert counted(metrics, "requests_total", webhook=VALIDATE, code="200") == 1
    assert counted(metrics, "latency_seconds_sum", webhook=VALIDATE) == 2
    await post(webhooks, VALIDATE, b"{}")
    assert counted(metrics, "requests_total", webhook=VALIDATE, code="400") == 1


async def test_other_endpoints_have_a_path_of_their_own() -> None:
    metrics = Metrics()
    webhooks = Webhooks(metrics)

    async def convert(body: bytes) -> bytes:
        if not body:
            raise ZeroDivisionError
        return body

    webhooks.add_endpoint("/convert", convert, panics="conversion")
    assert await webhooks.handle("/convert", 10, b"{}", "application/json") == (200, b"{}")
    assert (await webhooks.handle("/convert", 10, b"", "application/json"))[0] == 500
    assert metrics.registry.get_sample_value("controller_runtime_conversion_webhook_panics_total") == 1


class Gadget(kcr.Resource, api_version="example.dev/v1", plural="gadgets"):
    pass


class GadgetV1Beta1(kcr.Resource, kind="Gadget", api_version="example.dev/v1beta1", plural="gadgets"):
    pass


async def test_conversions_of_all_kinds_have_one_path() -> None:  # WH-2, WH-9
    kcr.converts(GadgetV1Beta1, Gadget)(lambda old: Gadget(metadata=old.metadata))
    kcr.converts(Gadget, GadgetV1Beta1)(lambda new: GadgetV1Beta1(metadata=new.metadata))
    metrics = Metrics()
    webhooks = Webhooks(metrics)
    for kind in (Gadget, GadgetV1Beta1):
        webhooks.add_conversion(kind)
    assert webhooks.paths == ("/convert",)
    gadget = {"apiVersion": "example.dev/v1beta1", "kind": "Gadget", "metadata": {"name": "a"}}
    request = {"uid": "1", "desiredAPIVersion": "example.dev/v1", "objects": [gadget]}
    sent = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
    status, answer = await post(webhooks, "/convert", msgspec.json.encode(sent))
    assert (status, answer["response"]["convertedObjects"]) == (200, [{**gadget, "apiVersion": "example.dev/v1"}])
    status, answer = await post(webhooks, "/convert", b"{}")
    assert (status, answer["reason"]) == (400, "BadRequest")
    assert counted(metrics, "requests_total", webhook="/convert", code="200") == 1


async def test_conversion_that_is_not_served_has_its_remedy() -> None:
    status, answer = await post(serve(Calls(allow)), "/convert", b"{}")
    assert (status, answer["message"]) == (
        404, "there is no webhook at /convert: convert the kind with manager.add_conversion",
    )  # fmt: skip


def test_conversion_without_functions_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"Website: no function is registered with @kcr\.converts"):
        Webhooks(Metrics()).add_conversion(Website)
