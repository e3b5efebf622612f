import asyncio
import platform
import random
from importlib.metadata import version

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kcr.api.meta import Key
from kcr.client import Client, Request
from kcr.controller import Controller, ControllerOptions, Result
from kcr.errors import TransportError
from kcr.metrics import QUEUE_BUCKETS, Metrics
from kcr.scopes.gate import ScopePhase
from kcr.scopes.leaderelection import LeaderElectionConfig
from kcr.scopes.sharding.shards import Shards
from kcr.testing import VirtualClock
from kcr.workqueue import LOW_PRIORITY, ItemExponential, WorkQueue
from tests.kit.scripted_transport import Say, Script, failure

pytestmark = pytest.mark.kcr_virtual


def value(metrics: Metrics, series: str, /, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(series, labels)


def of_queue(metrics: Metrics, name: str) -> float | None:
    return value(metrics, f"workqueue_{name}", name="test", controller="test")


def depth(metrics: Metrics, priority: str = "0") -> float | None:
    return value(metrics, "workqueue_depth", name="test", controller="test", priority=priority)


async def test_queue_counts_under_the_fields_names(kcr_clock: VirtualClock) -> None:  # WQ-39, WQ-2, WQ-28
    metrics = Metrics()
    queue = WorkQueue[str](ItemExponential(1, 60), metrics=metrics.queue("test"))
    for key in ("a", "a", "b"):
        queue.add(key)
    queue.add_after("c", 0)
    queue.add_rate_limited("d")
    assert of_queue(metrics, "adds_total") == 3
    # An add without a delay is no retry.
    assert of_queue(metrics, "retries_total") == 1
    assert depth(metrics) == 3
    await kcr_clock.advance(1)
    assert depth(metrics) == 4


async def test_waiting_and_work_are_timed(kcr_clock: VirtualClock) -> None:  # WQ-41
    metrics = Metrics()
    queue = WorkQueue[str](metrics=metrics.queue("test"))
    queue.add("a")
    await kcr_clock.advance(2)
    queue.add("a")
    await kcr_clock.advance(3)
    key = await queue.get()
    assert of_queue(metrics, "queue_duration_seconds_sum") == 5
    await kcr_clock.advance(7)
    queue.add(key)
    queue.done(key)
    assert of_queue(metrics, "work_duration_seconds_sum") == 7
    await kcr_clock.advance(1)
    await queue.get()
    assert of_queue(metrics, "queue_duration_seconds_sum") == 6


async def test_work_in_hand_is_computed_when_asked(kcr_clock: VirtualClock) -> None:  # WQ-41
    metrics = Metrics()
    queue = WorkQueue[str](metrics=metrics.queue("test"))
    assert of_queue(metrics, "longest_running_processor_seconds") == 0
    for key in ("a", "b"):
        queue.add(key)
        await queue.get()
        await kcr_clock.advance(10)
    assert of_queue(metrics, "unfinished_work_seconds") == 30
    assert of_queue(metrics, "longest_running_processor_seconds") == 20


async def test_durations_fall_into_the_bucket_they_do_not_exceed(kcr_clock: VirtualClock) -> None:  # WQ-40
    metrics = Metrics()
    queue = WorkQueue[str](metrics=metrics.queue("test"))
    for seconds in (0, 1, 5, 5000):
        queue.add("a")
        await kcr_clock.advance(seconds)
        async with queue.item():
            pass
    counts = {
        bound: value(metrics, "workqueue_queue_duration_seconds_bucket", name="test", controller="test", le=bound)
        for bound in ("1e-08", "1.0", "10.0", "1000.0", "+Inf")
    }
    assert counts == {"1e-08": 1, "1.0": 2, "10.0": 3, "1000.0": 3, "+Inf": 4}
    assert of_queue(metrics, "queue_duration_seconds_count") == 4


def test_queue_histograms_have_twelve_buckets() -> None:  # WQ-40
    assert list(QUEUE_BUCKETS) == pytest.approx([10.0 ** (power - 8) for power in range(12)])


def test_second_queue_of_a_name_is_refused() -> None:  # WQ-43, CM-3
    metrics = Metrics()
    metrics.queue("test")
    with pytest.raises(ValueError, match="work queue test: there is one of this name already"):
        metrics.queue("test")


async def test_unnamed_queue_exports_nothing() -> None:  # WQ-43
    metrics = Metrics()
    queue = WorkQueue[str]()
    queue.add("a")
    assert b"workqueue_adds_total{" not in metrics.render()[0]


async def test_depth_is_told_by_priority() -> None:  # WQ-39
    metrics = Metrics()
    queue = WorkQueue[str](metrics=metrics.queue("test"))
    assert (depth(metrics), depth(metrics, "-100")) == (0, None)
    for key in ("a", "b", "c"):
        queue.add(key, priority=LOW_PRIORITY)
    queue.add("a")
    assert (depth(metrics), depth(metrics, "-100")) == (1, 2)
    for _ in range(3):
        await queue.get()
    assert (depth(metrics), depth(metrics, "-100")) == (0, 0)


async def test_many_priorities_share_one_series() -> None:  # WQ-42
    metrics = Metrics()
    queue = WorkQueue[int](metrics=metrics.queue("test"))
    for number in range(40):
        queue.add(number, priority=number)
    assert [depth(metrics, str(priority)) for priority in (0, 39, 16, 15)] == [1, 1, 1, None]
    assert depth(metrics, "exceeded_cardinality_limit") == 15


async def test_two_registries_do_not_meet() -> None:  # CM-63
    first, second = Metrics(), Metrics()
    queue = WorkQueue[str](metrics=first.queue("test"))
    second.queue("test")
    queue.add("a")
    assert (of_queue(first, "adds_total"), of_queue(second, "adds_total")) == (1, 0)


class Idle:
    async def reconcile(self, key: Key) -> Result:
        return Result()


async def test_controller_starts_with_all_series_at_zero() -> None:  # CM-56
    metrics = Metrics()
    Controller("test", Idle(), ControllerOptions(workers=3), random=random.Random(0), metrics=metrics)
    for result in ("success", "error", "requeue", "requeue_after", "cancelled"):
        assert value(metrics, "controller_runtime_reconcile_total", controller="test", result=result) == 0
    for name in (
        "reconcile_errors_total", "terminal_reconcile_errors_total", "reconcile_panics_total",
        "reconcile_timeouts_total", "active_workers",
    ):  # fmt: skip
        assert value(metrics, f"controller_runtime_{name}", controller="test") == 0
    assert value(metrics, "controller_runtime_max_concurrent_reconciles", controller="test") == 3


async def test_reconcile_times_have_the_fields_buckets() -> None:  # CM-57
    metrics = Metrics()
    metrics.controller("test", 1)
    families = {family.name: family for family in metrics.registry.collect()}
    samples = families["controller_runtime_reconcile_time_seconds"].samples
    bounds = [float(sample.labels["le"]) for sample in samples if sample.name.endswith("_bucket")]
    assert (len(bounds), bounds[:3], bounds[-2]) == (41, [0.005, 0.01, 0.025], 60)


async def test_requests_are_counted_without_their_paths() -> None:  # CM-59
    metrics = Metrics()
    observe = metrics.requests("api:6443").answered
    observe(Request("GET", "/x"), 200, 0.1)
    observe(Request("GET", "/x"), 404, 0.2)
    observe(Request("POST", "/x", body=b"{}"), 0, 0.3)
    assert value(metrics, "rest_client_requests_total", code="404", method="GET", host="api:6443") == 1
    assert value(metrics, "rest_client_requests_total", code="<error>", method="POST", host="api:6443") == 1
    duration = "rest_client_request_duration_seconds"
    assert value(metrics, f"{duration}_count", verb="GET", host="api:6443") == 2
    assert value(metrics, f"{duration}_sum", verb="POST", host="api:6443") == 0.3


async def test_requests_have_sizes_and_retries(kcr_clock: VirtualClock) -> None:
    metrics, script = Metrics(), Script(failure(429), TransportError("cut"), Say(b"12345"), Say(b"1"))
    script.answers[0].headers = {"retry-after": "1"}  # type: ignore[union-attr]  # an answer, no exception
    client = Client(script, observer=metrics.requests("api"))
    assert await client.request("GET", "/x") == b"12345"
    await client.request("POST", "/x", b"123")
    retries = {code: value(metrics, "rest_client_request_retries_total", code=code, verb="GET", host="api")
               for code in ("429", "<error>", "200")}  # fmt: skip
    assert retries == {"429": None, "<error>": 1, "200": 1}, "each attempt after the first"

    def size(what: str, part: str, verb: str) -> float | None:
        return value(metrics, f"rest_client_{what}_size_bytes_{part}", verb=verb, host="api")

    assert (size("request", "count", "GET"), size("request", "sum", "GET")) == (3, 0)
    assert (size("request", "count", "POST"), size("request", "sum", "POST")) == (1, 3)
    assert (size("response", "count", "GET"), size("response", "sum", "POST")) == (2, 1), "a refusal has a body, too"


async def test_watch_has_no_size(kcr_clock: VirtualClock) -> None:
    metrics = Metrics()
    async with Client(Script(Say(b"{}")), observer=metrics.requests("api")).lines("/x?watch=1") as lines:
        assert [line async for line in lines] == [b"{}"]
    assert value(metrics, "rest_client_requests_total", code="200", method="GET", host="api") == 1
    assert value(metrics, "rest_client_request_size_bytes_count", verb="GET", host="api") is None
    assert value(metrics, "rest_client_response_size_bytes_count", verb="GET", host="api") is None


def test_calls_of_all_plugins_are_added_up() -> None:
    metrics = Metrics()
    for calls in ({(0, "no_error"): 2}, {(0, "no_error"): 1, (3, "plugin_execution_error"): 1}):
        metrics.exec_plugin(calls)
    name = "rest_client_exec_plugin_call_total"
    assert value(metrics, name, code="0", call_status="no_error") == 3
    assert value(metrics, name, code="3", call_status="plugin_execution_error") == 1


# Help texts and buckets: component-base/metrics/prometheus/restclient/metrics.go.
SECONDS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60]
SIZES = [64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216]


