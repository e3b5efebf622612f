"""Metrics of work queues and of client requests, as client-go's are registered.

Two families of requests observe other intervals than upstream's: a request's duration ends when its answer begins, for
each attempt by itself and for watches as well; upstream's ends when the body is read, all attempts together. Families
about transports, which client-go caches, and about certificates of exec plugins are missing.

Source: component-base/metrics/prometheus/restclient/metrics.go; client-go/rest/{request,with_retry}.go;
client-go/util/workqueue/metrics.go; controller-runtime/pkg/internal/metrics/workqueue.go.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from kcr.metrics.table import Histogram, Row
from kcr.tracing import exemplar

REQUEST_BUCKETS = (.005, .025, .1, .25, .5, 1, 2, 4, 8, 15, 30, 60)  # fmt: skip
RESOLVER_BUCKETS = REQUEST_BUCKETS[:-1]
SIZE_BUCKETS = (64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)


class _MethodHistograms(dict[str, Histogram]):
    """A histogram by HTTP method."""

    def __init__(self, buckets: Sequence[float]) -> None:
        super().__init__()
        self._buckets = buckets

    def __missing__(self, method: str) -> Histogram:
        made = self[method] = Histogram(self._buckets)
        return made


class HostRequests:
    """Counts the requests to one server; a `Client`'s `observer`."""

    def __init__(self) -> None:
        # By status code (0 for no answer) and method.
        self.counts: Counter[tuple[int, str]] = Counter()
        self.retries: Counter[tuple[int, str]] = Counter()
        self.seconds: _MethodHistograms = _MethodHistograms(REQUEST_BUCKETS)
        self.waits: _MethodHistograms = _MethodHistograms(REQUEST_BUCKETS)
        self.sent: _MethodHistograms = _MethodHistograms(SIZE_BUCKETS)
        self.read: _MethodHistograms = _MethodHistograms(SIZE_BUCKETS)

    def answered(self, request: Any, code: int, seconds: float) -> None:
        """Count a request; see `RequestObserver`."""
        method = request.method
        self.counts[code, method] += 1
        self.seconds[method].observe(seconds, exemplar())
        if request.timeout_seconds is not None:
            self.sent[method].observe(len(request.body))
        if request.resend_count:
            self.retries[code, method] += 1

    def received(self, request: Any, size: int) -> None:
        """Count the body of an answer."""
        self.read[request.method].observe(size)

    def waited(self, method: str, seconds: float) -> None:
        """Count how long a request has waited for the client's rate limiter."""
        self.waits[method].observe(seconds)


