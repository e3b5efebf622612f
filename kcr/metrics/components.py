"""Metrics of controllers, informers, leader election, sharding and webhooks.

Those of informers are read from the informers' own counters on scrape, so watch events cost nothing extra.

Source: controller-runtime/pkg/internal/controller/metrics/metrics.go;
component-base/metrics/prometheus/clientgo/leaderelection/metrics.go;
controller-runtime/pkg/webhook/internal/metrics/metrics.go,
controller-runtime/pkg/webhook/{admission,conversion}/metrics/metrics.go,
controller-runtime/pkg/certwatcher/metrics/metrics.go.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from kcr.metrics.table import Histogram, Row

Outcome = Literal["success", "requeue_after", "requeue", "error", "cancelled"]
# `requeue` never happens here; dashboards that sum over upstream's four results find it all the same.
OUTCOMES: tuple[Outcome, ...] = ("success", "requeue_after", "requeue", "error", "cancelled")
RECONCILE_BUCKETS = (
    .005, .01, .025, .05, .1, .15, .2, .25, .3, .35, .4, .45, .5, .6, .7, .8, .9, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4,
    4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
)  # fmt: skip


class ControllerMetrics:
    """The metrics of one controller: plain numbers, as those of queues.

    Attributes:
        workers: The maximum number of concurrent reconciles.
        active: Workers that reconcile just now.
        results: Reconciles by result. All exist from the start, at 0: a rate needs a beginning.
        seconds: How long reconciles took.
        errors: Reconciles that failed, terminal errors and panics among them.
        terminal_errors: Reconciles that failed with a `TerminalError`.
        panics: Reconciles that failed with a programming error, such as a `TypeError`: a bug.
        timeouts: Reconciles that took longer than the controller allows.
        paused: Objects that an annotation keeps from being reconciled.
        parked: Keys that are no longer retried, because they have failed too often.
        slowed: Keys that are slowed, because they repeat their own writes.
        dropped: Watch events that predicates have dropped, by kind and predicate; replaced by the controller.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.active = 0
        self.results: dict[Outcome, int] = dict.fromkeys(OUTCOMES, 0)
        self.seconds: Histogram = Histogram(RECONCILE_BUCKETS)
        self.errors = 0
        self.terminal_errors = 0
        self.panics = 0
        self.timeouts = 0
        self.paused = 0
        self.parked = 0
        self.slowed = 0
        self.dropped: Mapping[tuple[str, str], int] = {}


def _by_predicate(dropped: Mapping[tuple[str, str], int]) -> dict[str, int]:
    # Not by kind: those of dynamic watches come and go.
    return {one: sum(count for (_, other), count in dropped.items() if other == one) for _, one in dropped}


CONTROLLER_ROWS = (
    Row(
        CounterMetricFamily, "controller_runtime_reconcile", "Total number of reconciliations per controller",
        lambda controller: controller.results, label="result",
    ),
    Row(
        HistogramMetricFamily, "controller_runtime_reconcile_time_seconds",
        "Length of time per reconciliation per controller", lambda controller: controller.seconds,
    ),
    Row(
        CounterMetricFamily, "controller_runtime_reconcile_errors",
        "Total number of reconciliation errors per controller", lambda controller: controller.errors,
    ),
    Row(
        CounterMetricFamily, "controller_runtime_terminal_reconcile_errors",
        "Total number of terminal reconciliation errors per controller",
        lambda controller: controller.terminal_errors,
    ),
    Row(
        CounterMetricFamily, "controller_runtime_reconcile_panics",
        "Total number of reconciliation panics per controller", lambda controller: controller.panics,
    ),
    Row(
        CounterMetricFamily, "controller_runtime_reconcile_timeouts",
        "Total number of reconciliation timeouts per controller", lambda controller: controller.timeouts,
    ),
    Row(
        GaugeMetricFamily, "controller_runtime_max_concurrent_reconciles",
        "Maximum number of concurrent reconciles per controller", lambda controller: controller.workers,
    ),
    Row(
        GaugeMetricFamily, "controller_runtime_active_workers",
        "Number of currently used workers per controller", lambda controller: controller.active,
    ),
    Row(
        GaugeMetricFamily, "kcr_paused_objects",
        "Current number of objects paused by the annotation kcr.dev/paused per controller",
        lambda controller: controller.paused,
    ),
    Row(
        GaugeMetricFamily, "kcr_parked_keys",
        "Current number of keys that are no longer retried because they have failed max_retries times per controller",
        lambda controller: controller.parked,
    ),
    Row(
        GaugeMetricFamily, "kcr_slowed_keys",
        "Current number of keys that are slowed because they repeat their own writes per controller",
        lambda controller: controller.slowed,
    ),
    Row(
        CounterMetricFamily, "kcr_dropped_events",
        "Total number of watch events that predicates have dropped per controller",
        lambda controller: _by_predicate(controller.dropped.copy()), label="predicate",
    ),
)  # fmt: skip


ELECTION_LABELS = ("name",)

# How both help texts end.
_NAME = "'name' is the string used to identify the lease. Please make sure to group by name."

ELECTION_ROWS = (
    Row(
        GaugeMetricFamily, "leader_election_master_status",
        "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. "
        + _NAME,
        lambda elector: float(elector.leads),
    ),
    Row(
        CounterMetricFamily, "leader_election_slowpath",
        "Total number of slow path exercised in renewing leader leases. " + _NAME,
        lambda elector: elector.slow_renewals,
    ),
)  # fmt: skip


# A hand-over lists the shard's objects: milliseconds for few of them, seconds for many.
HANDOVER_BUCKETS = (.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60)  # fmt: skip
# The base name of the Leases.
SHARDING_LABELS = ("name",)