@pytest.mark.parametrize(
    ("name", "help_text", "buckets"),
    [
        ("request_duration_seconds", "Request latency in seconds. Broken down by verb, and host.", SECONDS),
        (
            "rate_limiter_duration_seconds",
            "Client side rate limiter latency in seconds. Broken down by verb, and host.",
            SECONDS,
        ),
        ("request_size_bytes", "Request size in bytes. Broken down by verb and host.", SIZES),
        ("response_size_bytes", "Response size in bytes. Broken down by verb and host.", SIZES),
        ("dns_resolution_duration_seconds", "DNS resolver latency in seconds. Broken down by host.", SECONDS[:-1]),
    ],
)
def test_histograms_of_requests_are_those_of_client_go(name: str, help_text: str, buckets: list[float]) -> None:
    metrics = Metrics()
    requests = metrics.requests("api")
    requests.answered(Request("GET", "/x"), 200, 0.1)
    requests.received(Request("GET", "/x"), 10)
    requests.waited("GET", 0.1)
    metrics.resolver("api", 0.1)
    (family,) = [found for found in metrics.registry.collect() if found.name == f"rest_client_{name}"]
    assert family.documentation == help_text
    bounds = [float(sample.labels["le"]) for sample in family.samples if sample.name.endswith("_bucket")]
    assert bounds[:-1] == buckets


