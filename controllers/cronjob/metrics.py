"""The metrics of CronJobs: when they run next, and how many runs were missed, by cause."""

from collections import Counter
from collections.abc import Iterator
from heapq import nsmallest

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from kcr.api.meta import Key
from kcr.controllers.cronjob.decisions.plan import Facts, NoOp, Plan, Start
from kcr.controllers.cronjob.decisions.runs import CAUSES, DueRun, due_run, missed_runs, next_run_of


class CronJobMetrics:
    """The metrics of all CronJobs of one controller."""

    def __init__(self, registry: CollectorRegistry, most: int) -> None:
        """Register the metrics.

        Args:
            registry: Where.
            most: So many CronJobs have series of their own, those that run next.
        """
        self._most = most
        self._next: dict[Key, float] = {}
        self._missed: Counter[str] = Counter(dict.fromkeys(CAUSES, 0))
        registry.register(self)

    def note(self, seen: Facts, plan: Plan, before: DueRun | None) -> DueRun | None:
        """Note the decision of a pass.

        Args:
            seen: The facts that the pass has read.
            plan: Its decision.
            before: The result of the pass before it, for the same CronJob; None for none.

        Returns:
            The run that is due, to be given to the next call.
        """
        match plan.work:
            case Start(run=run):
                self._next[seen.cron.key] = run.timestamp()
            # The next pass may come before the next run: it announces a change of the clock.
            case NoOp(requeue_after) if requeue_after is not None and (ahead := next_run_of(seen)) is not None:
                self._next[seen.cron.key] = ahead.timestamp()
            case _:
                self.forget(seen.cron.key)
        found = due_run(seen, plan)
        if found is None:
            return before
        self._missed.update(missed_runs(seen, before, found))
        return found

    def forget(self, key: Key) -> None:
        """Export a CronJob no more; nothing happens when it is not exported."""
        self._next.pop(key, None)

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families."""
        family = GaugeMetricFamily(
            "kcr_cronjob_next_schedule_seconds",
            "Unix time of the run that is to be started next, in the past when it is due, of the CronJobs first due",
            labels=("namespace", "cronjob"),
        )
        for key, moment in nsmallest(self._most, self._next.items(), key=lambda one: (one[1], one[0])):
            family.add_metric((key.namespace, key.name), moment)
        yield family
        missed = CounterMetricFamily(
            "kcr_cronjob_missed", "Number of runs of CronJobs that were not started, by cause", labels=("cause",)
        )
        for cause, count in self._missed.items():
            missed.add_metric((cause,), count)
        yield missed
