"""What is told of work queues.

Source: client-go/util/workqueue/metrics.go and controller-runtime/pkg/internal/metrics/workqueue.go.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from kcr.metrics.durations import Durations

QUEUE_BUCKETS = tuple(1e-8 * 10**power for power in range(12))

_QUEUE = ("name", "controller")


class QueueMetrics:
    """The metrics of one work queue, which tells it what happens to keys.

    Plain numbers, because every watch event comes by here: prometheus-client's own take three times as long.
    """

    def __init__(self) -> None:
        self.adds = 0
        self.retries = 0
        self.waited = Durations(QUEUE_BUCKETS)
        self.worked = Durations(QUEUE_BUCKETS)
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


class Queues:
    """Reads what queues have noted."""

    def __init__(self) -> None:
        self.known: dict[str, QueueMetrics] = {}

    def collect(self) -> Iterator[Metric]:
        """Yield what is shown."""
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
