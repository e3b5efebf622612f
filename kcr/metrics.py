"""Metrics under the names the field knows, in a registry of their own.

Nothing here is global: each manager has its `Metrics`, so that two in one process do not meet. Whoever records gets
an object for its part, whose series are looked up once; what can be computed is, when somebody reads it.
"""

import asyncio
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Literal, Protocol

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.utils import floatToGoString

Outcome = Literal["success", "requeue_after", "requeue", "error", "cancelled"]
# `requeue` never happens here; dashboards that sum over the field's four results find it all the same.
OUTCOMES: tuple[Outcome, ...] = ("success", "requeue_after", "requeue", "error", "cancelled")

# Source: controller-runtime/pkg/internal/metrics/workqueue.go.
QUEUE_BUCKETS = tuple(1e-8 * 10**power for power in range(12))
# Source: controller-runtime/pkg/internal/controller/metrics/metrics.go.
RECONCILE_BUCKETS = (
    .005, .01, .025, .05, .1, .15, .2, .25, .3, .35, .4, .45, .5, .6, .7, .8, .9, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4,
    4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
)  # fmt: skip
# Source: component-base/metrics/prometheus/restclient/metrics.go.
REQUEST_BUCKETS = (.005, .025, .1, .25, .5, 1, 2, 4, 8, 15, 30, 60)  # fmt: skip
LAG_BUCKETS = (.001, .005, .01, .02, .05, .1, .25, .5, 1, 2.5, 5, 10)  # fmt: skip

_QUEUE = ("name", "controller")
_INFORMER = ("name", "group", "version", "resource")


class Metrics:
    """What a process can tell about itself.

    Attributes:
        registry: Where everything is registered; a controller's own metrics go there as well.
        loop_lag: How late the event loop was, whenever somebody looked.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._queues = _Queues()
        self._controllers = _Controllers()
        self._requests = _Requests()
        self.loop_lag = Histogram(
            "kcr_event_loop_lag_seconds", "Seconds by which the event loop was late.",
            buckets=LAG_BUCKETS, registry=self.registry,
        )  # fmt: skip
        self._informers = _Informers()
        for part in (self._queues, self._controllers, self._requests, self._informers):
            self.registry.register(part)

    def queue(self, name: str) -> "QueueMetrics":
        """Return the metrics of a work queue.

        Raises:
            ValueError: There is a queue of this name already; their series could not be told apart.
        """
        if name in self._queues.known:
            raise ValueError(f"work queue {name}: there is one of this name already")
        queue = self._queues.known[name] = QueueMetrics()
        return queue

    def controller(self, name: str, workers: int) -> "ControllerMetrics":
        """Return the metrics of a controller with so many workers."""
        controller = self._controllers.known[name] = ControllerMetrics(workers)
        return controller

    def requests(self, host: str) -> Callable[[str, int, float], None]:
        """Return what a `Client` takes as `on_request`: it counts by method and status code, never by path.

        Args:
            host: The server, as the series name it.
        """
        return partial(self._requests.observe, host)

    def informer(self, resource: tuple[str, str, str, str], informer: "Followed") -> None:
        """Tell of an informer from now on.

        Args:
            resource: Its name, and what it follows: group, version, plural.
            informer: Where the numbers are.
        """
        self._informers.followed.append((resource, informer))

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """Return all metrics as text, and its content type; to be called on the event loop.

        Args:
            accept: The reader's `Accept` header, which chooses between Prometheus' format and OpenMetrics.
        """
        encode, content_type = choose_encoder(accept)
        return encode(_WithoutCreated(self.registry)), content_type


class _WithoutCreated:
    """A registry without the `_created` series, which nobody reads and which are a third of all."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


class QueueMetrics:
    """The metrics of one work queue, which tells it what happens to keys.

    Plain numbers, because every watch event comes by here: prometheus-client's own take three times as long.
    """

    def __init__(self) -> None:
        self.adds = 0
        self.retries = 0
        self.waited = _Durations(QUEUE_BUCKETS)
        self.worked = _Durations(QUEUE_BUCKETS)
        self.depth: Callable[[], int] = int
        # Whose time it is, looked up once.
        self._loop: asyncio.AbstractEventLoop | None = None
        # When waiting keys were added first, and when held ones were taken.
        self._added: dict[Hashable, float] = {}
        self._taken: dict[Hashable, float] = {}

    def measure(self, depth: Callable[[], int]) -> None:
        """Have the depth read from the queue."""
        self.depth = depth

    def added(self, key: Hashable) -> None:
        """Hear of a key that waits from now on, or will once it is given back."""
        self.adds += 1
        self._added[key] = self._now()

    def retried(self) -> None:
        """Hear of a key added for later."""
        self.retries += 1

    def taken(self, key: Hashable) -> None:
        """Hear of a key that a worker holds from now on."""
        now = self._taken[key] = self._now()
        self.waited.observe(now - self._added.pop(key))

    def given_back(self, key: Hashable) -> None:
        """Hear of a key that is no longer held."""
        self.worked.observe(self._now() - self._taken.pop(key))

    def held_seconds(self) -> tuple[float, ...]:
        """Return for how long each key in hand has been held."""
        return tuple(self._now() - since for since in self._taken.values())

    def _now(self) -> float:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop.time()