class Requests:
    """The requests to all servers."""

    def __init__(self) -> None:
        self._hosts: defaultdict[str, HostRequests] = defaultdict(HostRequests)
        self._resolved: dict[str, Histogram] = {}
        # Readers of the bytes of streamed responses.
        self._streamed: dict[str, Callable[[], int]] = {}
        # Calls of exec plugins, by exit code and status.
        self._plugins: list[Mapping[tuple[int, str], int]] = []

    def host(self, host: str) -> HostRequests:
        """Return the requests to a server; there is one counter of each."""
        return self._hosts[host]

    def resolved(self, host: str, seconds: float) -> None:
        """Count how long a name took to be resolved."""
        self._resolved.setdefault(host, Histogram(RESOLVER_BUCKETS)).observe(seconds)

    def add_plugin(self, calls: Mapping[tuple[int, str], int]) -> None:
        """Export the calls of an exec plugin from now on."""
        self._plugins.append(calls)

    def add_streams(self, host: str, size: Callable[[], int]) -> None:
        """Export the size of streamed responses of a server from now on."""
        self._streamed[host] = size

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families."""
        words = "Number of HTTP requests, partitioned by status code, method, and host."
        total = CounterMetricFamily("rest_client_requests", words, labels=("code", "method", "host"))
        words = "Number of request retries, partitioned by status code, verb, and host."
        retries = CounterMetricFamily("rest_client_request_retries", words, labels=("code", "verb", "host"))
        for host, requests in self._hosts.items():
            for family, counts in ((total, requests.counts), (retries, requests.retries)):
                for (code, method), count in counts.items():
                    family.add_metric((str(code) if code else "<error>", method, host), count)
        yield total
        yield retries
        for name, help_text, attribute in _HISTOGRAMS:
            histograms = HistogramMetricFamily(f"rest_client_{name}", help_text, labels=("verb", "host"))
            for host, requests in self._hosts.items():
                for method, histogram in getattr(requests, attribute).items():
                    histogram.add_to(histograms, (method, host))
            yield histograms
        words = "DNS resolver latency in seconds. Broken down by host."
        resolved = HistogramMetricFamily("rest_client_dns_resolution_duration_seconds", words, labels=("host",))
        for host, histogram in self._resolved.items():
            histogram.add_to(resolved, (host,))
        yield resolved
        words = "Total number of bytes read from watches and other streams, after decompression, by host."
        streamed = CounterMetricFamily("kcr_client_streamed_bytes", words, labels=("host",))
        for host, size in self._streamed.items():
            streamed.add_metric((host,), size())
        yield streamed
        plugins = CounterMetricFamily("rest_client_exec_plugin_call", _PLUGIN_HELP, labels=("code", "call_status"))
        for (code, status), count in sum(map(Counter, self._plugins), Counter[tuple[int, str]]()).items():
            plugins.add_metric((str(code), status), count)
        yield plugins


PRESSURE_ROWS = (
    Row(
        GaugeMetricFamily, "kcr_client_requests_in_flight",
        "Current number of requests in flight, watches excluded. Broken down by host.",
        lambda pressure: pressure.in_flight,
    ),
    Row(
        GaugeMetricFamily, "kcr_client_requests_in_flight_limit",
        "Current limit of requests in flight, which adapts to the server. Broken down by host.",
        lambda pressure: pressure.limit,
    ),
    Row(
        GaugeMetricFamily, "kcr_client_requests_waiting",
        "Current number of requests that wait for the limit of requests in flight. Broken down by host.",
        lambda pressure: pressure.waiting,
    ),
)  # fmt: skip

# Their names and help texts, and where the values are.
_HISTOGRAMS = (
    ("request_duration_seconds", "Request latency in seconds. Broken down by verb, and host.", "seconds"),
    (
        "rate_limiter_duration_seconds", "Client side rate limiter latency in seconds. Broken down by verb, and host.",
        "waits",
    ),
    ("request_size_bytes", "Request size in bytes. Broken down by verb and host.", "sent"),
    ("response_size_bytes", "Response size in bytes. Broken down by verb and host.", "read"),
)  # fmt: skip
_PLUGIN_HELP = (
    "Number of calls to an exec plugin, partitioned by the type of event encountered (no_error, "
    "plugin_execution_error, plugin_not_found_error, client_internal_error) and an optional exit code. The exit code "
    "will be set to 0 if and only if the plugin call was successful."
)


QUEUE_BUCKETS = tuple(1e-8 * 10**power for power in range(12))
QUEUE_LABELS = ("name", "controller")
# How many priorities of a queue have a series of their own, and where the others are counted.
MAX_PRIORITIES = 25
OTHER_PRIORITIES = "exceeded_cardinality_limit"


class QueueMetrics:
    """The metrics of one work queue, which calls a method for each step of a key.

    Plain numbers, because every watch event comes by here: prometheus-client's own take three times as long.
    """

    def __init__(self) -> None:
        self.adds: int = 0
        self.retries: int = 0
        self.queue_duration: Histogram = Histogram(QUEUE_BUCKETS)
        self.work_duration: Histogram = Histogram(QUEUE_BUCKETS)
        # By priority; replaced by the queue.
        self.depths: Callable[[], Mapping[int, int]] = dict
        # The priorities that have a series: it stays, at 0, when their keys have been handed out.
        self._priorities: dict[int, str] = {0: "0"}
        # The time of the loop, which is looked up once.
        self._now: Callable[[], float] = self._find_time
        # When queued keys were added first; when a worker took those being processed, and how long they had waited.
        self._added: dict[Hashable, float] = {}
        self._started: dict[Hashable, tuple[float, float]] = {}

    def add(self, key: Hashable) -> None:
        """Count a key that is queued from now on, or will be after `done`."""
        self.adds += 1
        self._added[key] = self._now()

    def retry(self) -> None:
        """Count a key that is added after a delay."""
        self.retries += 1

    def get(self, key: Hashable) -> None:
        """Note that a worker processes a key from now on."""
        now = self._now()
        waited = now - self._added.pop(key)
        self._started[key] = now, waited
        self.queue_duration.observe(waited)

    def done(self, key: Hashable) -> None:
        """Note that a key has been processed."""
        self.work_duration.observe(self._now() - self._started.pop(key)[0])

    def waited(self, key: Hashable) -> float | None:
        """Return for how many seconds a key that is being processed had been queued; None when it is not."""
        started = self._started.get(key)
        return None if started is None else started[1]

    @property
    def queued_since(self) -> dict[Hashable, float]:
        """When each queued key was added first, in the loop's time; it may be read in any thread."""
        return self._added.copy()

    @property
    def processing_since(self) -> dict[Hashable, float]:
        """When each key that is being processed was taken; it may be read in any thread."""
        return {key: taken for key, (taken, _) in self._started.copy().items()}

    @property
    def processing_seconds(self) -> tuple[float, ...]:
        """For how long each key that is being processed has been."""
        return tuple(self._now() - since for since, _ in self._started.values())

    @property
    def depth(self) -> Mapping[str, int]:
        """How many keys are queued, by priority."""
        depths = self.depths()
        for priority in sorted(depths, reverse=True):
            if len(self._priorities) < MAX_PRIORITIES:
                self._priorities.setdefault(priority, str(priority))
        series = dict.fromkeys(self._priorities.values(), 0)
        for priority, depth in depths.items():
            label = self._priorities.get(priority, OTHER_PRIORITIES)
            series[label] = series.get(label, 0) + depth
        return series

    def _find_time(self) -> float:
        self._now = asyncio.get_running_loop().time
        return self._now()