class FakeStore:
    resource_version = 3 * 10**15 + 7

    def __len__(self) -> int:
        return 5

    def estimate_bytes(self) -> float:
        return 4000


class FakeInformer:
    def __init__(self) -> None:
        self.store = FakeStore()
        self.counts = {"lists": 2, "idle": 1}
        self.list_duration_seconds = 0.5
        self.last_event_time = 0.0


async def test_informers_are_read_when_asked(kcr_clock: VirtualClock) -> None:  # RF-36, RF-37
    metrics, informer = Metrics(), FakeInformer()
    metrics.informer(("pods", "", "v1", "pods"), informer)
    labels = {"name": "pods", "group": "", "version": "v1", "resource": "pods"}
    assert value(metrics, "informer_store_resource_version", **labels) == 7
    assert value(metrics, "kcr_cache_objects", **labels) == 5
    assert value(metrics, "kcr_cache_bytes", **labels) == 4000
    assert value(metrics, "kcr_reflector_list_duration_seconds", **labels) == 0.5
    informer.counts["streams"] = 1
    await kcr_clock.advance(40)
    assert value(metrics, "kcr_reflector_last_event_age_seconds", **labels) == 40
    assert value(metrics, "kcr_reflector_lists_total", **labels, mode="paged") == 2
    assert value(metrics, "kcr_reflector_lists_total", **labels, mode="watchlist") == 1
    assert value(metrics, "kcr_reflector_watches_total", **labels, end="idle") == 1
    assert value(metrics, "kcr_reflector_relists_total", **labels) == 0
    assert value(metrics, "kcr_reflector_lost_events_total", **labels) == 0