class _Durations:
    """A histogram."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        # How many fell into each bucket alone; the last has no bound.
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._sum += seconds

    def add_to(self, family: HistogramMetricFamily, labels: Sequence[str]) -> None:
        bounds = (*map(floatToGoString, self._bounds), "+Inf")
        family.add_metric(labels, list(zip(bounds, accumulate(self._counts), strict=True)), self._sum)


class _Queues:
    """Reads what queues have noted.

    Source: client-go/util/workqueue/metrics.go and controller-runtime/pkg/internal/metrics/workqueue.go.
    """

    def __init__(self) -> None:
        self.known: dict[str, QueueMetrics] = {}

    def collect(self) -> Iterator[Metric]:
        yield self._numbers(GaugeMetricFamily, "depth", "Keys that wait for a worker.", lambda queue: queue.depth())
        yield self._numbers(CounterMetricFamily, "adds", "Keys added.", lambda queue: queue.adds)
        yield self._numbers(CounterMetricFamily, "retries", "Keys added for later.", lambda queue: queue.retries)
        yield self._numbers(
            GaugeMetricFamily, "unfinished_work_seconds", "Seconds that the keys in hand have been held, all together.",
            lambda queue: sum(queue.held_seconds()),
        )  # fmt: skip
        yield self._numbers(
            GaugeMetricFamily, "longest_running_processor_seconds", "Seconds that the key held longest has been.",
            lambda queue: max(queue.held_seconds(), default=0.0),
        )  # fmt: skip
        waited = HistogramMetricFamily(
            "workqueue_queue_duration_seconds", "Seconds a key waited for a worker.", labels=_QUEUE
        )
        worked = HistogramMetricFamily("workqueue_work_duration_seconds", "Seconds a worker held a key.", labels=_QUEUE)
        for name, queue in self.known.items():
            queue.waited.add_to(waited, (name, name))
            queue.worked.add_to(worked, (name, name))
        yield from (waited, worked)

    def _numbers(
        self,
        kind: type[GaugeMetricFamily | CounterMetricFamily],
        name: str,
        text: str,
        read: Callable[[QueueMetrics], float],
    ) -> Metric:
        family = kind(f"workqueue_{name}", text, labels=_QUEUE)
        for queue_name, queue in self.known.items():
            family.add_metric((queue_name, queue_name), read(queue))
        return family


class ControllerMetrics:
    """The metrics of one controller: plain numbers, as those of queues.

    Attributes:
        workers: Workers there are.
        active: Workers that work just now.
        ended: Reconciles by how they ended. All are there from the start, at 0: a rate needs a beginning.
        seconds: How long reconciles took.
        errors: Failures, those for good and bugs among them.
        terminal: Failures for good.
        panics: Failures that are bugs.
        timeouts: Reconciles that took too long.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.active = 0
        self.ended: dict[Outcome, int] = dict.fromkeys(OUTCOMES, 0)
        self.seconds = _Durations(RECONCILE_BUCKETS)
        self.errors = 0
        self.terminal = 0
        self.panics = 0
        self.timeouts = 0


class _Controllers:
    """Reads what controllers have noted.

    Source: controller-runtime/pkg/internal/controller/metrics/metrics.go.
    """

    # What is exported of a controller beside the reconciles themselves.
    _NUMBERS: tuple[tuple[type[GaugeMetricFamily | CounterMetricFamily], str, str, str], ...] = (
        (CounterMetricFamily, "reconcile_errors", "Failures.", "errors"),
        (CounterMetricFamily, "terminal_reconcile_errors", "Failures for good.", "terminal"),
        (CounterMetricFamily, "reconcile_panics", "Failures that are bugs.", "panics"),
        (CounterMetricFamily, "reconcile_timeouts", "Reconciles that took too long.", "timeouts"),
        (GaugeMetricFamily, "max_concurrent_reconciles", "Workers there are.", "workers"),
        (GaugeMetricFamily, "active_workers", "Workers that work.", "active"),
    )

    def __init__(self) -> None:
        self.known: dict[str, ControllerMetrics] = {}

    def collect(self) -> Iterator[Metric]:
        label = ("controller",)
        total = CounterMetricFamily("controller_runtime_reconcile", "Reconciles by result.", labels=(*label, "result"))
        took = HistogramMetricFamily(
            "controller_runtime_reconcile_time_seconds", "Seconds a reconcile took.", labels=label
        )
        for name, controller in self.known.items():
            controller.seconds.add_to(took, (name,))
            for outcome, count in controller.ended.items():
                total.add_metric((name, outcome), count)
        yield from (total, took)
        for kind, name, text, attribute in self._NUMBERS:
            family = kind(f"controller_runtime_{name}", text, labels=label)
            for controller_name, controller in self.known.items():
                family.add_metric((controller_name,), getattr(controller, attribute))
            yield family


