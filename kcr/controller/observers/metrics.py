"""Counts and times the reconciles of one controller."""

from kcr.controller.observers import Observer, ReconcileRun
from kcr.metrics import ControllerMetrics


class ReconcileMetrics(Observer):
    """Counts reconciles by result, those that run, and how long they take."""

    def __init__(self, metrics: ControllerMetrics) -> None:
        """Count in these metrics."""
        self._metrics = metrics

    def begin(self, run: ReconcileRun) -> None:
        """Count an active worker."""
        self._metrics.active += 1

    def end(self, run: ReconcileRun) -> None:
        """Count the result, and the time that it took."""
        metrics = self._metrics
        metrics.active -= 1
        metrics.results[run.outcome] += 1
        metrics.seconds.observe(run.ended - run.began, run.exemplar)
