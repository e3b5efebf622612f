"""What is told of controllers.

Source: controller-runtime/pkg/internal/controller/metrics/metrics.go.
"""

from collections.abc import Iterator
from typing import Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from kcr.metrics.durations import Durations

Outcome = Literal["success", "requeue_after", "requeue", "error", "cancelled"]
# `requeue` never happens here; dashboards that sum over the field's four results find it all the same.
OUTCOMES: tuple[Outcome, ...] = ("success", "requeue_after", "requeue", "error", "cancelled")
RECONCILE_BUCKETS = (
    .005, .01, .025, .05, .1, .15, .2, .25, .3, .35, .4, .45, .5, .6, .7, .8, .9, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4,
    4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
)  # fmt: skip


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
        self.seconds = Durations(RECONCILE_BUCKETS)
        self.errors = 0
        self.terminal = 0
        self.panics = 0
        self.timeouts = 0


class Controllers:
    """Reads what controllers have noted."""

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
        """Yield what is shown."""
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