SHARDING_ROWS = (
    Row(
        GaugeMetricFamily, "kcr_sharding_shards",
        "Number of shards that the objects are divided into, the same in all replicas.",
        lambda shards: shards.count,
    ),
    Row(
        GaugeMetricFamily, "kcr_sharding_held_shards",
        "Current number of shards held by this replica, by phase; the keys of active ones are reconciled.",
        lambda shards: shards.phases(), label="phase",
    ),
    Row(
        CounterMetricFamily, "kcr_sharding_moves",
        "Total number of shards that this replica has taken, released after its reconciles ended, and abandoned to "
        "the expiry of their lease.",
        lambda shards: shards.moves, label="kind",
    ),
    Row(
        HistogramMetricFamily, "kcr_sharding_handover_duration_seconds",
        "Time in seconds from taking the lease of shards until their caches are filled and their keys are reconciled.",
        lambda shards: shards.handover_seconds,
    ),
)  # fmt: skip


INFORMER_LABELS = ("name", "group", "version", "resource")


def _count(name: str) -> Callable[[Any], float]:
    return lambda informer: informer.counts.get(name, 0)


def _counts(**names: str) -> Callable[[Any], Mapping[str, float]]:
    return lambda informer: {value: informer.counts.get(name, 0) for value, name in names.items()}


INFORMER_ROWS = (
    Row(
        CounterMetricFamily, "kcr_reflector_lists", "Total number of lists, in pages or by WatchList.",
        _counts(paged="lists", watchlist="streams"), label="mode",
    ),
    Row(
        CounterMetricFamily, "kcr_reflector_watches", "Total number of watches that ended, by cause.",
        _counts(timeout="timeout", gone="gone", error="error", idle="idle", short="short"), label="end",
    ),
    Row(
        CounterMetricFamily, "kcr_reflector_lost_events",
        "Total number of lost or invalid watch events; each is followed by a relist.", _count("lost"),
    ),
    Row(
        CounterMetricFamily, "kcr_reflector_relists",
        "Total number of relists after watches that could not be resumed.",
        _count("relists"),
    ),
    Row(
        CounterMetricFamily, "kcr_reflector_decode_errors", "Total number of undecodable objects.",
        _count("undecodable"),
    ),
    Row(
        CounterMetricFamily, "kcr_reflector_foreign_events",
        "Total number of watch events dropped before decoding because another replica has the object's shard.",
        _count("foreign"),
    ),
    Row(
        CounterMetricFamily, "kcr_handler_errors", "Total number of exceptions in event handlers.",
        _count("handler_errors"),
    ),
    Row(
        GaugeMetricFamily, "kcr_cache_objects", "Current number of objects in the store.",
        lambda informer: len(informer.store),
    ),
    Row(
        GaugeMetricFamily, "kcr_cache_bytes",
        "Memory of the objects in the store, in bytes, estimated from up to 50 of them at each scrape.",
        lambda informer: informer.store.estimate_bytes(),
    ),
    Row(
        GaugeMetricFamily, "informer_store_resource_version",
        "The last 15 digits of the store's resourceVersion.",
        lambda informer: informer.store.resource_version % 10**15,
    ),
    Row(
        GaugeMetricFamily, "kcr_reflector_list_duration_seconds", "Duration of the last list in seconds.",
        lambda informer: informer.list_duration_seconds,
    ),
    Row(
        GaugeMetricFamily, "kcr_reflector_last_event_age_seconds", "Seconds since the last watch event.",
        lambda informer: asyncio.get_running_loop().time() - informer.last_event_time,
    ),
)  # fmt: skip


# From 10 ns, each ten times the one before.
WEBHOOK_BUCKETS = tuple(10.0 ** (exponent - 8) for exponent in range(12))


class WebhookMetrics:
    """The metrics of one webhook, which its path names.

    Attributes:
        seconds: How long requests took.
        codes: Requests by HTTP status code. The most likely ones exist from the start, at 0.
        in_flight: Requests that are served just now.
    """

    def __init__(self) -> None:
        self.seconds: Histogram = Histogram(WEBHOOK_BUCKETS)
        self.codes: Counter[str] = Counter({"200": 0, "500": 0})
        self.in_flight = 0


class WebhookPanics:
    """Unexpected exceptions of all webhooks of a process.

    Attributes:
        admission: Those of defaulters and validators.
        conversion: Those of conversions.
    """

    def __init__(self) -> None:
        self.admission = 0
        self.conversion = 0


WEBHOOK_ROWS = (
    Row(
        HistogramMetricFamily, "controller_runtime_webhook_latency_seconds",
        "Histogram of the latency of processing admission requests", lambda webhook: webhook.seconds,
    ),
    Row(
        CounterMetricFamily, "controller_runtime_webhook_requests",
        "Total number of admission requests by HTTP status code.", lambda webhook: webhook.codes, label="code",
    ),
    Row(
        GaugeMetricFamily, "controller_runtime_webhook_requests_in_flight",
        "Current number of admission requests being served.", lambda webhook: webhook.in_flight,
    ),
)  # fmt: skip
PANIC_ROWS = (
    Row(
        CounterMetricFamily, "controller_runtime_webhook_panics", "Total number of webhook panics",
        lambda panics: panics.admission,
    ),
    Row(
        CounterMetricFamily, "controller_runtime_conversion_webhook_panics",
        "Total number of conversion webhook panics", lambda panics: panics.conversion,
    ),
)  # fmt: skip
CERTIFICATE_ROWS = (
    Row(
        CounterMetricFamily, "certwatcher_read_certificate", "Total number of certificate reads",
        lambda certificate: certificate.reads,
    ),
    Row(
        CounterMetricFamily, "certwatcher_read_certificate_errors", "Total number of certificate read errors",
        lambda certificate: certificate.errors,
    ),
)  # fmt: skip