class _Requests:
    """Counts requests, and takes their time.

    Source: component-base/metrics/prometheus/restclient/metrics.go.
    """

    def __init__(self) -> None:
        # By status code (0 for no answer), method and host; and by method and host.
        self._counts: Counter[tuple[int, str, str]] = Counter()
        self._seconds: dict[tuple[str, str], _Durations] = {}

    def observe(self, host: str, method: str, code: int, seconds: float) -> None:
        self._counts[code, method, host] += 1
        durations = self._seconds.get((method, host))
        if durations is None:
            durations = self._seconds[method, host] = _Durations(REQUEST_BUCKETS)
        durations.observe(seconds)

    def collect(self) -> Iterator[Metric]:
        total = CounterMetricFamily(
            "rest_client_requests", "Requests by status code, method and host.", labels=("code", "method", "host")
        )
        for (code, method, host), count in self._counts.items():
            total.add_metric((str(code) if code else "<error>", method, host), count)
        took = HistogramMetricFamily(
            "rest_client_request_duration_seconds", "Seconds from a request to its answer.", labels=("verb", "host")
        )
        for pair, durations in self._seconds.items():
            durations.add_to(took, pair)
        yield from (total, took)


class _Stored(Protocol):
    @property
    def resource_version(self) -> int: ...
    def __len__(self) -> int: ...


class Followed(Protocol):
    """An informer, as far as metrics go."""

    @property
    def store(self) -> _Stored:
        """What is stored."""
        ...

    @property
    def counts(self) -> Mapping[str, int]:
        """What happened how often."""
        ...

    @property
    def fill_seconds(self) -> float:
        """How long it took to read the whole state the last time."""
        ...

    @property
    def heard_at(self) -> float:
        """The loop's time when a watch brought something the last time."""
        ...


class _Informers:
    """Reads what informers count themselves, so that a watch event costs nothing extra."""

    # What is exported of the counts, under which name, and with which value of which label.
    _COUNTS: Mapping[str, tuple[str, str, Mapping[str, str]]] = {
        "kcr_reflector_lists": ("Readings of the present state.", "mode", {"paged": "lists", "watchlist": "streams"}),
        "kcr_reflector_watches": (
            "Watches that ended.", "end", {end: end for end in ("timeout", "gone", "error", "idle", "short")},
        ),
        "kcr_reflector_relists": ("Readings anew.", "", {"": "relists"}),
        "kcr_reflector_decode_errors": ("Objects that do not fit their type.", "", {"": "undecodable"}),
        "kcr_handler_errors": ("Changes that a handler failed at.", "", {"": "handler_errors"}),
    }  # fmt: skip

    def __init__(self) -> None:
        self.followed: list[tuple[tuple[str, str, str, str], Followed]] = []

    def collect(self) -> Iterator[Metric]:
        for name, (text, label, counts) in self._COUNTS.items():
            family = CounterMetricFamily(name, text, labels=(*_INFORMER, label) if label else _INFORMER)
            for resource, informer in self.followed:
                for value, count in counts.items():
                    family.add_metric((*resource, value) if label else resource, informer.counts.get(count, 0))
            yield family
        yield self._gauge("kcr_cache_objects", "Objects in the store.", lambda one: len(one.store))
        yield self._gauge(
            "informer_store_resource_version", "The last 15 digits of the version the store has reached.",
            lambda one: one.store.resource_version % 10**15,
        )  # fmt: skip
        yield self._gauge(
            "kcr_reflector_list_duration_seconds", "Seconds that reading the present state took the last time.",
            lambda one: one.fill_seconds,
        )  # fmt: skip
        yield self._gauge(
            "kcr_reflector_last_event_age_seconds", "Seconds since a watch brought something.",
            lambda one: _now() - one.heard_at,
        )  # fmt: skip

    def _gauge(self, name: str, text: str, read: Callable[[Followed], float]) -> Metric:
        family = GaugeMetricFamily(name, text, labels=_INFORMER)
        for resource, informer in self.followed:
            family.add_metric(resource, read(informer))
        return family


def _now() -> float:
    return asyncio.get_running_loop().time()