QUEUE_ROWS = (
    Row(
        GaugeMetricFamily, "workqueue_depth", "Current depth of workqueue by workqueue and priority",
        lambda queue: queue.depth, label="priority",
    ),
    Row(
        CounterMetricFamily, "workqueue_adds", "Total number of adds handled by workqueue", lambda queue: queue.adds
    ),
    Row(
        CounterMetricFamily, "workqueue_retries",
        "Total number of items added to the workqueue with a non-zero delay (rate-limited requeues, explicit "
        "RequeueAfter or AddAfter calls)",
        lambda queue: queue.retries,
    ),
    Row(
        GaugeMetricFamily, "workqueue_unfinished_work_seconds",
        "How many seconds of work is in progress and has not been observed by work_duration. Large values indicate "
        "stuck workers.",
        lambda queue: sum(queue.processing_seconds),
    ),
    Row(
        GaugeMetricFamily, "workqueue_longest_running_processor_seconds",
        "How many seconds has the longest running processor for workqueue been running.",
        lambda queue: max(queue.processing_seconds, default=0.0),
    ),
    Row(
        HistogramMetricFamily, "workqueue_queue_duration_seconds",
        "How long in seconds an item stays in workqueue before being requested",
        lambda queue: queue.queue_duration,
    ),
    Row(
        HistogramMetricFamily, "workqueue_work_duration_seconds",
        "How long in seconds processing an item from workqueue takes.",
        lambda queue: queue.work_duration,
    ),
)  # fmt: skip