async def test_rendered_text_is_prometheus_format_without_creation_times() -> None:
    metrics = Metrics()
    WorkQueue[str](metrics=metrics.queue("test")).add("a")
    body, content_type = metrics.render()
    assert content_type.startswith("text/plain")
    families = {family.name: family for family in text_string_to_metric_families(body.decode())}
    assert families["workqueue_adds"].type == "counter"
    assert "process_resident_memory_bytes" in families
    assert b"_created" not in body
    assert metrics.render("application/openmetrics-text; version=1.0.0")[0].endswith(b"# EOF\n")


def test_series_names_the_versions_of_the_process() -> None:
    family = next(one for one in Metrics().registry.collect() if one.name == "kcr_build_info")
    (sample,) = family.samples
    assert sample.value == 1
    assert sample.labels["version"] == version("kcr")
    assert sample.labels["python_version"] == platform.python_version()


async def test_metrics_of_a_busy_process_stay_few() -> None:  # ST-38
    metrics = Metrics()
    for number in range(5):
        WorkQueue[str](metrics=metrics.queue(f"queue-{number}"))
        metrics.controller(f"controller-{number}", 1)
    observe = metrics.requests("api").answered
    for method in ("GET", "POST", "PATCH", "DELETE", "PUT"):
        observe(Request(method, "/x"), 200, 0.0)
    await asyncio.sleep(0)
    assert len(metrics.render()[0].splitlines()) < 2000


async def test_shards_are_counted_by_phase_and_moves_by_kind(kcr_clock: VirtualClock) -> None:
    metrics, shards = Metrics(), Shards(LeaderElectionConfig(name="web"), 4, kcr_clock)
    metrics.sharding("web", shards)
    fence = shards.make_fence(asyncio.get_running_loop().time)
    for shard in range(3):
        shards.take(shard, fence, fence.read(), 1, 0.0)
    shards.set_phase((0, 1), ScopePhase.ACTIVE)
    shards.drop(1, released=True)
    shards.handover_seconds.observe(0.2)

    def of(series: str, **labels: str) -> float | None:
        return value(metrics, f"kcr_sharding_{series}", name="web", **labels)

    assert of("shards") == 4
    assert {phase.value: of("held_shards", phase=phase.value) for phase in ScopePhase} == {
        "opening": 1, "active": 1, "draining": 0, "closed": 0,
    }  # fmt: skip
    assert [of("moves_total", kind=kind) for kind in ("taken", "released", "abandoned")] == [3, 1, 0]
    assert of("handover_duration_seconds_sum") == 0.2
