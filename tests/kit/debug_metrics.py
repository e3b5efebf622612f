"""Metrics as the page of `kcr dev` plots them: of a manager, its API server, and a user's controller."""

import math

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from kcr.metrics import Metrics
from kcr_devcluster.dev.metric_history import STEP_SECONDS, MetricHistory
from tests.kit.clocks import FixedClock
from tests.kit.debug_clusters import NOW


class OwnMetrics:
    """The metrics that a controller of websites registers beside those of kcr.

    Attributes:
        rendered: Websites that were rendered.
        seconds: How long that took.
        pages: Pages that are served.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        text = "Websites that were rendered, by outcome"
        self.rendered = Counter("website_renders", text, ["outcome"], registry=registry)
        bounds = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1)
        text = "Duration of rendering one website"
        self.seconds = Histogram("website_render_seconds", text, buckets=bounds, registry=registry)
        self.pages = Gauge("website_pages", "Pages that are served", registry=registry)


class Waves:
    """A process whose controllers are busy in waves.

    Attributes:
        history: What has been sampled so far.
        own: The user's metrics.
    """

    def __init__(self) -> None:
        metrics, server = Metrics(), CollectorRegistry()
        self._clock = FixedClock(NOW)
        self.history = MetricHistory([metrics.registry, server], self._clock)
        self.own = OwnMetrics(metrics.registry)
        self._queues = {name: metrics.queue(name) for name in ("job", "website")}
        self._controllers = {name: metrics.controller(name, 5) for name in self._queues}
        self._requests, self._lag = metrics.requests("in-process"), metrics.loop_lag
        text, labels = "Counter of apiserver requests", ["verb", "resource", "code"]
        self._served = Counter("apiserver_request", text, labels, registry=server)
        text, labels = "Number of events sent in watch clients", ["group", "version", "resource"]
        self._events = Counter("apiserver_watch_events", text, labels, registry=server)
        self._steps = 0

    def pass_time(self, samples: int) -> None:
        """Let the process work while so many samples are taken."""
        for _ in range(samples):
            self._work(self._steps)
            self.history.sample()
            self._clock.later(STEP_SECONDS)
            self._steps += 1

    def _work(self, step: int) -> None:
        busy = {"job": max(0.0, math.sin(step / 9)), "website": 0.5 + 0.5 * math.sin(step / 14 + 2)}
        for name, share in busy.items():
            done, failed = int(40 * share), int(4 * share * (step % 60 > 40))
            queue, controller = self._queues[name], self._controllers[name]
            queue.depths = lambda depth=int(30 * share**2): {0: depth}  # type: ignore[misc]  # a default binds it
            controller.results["success"] += done
            controller.results["error"] += failed
            for part in range(done):
                queue.queue_duration.observe(0.0005 + 0.02 * share * part / 40)
                controller.seconds.observe(0.004 + 0.05 * share * part / 40)
            for (method, code), count in {("POST", 201): done, ("PATCH", 200): 2 * done, ("PUT", 409): failed}.items():
                self._requests.counts[code, method] += count
                self._served.labels(method, f"{name}s", str(code)).inc(count)
                self._requests.seconds[method].observe(0.003 + 0.02 * share)
            self._events.labels("batch", "v1", f"{name}s").inc(3 * done)
        self._lag.observe(0.001 + 0.004 * busy["job"])
        self.own.rendered.labels("rendered").inc(int(40 * busy["website"]))
        self.own.rendered.labels("refused").inc(step % 7 == 0)
        for part in range(10):
            self.own.seconds.observe(0.02 + 0.3 * busy["website"] * part / 10)
        self.own.pages.set(120 + step // 4)
