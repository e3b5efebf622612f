"""The metrics of the API server, under upstream's names, as `/metrics` shows them.

Requests are noted when they are answered, and counted a thousand at a time: that costs less than one by one. Those from
controllers in the same process are counted like those over the network; those for discovery and documents are not.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/endpoints/metrics/metrics.go; pkg/storage/etcd3/metrics/metrics.go.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder

from kcr.api.resources import ResourceType
from kcr.metrics.table import Histogram
from kcr_devcluster.apiserver.admission.metrics import AdmissionMetrics
from kcr_devcluster.apiserver.http.routes import Route, Routes
from kcr_devcluster.apiserver.http.watches.watching import OpenWatches
from kcr_devcluster.apiserver.protocol.query import Query
from kcr_devcluster.apiserver.protocol.responses import APIResponse
from kcr_devcluster.apiserver.storage.storage import Storage

_SECONDS = (.005, .025, .05, .1, .2, .4, .6, .8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60)  # fmt: skip
_LABELS = ("verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component")
_COMPONENT = "apiserver"


class RequestLabels(NamedTuple):
    """The labels that distinguish the series of requests."""

    verb: str
    dry_run: str
    kind: ResourceType
    subresource: str
    scope: str

    def values(self) -> tuple[str, ...]:
        """Return the values of the labels."""
        group, version, _, plural, *_ = self.kind
        return self.verb, self.dry_run, group, version, plural, self.subresource, self.scope, _COMPONENT


class _Series(NamedTuple):
    """Requests that have the same labels: how many by code, and how long they took."""

    labels: RequestLabels
    codes: Counter[int]
    durations: Histogram


def _verb_of(route: Route, query: Query, method: str, content_type: str) -> str:
    """Return the verb of a request, as metrics name it."""
    match method:
        case "GET" if route.subresource == "log":
            return "CONNECT"
        case "GET" if route.watches(query):
            return "WATCH"
        case "GET" if not route.name:
            return "LIST"
        case "PATCH" if "apply-patch" in content_type:
            return "APPLY"
        case "DELETE" if not route.name:
            return "DELETECOLLECTION"
    return method


class ServerMetrics:
    """Counts requests, and shows them beside the numbers of objects and of open watches."""

    def __init__(self, storage: Storage, routes: Routes, watches: OpenWatches, admission: AdmissionMetrics) -> None:
        """Count for a server.

        Args:
            storage: Its objects.
            routes: The kinds that it serves.
            watches: Its open watches.
            admission: Its calls of webhooks.
        """
        self._storage = storage
        self._routes = routes
        self._watches = watches
        self._admission = admission
        # By the values that distinguish them. A definition that is changed, or deleted and created again, is another
        # `Kind` of the same type: its series continue, and the former kind is not kept.
        self._series: dict[tuple[str, bool, ResourceType, str, str], _Series] = {}
        self._registry: CollectorRegistry | None = None

    def observe(self, method: str, content_type: str, route: Route, query: Query, code: int, seconds: float) -> None:
        """Count a request, and its latency unless it is a watch.

        At once: requests that wait to be counted are objects for the garbage collector, which costs more.
        """
        verb, is_dry_run = _verb_of(route, query, method, content_type), query.text("dryRun") == "All"
        scope = "resource" if route.name else "namespace" if route.namespace else "cluster"
        key = (verb, is_dry_run, route.kind.type, route.subresource, scope)
        series = self._series.get(key)
        if series is None:
            labels = RequestLabels(verb, "All" if is_dry_run else "", route.kind.type, route.subresource, scope)
            series = self._series[key] = _Series(labels, Counter(), Histogram(_SECONDS))
        series.codes[code] += 1
        if verb != "WATCH":
            series.durations.observe(seconds)

    def respond(self, accept: str) -> APIResponse:
        """Return the metrics as text; the `Accept` header chooses between Prometheus' format and OpenMetrics."""
        if self._registry is None:
            self._registry = CollectorRegistry()
            ProcessCollector(registry=self._registry)
            self._registry.register(self)
        encode, content_type = choose_encoder(accept)
        return APIResponse(200, {"Content-Type": content_type}, encode(self._registry))

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families."""
        yield self._requests()
        yield self._latencies()
        yield self._open_watches()
        yield self._watch_events()
        yield from self._objects()
        yield from self._admission.collect()

    def _requests(self) -> Metric:
        family = CounterMetricFamily(
            "apiserver_request",
            "Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, "
            "component, and HTTP response code.",
            labels=(*_LABELS, "code"),
        )
        for series in self._series.values():
            for code, count in series.codes.items():
                family.add_metric((*series.labels.values(), str(code)), count)
        return family

    def _latencies(self) -> Metric:
        family = HistogramMetricFamily(
            "apiserver_request_duration_seconds",
            "Response latency distribution in seconds for each verb, dry run value, group, version, resource, "
            "subresource, scope and component.",
            labels=_LABELS,
        )
        for series in self._series.values():
            if series.labels.verb != "WATCH":
                series.durations.add_to(family, series.labels.values())
        return family

    def _open_watches(self) -> Metric:
        family = GaugeMetricFamily(
            "apiserver_longrunning_requests",
            "Gauge of all active long-running apiserver requests broken out by verb, group, version, resource, scope "
            "and component. Not all requests are tracked this way.",
            labels=("verb", "group", "version", "resource", "subresource", "scope", "component"),
        )
        counts = Counter((watch.kind, "namespace" if watch.namespace else "cluster") for watch in self._watches)
        for (kind, scope), count in counts.items():
            type_ = kind.type
            family.add_metric(("WATCH", type_.group, type_.version, type_.plural, "", scope, _COMPONENT), count)
        return family

    def _watch_events(self) -> Metric:
        family = CounterMetricFamily(
            "apiserver_watch_events", "Number of events sent in watch clients", labels=("group", "version", "resource")
        )
        for kind, count in self._watches.events.items():
            family.add_metric((kind.group, kind.version, kind.plural), count)
        return family

    def _objects(self) -> Iterator[Metric]:
        said = (
            "Number of stored objects at the time of last check split by kind. In case of a fetching error, the value "
            "will be -1."
        )
        old = GaugeMetricFamily(
            "apiserver_storage_objects",
            f"[DEPRECATED, consider using apiserver_resource_objects instead] {said}",
            labels=("resource",),
        )
        new = GaugeMetricFamily("apiserver_resource_objects", said, labels=("group", "resource"))
        for kind in dict.fromkeys(kind.stored for kind in self._routes.kinds if not kind.is_computed):
            count = len(self._storage.cache(kind).records)
            old.add_metric((kind.type.display,), count)
            new.add_metric((kind.type.group, kind.type.plural), count)
        yield old
        yield new
