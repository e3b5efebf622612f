"""The metrics of a process, in one registry."""

import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder

from kcr.metrics.client_go import PRESSURE_ROWS, QUEUE_LABELS, QUEUE_ROWS, HostRequests, QueueMetrics, Requests
from kcr.metrics.components import (
    CERTIFICATE_ROWS,
    CONTROLLER_ROWS,
    ELECTION_LABELS,
    ELECTION_ROWS,
    INFORMER_LABELS,
    INFORMER_ROWS,
    PANIC_ROWS,
    SHARDING_LABELS,
    SHARDING_ROWS,
    WEBHOOK_ROWS,
    ControllerMetrics,
    WebhookMetrics,
    WebhookPanics,
)
from kcr.metrics.table import MetricsTable

_BUILD_LABELS = ("version", "python_version", "python_implementation", "platform")
LAG_BUCKETS = (.001, .005, .01, .02, .05, .1, .25, .5, 1, 2.5, 5, 10)  # fmt: skip


class Metrics:
    """The metrics of one process.

    Attributes:
        registry: Where everything is registered; a controller's own metrics go there as well.
        loop_lag: How late the event loop was, each time the monitor looked.
        webhook_panics: Unexpected exceptions of webhooks.
    """

    def __init__(self) -> None:
        self.registry: CollectorRegistry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._queues: MetricsTable[QueueMetrics] = MetricsTable(QUEUE_LABELS, QUEUE_ROWS)
        self._controllers: MetricsTable[ControllerMetrics] = MetricsTable(("controller",), CONTROLLER_ROWS)
        self._informers: MetricsTable[Any] = MetricsTable(INFORMER_LABELS, INFORMER_ROWS)
        self._elections: MetricsTable[Any] = MetricsTable(ELECTION_LABELS, ELECTION_ROWS)
        self._sharding: MetricsTable[Any] = MetricsTable(SHARDING_LABELS, SHARDING_ROWS)
        self._webhooks: MetricsTable[WebhookMetrics] = MetricsTable(("webhook",), WEBHOOK_ROWS)
        self._panics: MetricsTable[WebhookPanics] = MetricsTable((), PANIC_ROWS)
        self._certificates: MetricsTable[Any] = MetricsTable((), CERTIFICATE_ROWS)
        self.webhook_panics: WebhookPanics = WebhookPanics()
        self._requests = Requests()
        self._pressures: MetricsTable[Any] = MetricsTable(("host",), PRESSURE_ROWS)
        self.loop_lag: Histogram = Histogram(
            "kcr_event_loop_lag_seconds", "Lag of the event loop in seconds.",
            buckets=LAG_BUCKETS, registry=self.registry,
        )  # fmt: skip
        parts = (
            _BuildInfo(), self._queues, self._controllers, self._requests, self._informers, self._elections,
            self._sharding, self._webhooks, self._panics, self._certificates, self._pressures,
        )  # fmt: skip
        for part in parts:
            self.registry.register(part)

    def queue(self, name: str) -> QueueMetrics:
        """Return the metrics of a work queue.

        Raises:
            ValueError: A queue of this name exists; their series would be indistinguishable.
        """
        if (name, name) in self._queues.sources:
            raise ValueError(f"work queue {name}: there is one of this name already")
        queue = self._queues.sources[name, name] = QueueMetrics()
        return queue

    def controller(self, name: str, workers: int) -> ControllerMetrics:
        """Return the metrics of a controller with so many workers."""
        controller = self._controllers.sources[name,] = ControllerMetrics(workers)
        return controller

    def webhook(self, path: str) -> WebhookMetrics:
        """Return the metrics of the webhook with this path."""
        # They have no labels, and are no series before there is a webhook.
        self._panics.sources[()] = self.webhook_panics
        return self._webhooks.sources.setdefault((path,), WebhookMetrics())

    def certificate(self, certificate: Any) -> None:
        """Export the reads of the certificate of webhooks from now on.

        Args:
            certificate: A `kcr.serving.ports.PortCertificate`, which counts for itself.
        """
        self._certificates.sources[()] = certificate

    def requests(self, host: str) -> HostRequests:
        """Return a `Client`'s `observer`, which counts by server, method and status code, never by path."""
        return self._requests.host(host)

    def rate_limiter(self, host: str) -> Callable[[str, float], None]:
        """Return a `RateLimit`'s `on_wait`, which counts by server and method."""
        return self._requests.host(host).waited

    def pressure(self, host: str, pressure: Any) -> None:
        """Export the limit of requests in flight to a server from now on.

        Args:
            host: The server.
            pressure: A `Client`'s `pressure`, which counts for itself.
        """
        self._pressures.sources[host,] = pressure

    def resolver(self, host: str, seconds: float) -> None:
        """Record the duration of a name resolution; an `HttpTransport`'s `on_resolve`."""
        self._requests.resolved(host, seconds)

    def streams(self, host: str, size: Callable[[], int]) -> None:
        """Export the number of bytes read from watches from now on.

        Args:
            host: The server.
            size: Returns the bytes read so far, an `HttpTransport`'s `streamed_bytes`.
        """
        self._requests.add_streams(host, size)

    def exec_plugin(self, calls: Mapping[tuple[int, str], int]) -> None:
        """Export the calls of a credential plugin from now on.

        Args:
            calls: Numbers of calls, by exit code and client-go's term for the result.
        """
        self._requests.add_plugin(calls)

    def informer(self, resource: tuple[str, str, str, str], informer: Any) -> None:
        """Export the metrics of an informer from now on.

        Args:
            resource: Its name, and the watched group, version and plural.
            informer: A `kcr.informer.Informer`, which counts for itself.
        """
        self._informers.sources[resource] = informer

    def remove_informer(self, resource: tuple[str, str, str, str]) -> None:
        """Export the metrics of an informer no more; nothing happens when there are none."""
        self._informers.sources.pop(resource, None)

    def leader_election(self, name: str, elector: Any) -> None:
        """Export the metrics of an elector from now on.

        Args:
            name: Of its Lease.
            elector: A `kcr.scopes.leaderelection.LeaderElector`, which counts for itself.
        """
        self._elections.sources[name,] = elector

    def sharding(self, name: str, shards: Any) -> None:
        """Export the metrics of the shards of this replica from now on.

        Args:
            name: The base name of their Leases.
            shards: The `Shards` of the replica, which counts for itself.
        """
        self._sharding.sources[name,] = shards

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """Return all metrics as text, and its content type; to be called on the event loop.

        Args:
            accept: The reader's `Accept` header, which chooses between Prometheus' format and OpenMetrics.
        """
        encode, content_type = choose_encoder(accept)
        return encode(_WithoutCreated(self.registry)), content_type


class _WithoutCreated:
    """A registry without the `_created` series, a third of all series, which no dashboard reads."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


class _BuildInfo:
    """The series `kcr_build_info`, whose labels are determined on the first read.

    Joined with other series it shows which version a replica runs, for example in the middle of a rollout:
    `kcr_build_info * on (pod) group_left leader_election_master_status`.

    Source: component-base/metrics/prometheus/version/metrics.go (`kubernetes_build_info`), with Python in place of Go.
    """

    # Of the family, for the reference.
    _labelnames = _BUILD_LABELS

    def collect(self) -> Iterator[Metric]:
        """Yield the family."""
        family = GaugeMetricFamily(
            "kcr_build_info", "Versions of kcr and Python, as labels; always 1.", labels=_BUILD_LABELS
        )
        family.add_metric(_versions(), 1)
        yield family


@cache
def _versions() -> tuple[str, ...]:
    try:
        own = version("kcr")
    except PackageNotFoundError:  # a checkout on the path
        own = "unknown"
    place = f"{sys.platform}/{platform.machine()}"
    return (own, platform.python_version(), platform.python_implementation(), place)
