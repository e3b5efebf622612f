"""The spans of requests, by OpenTelemetry's conventions for HTTP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode, TraceFlags

from kcr.api.core import ConfigMap, Pod
from kcr.api.meta import Key
from kcr.client import Client, Request
from kcr.client.wire.transport import path_template
from kcr.errors import NotFoundError, TransportError
from kcr.metrics import Metrics
from kcr.testing import VirtualClock
from tests.kit.scripted_transport import Say, Script, failure
from tests.kit.traces import Traces, attributes, seconds, span_id, trace_id

pytestmark = pytest.mark.kcr_virtual

KEY = Key("default", "a")
MAP = {"metadata": {"name": "a", "namespace": "default"}}


class Remote(Script):
    """A script that says which server it stands for, and takes its time."""

    server = "https://example.test:6443"

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Say]:
        await asyncio.sleep(2)
        async with super().send(request) as answer:
            yield answer


async def test_request_is_a_client_span_that_the_server_may_join(traces: Traces) -> None:
    script = Remote(Say(MAP))
    await Client(script).get(ConfigMap, KEY)
    span = traces.one("GET /api/v1/namespaces/{namespace}/configmaps/{name}")
    assert attributes(span) == {
        "http.request.method": "GET", "http.response.status_code": 200,
        "server.address": "example.test", "server.port": 6443,
        "url.full": "https://example.test:6443/api/v1/namespaces/default/configmaps/a",
        "url.template": "/api/v1/namespaces/{namespace}/configmaps/{name}",
    }  # fmt: skip
    assert (span.kind, span.status.status_code, seconds(span)) == (SpanKind.CLIENT, StatusCode.UNSET, 2)
    *ids, flags = script.requests[0].headers["traceparent"].split("-")
    assert ids == ["00", f"{trace_id(span):032x}", f"{span_id(span):016x}"]
    assert int(flags, 16) & TraceFlags.SAMPLED
    assert not trace.get_current_span().get_span_context().is_valid


async def test_each_attempt_is_a_span_of_its_own(traces: Traces, kcr_clock: VirtualClock) -> None:
    busy = failure(429)
    busy.headers = {"retry-after": "1"}
    script = Script(busy, busy, Say(MAP))
    await Client(script).create(ConfigMap())
    found = [
        (attributes(span)["http.response.status_code"], attributes(span).get("http.request.resend_count"))
        for span in traces.find("POST")
    ]
    assert found == [(429, None), (429, 1), (200, 2)]


async def test_refusal_is_an_error_by_its_code(traces: Traces) -> None:
    with pytest.raises(NotFoundError):
        await Client(Script(failure(404))).get(ConfigMap, KEY)
    span = traces.one("GET")
    assert (span.status.status_code, attributes(span)["error.type"]) == (StatusCode.ERROR, "404")
    assert span.events == ()


async def test_no_answer_is_an_error_with_its_exception(traces: Traces) -> None:
    with pytest.raises(TransportError):
        await Client(Script(TransportError("cut"))).create(ConfigMap())
    span = traces.one("POST")
    assert (span.status.description, attributes(span)["error.type"]) == ("cut", "TransportError")
    assert [event.name for event in span.events] == ["exception"]


async def test_cancelled_request_ends_its_span(traces: Traces, kcr_clock: VirtualClock) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3):
            await Client(Script()).get(ConfigMap, KEY)
    span = traces.one("GET")
    assert (seconds(span), attributes(span)["error.type"], span.events) == (3, "CancelledError", ())


@pytest.mark.parametrize("then", [TransportError("cut"), "stay"])
async def test_span_of_a_watch_ends_when_it_begins(
    traces: Traces, caplog: pytest.LogCaptureFixture, kcr_clock: VirtualClock, then: Exception | str
) -> None:
    client = Client(Script(Say(then=then, seconds=60)))
    with pytest.raises((TransportError, TimeoutError)):
        async with asyncio.timeout(90), client.watch(Pod, resource_version="1", timeout_seconds=300) as events:
            (span,) = traces.find("GET /api/v1/pods")
            async for _ in events:
                pass
    assert (seconds(span), span.status.status_code) == (0, StatusCode.UNSET)
    assert traces.find() == [span]
    # The SDK warns of changes of a span that has ended.
    assert not [record for record in caplog.records if record.name.startswith("opentelemetry")]


async def test_histogram_of_durations_has_the_request_as_exemplar(traces: Traces) -> None:
    metrics = Metrics()
    await Client(Remote(Say(MAP)), observer=metrics.requests("example.test")).get(ConfigMap, KEY)
    text = metrics.render("application/openmetrics-text")[0].decode()
    (line,) = [line for line in text.splitlines() if " # {" in line]
    assert line.startswith("rest_client_request_duration_seconds_bucket")
    assert f'span_id="{span_id(traces.one("GET")):016x}"' in line


async def test_trace_that_is_not_sampled_is_still_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    traces, script, metrics = Traces(monkeypatch, ALWAYS_OFF), Remote(Say(MAP)), Metrics()
    await Client(script, observer=metrics.requests("example.test")).get(ConfigMap, KEY)
    assert traces.find() == []
    assert not int(script.requests[0].headers["traceparent"].rpartition("-")[2], 16) & TraceFlags.SAMPLED
    assert " # {" not in metrics.render("application/openmetrics-text")[0].decode()


async def test_without_a_provider_requests_are_sent_as_they_are() -> None:
    script = Script(Say(MAP))
    await Client(script).get(ConfigMap, KEY)
    assert dict(script.requests[0].headers) == {"accept": "application/json"}


@pytest.mark.parametrize(
    ("target", "template"),
    [
        ("/version?timeout=1", "/version"),
        ("/api/v1", "/api/v1"),
        ("/api/v1/nodes", "/api/v1/nodes"),
        ("/api/v1/nodes/n1/proxy/metrics/cadvisor", "/api/v1/nodes/{name}/proxy/{path}"),
        ("/api/v1/namespaces/x", "/api/v1/namespaces/{name}"),
        ("/api/v1/namespaces/x/finalize", "/api/v1/namespaces/{name}/finalize"),
        ("/api/v1/namespaces/x/pods?watch=true", "/api/v1/namespaces/{namespace}/pods"),
        ("/api/v1/namespaces/x/pods/p/log", "/api/v1/namespaces/{namespace}/pods/{name}/log"),
        ("/apis/batch/v1/jobs", "/apis/batch/v1/jobs"),
        ("/apis/batch/v1/namespaces/x/jobs/j/status", "/apis/batch/v1/namespaces/{namespace}/jobs/{name}/status"),
        ("/openapi/v3/apis/batch/v1", "/openapi/v3/apis/batch/v1"),
    ],
)
def test_path_template_has_few_values(target: str, template: str) -> None:
    assert path_template(target) == template
