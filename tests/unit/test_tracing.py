"""What the rest of the program sees of traces: log lines, exemplars, and nothing where there is no OpenTelemetry."""

import subprocess
import sys

import msgspec
import pytest
from opentelemetry import trace
from opentelemetry.trace import NoOpTracerProvider, ProxyTracerProvider
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from kcr.app.logs import configure_logs
from kcr.log import get_logger
from kcr.metrics import Metrics
from kcr.tracing import ActiveSpan, find_tracer
from tests.kit.traces import Traces, span_id, trace_id

pytestmark = pytest.mark.kcr_virtual

OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
BLOCKED = """
import asyncio, random, sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Blocker())

import kcr
from kcr.app.logs import configure_logs
from kcr.testing import FakeManager

configure_logs("json", "info")
done = []

class Reconciler:
    async def reconcile(self, key):
        done.append(key)
        raise ValueError("seen")

async def main():
    manager = FakeManager()
    controller = manager.add_controller("wall", Reconciler())
    async with manager.running():
        controller.queue.add(kcr.Key("default", "a"))
        while not done:
            await asyncio.sleep(0)
    print(manager.metrics.render("application/openmetrics-text")[0].decode()[-4:])

asyncio.run(main())
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""


async def test_only_a_real_provider_makes_a_tracer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_tracer() is None
    Traces(monkeypatch)
    assert find_tracer() is not None
    for provider in (NoOpTracerProvider(), ProxyTracerProvider()):
        monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", provider)
        assert find_tracer() is None


async def test_sdk_that_is_switched_off_makes_no_tracer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    Traces(monkeypatch)
    assert find_tracer() is None


async def test_log_lines_name_trace_and_span(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    traces, tracer = Traces(monkeypatch), find_tracer()
    assert tracer is not None
    configure_logs("json", "debug")
    log = get_logger()
    span = ActiveSpan(tracer, "reconcile wall", {})
    span.enter()
    log.info("inside")
    span.leave()
    span.end()
    log.info("outside")
    inside, outside = (msgspec.json.decode(line) for line in capsys.readouterr().err.splitlines())
    found = traces.one("reconcile")
    assert (inside["trace_id"], inside["span_id"]) == (f"{trace_id(found):032x}", f"{span_id(found):016x}")
    assert not {"trace_id", "span_id"} & outside.keys()


async def test_exemplars_pass_the_parser_of_open_metrics() -> None:
    metrics = Metrics()
    seconds = metrics.controller("wall", 1).seconds
    seconds.observe(0.2, {"trace_id": "1" * 32, "span_id": "2" * 16})
    seconds.observe(0.19, {"trace_id": "3" * 32, "span_id": "4" * 16})
    seconds.observe(0.18)
    seconds.observe(100, {"trace_id": "5" * 32, "span_id": "6" * 16})
    text = metrics.render(OPEN_METRICS)[0].decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}  # type: ignore[no-untyped-call]  # theirs
    samples = families["controller_runtime_reconcile_time_seconds"].samples
    found = {sample.labels["le"]: sample.exemplar for sample in samples if sample.exemplar}
    assert {bound: (exemplar.labels["trace_id"][0], exemplar.value) for bound, exemplar in found.items()} == {
        "0.2": ("3", 0.19), "+Inf": ("5", 100),
    }  # fmt: skip
    assert all(exemplar.timestamp for exemplar in found.values())
    assert "trace_id" not in metrics.render("text/plain")[0].decode()


async def test_context_of_the_program_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    traces = Traces(monkeypatch)
    with traces.provider.get_tracer("user").start_as_current_span("mine") as mine:
        tracer = find_tracer()
        assert tracer is not None
        span = ActiveSpan(tracer, "reconcile wall", {})
        span.enter()
        span.leave()
        assert trace.get_current_span() is mine


@pytest.mark.timeout(60)
def test_works_where_opentelemetry_is_not_installed() -> None:
    done = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "EOF"), done.stderr
    assert "reconcile failed" in done.stderr
