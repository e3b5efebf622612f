"""Work queue metrics.

Source: client-go/util/workqueue/metrics.go; controller-runtime/pkg/internal/metrics/workqueue.go.
"""

import asyncio
from collections.abc import Callable, Hashable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from kcr.metrics.table import Histogram, Row

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
        # The loop whose time it is, looked up once.
        self._loop: asyncio.AbstractEventLoop | None = None
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

    def _now(self) -> float:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop.time()


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
