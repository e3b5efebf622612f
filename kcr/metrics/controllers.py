"""Metrics of controllers, and of leader election.

Source: controller-runtime/pkg/internal/controller/metrics/metrics.go;
component-base/metrics/prometheus/clientgo/leaderelection/metrics.go.
"""

from typing import Literal

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
        results: Reconciles by result. All are there from the start, at 0: a rate needs a beginning.
        seconds: How long reconciles took.
        errors: Reconciles that failed, terminal errors and panics among them.
        terminal_errors: Reconciles that failed with a `TerminalError`.
        panics: Reconciles that failed with a programming error, such as a `TypeError`: a bug.
        timeouts: Reconciles that took longer than the controller allows.
        paused: Objects that an annotation keeps from being reconciled.
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
