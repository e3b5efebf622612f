"""How many Jobs are in which state, and how late pods that have ended are counted.

The numbers follow from the decisions of the reconciles: each pass notes the situation of its Job, and a scrape adds up
counts that are kept by namespace. A Job that is finished, deleted or reconciled by another replica is not counted.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric

from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.controllers.job.decisions.lifecycle import COMPLETIONS_REACHED, is_complete
from kcr.controllers.job.decisions.plan import Outcome, Plan, ScaleUp, Snapshot
from kcr.controllers.job.decisions.pods import finish_time
from kcr.controllers.job.decisions.situation import JobSituation, situation_of
from kcr.dependents import UnconfirmedCreateError
from kcr.metrics import Histogram, MetricsTable, Row
from kcr.tracing import exemplar

# The namespace of the Jobs beyond the bound: no namespace has an underscore.
OTHER = "_other"
DELAY_BUCKETS = (0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600)
_DELAYS = Row(
    HistogramMetricFamily,
    "kcr_job_end_delay_seconds",
    "Seconds from the end of a pod until it is counted, and from the end of the last one until its Job is finished",
    lambda delay: delay,
)


class Fleet:
    """The metrics of all Jobs of one controller: `kcr_jobs` and `kcr_job_end_delay_seconds`."""

    def __init__(self, registry: CollectorRegistry, most_namespaces: int) -> None:
        """Register the metrics.

        Args:
            registry: Where.
            most_namespaces: So many namespaces have series of their own, those with the most Jobs.
        """
        self._most = most_namespaces
        # Invariant: each count is the number of the keys with this situation; none is zero.
        self._situations: dict[Key, JobSituation] = {}
        self._counts: dict[str, Counter[JobSituation]] = {}
        delays: MetricsTable[Histogram] = MetricsTable(("step",), (_DELAYS,))
        self._counted, self._finished = Histogram(DELAY_BUCKETS), Histogram(DELAY_BUCKETS)
        delays.sources.update({("counted",): self._counted, ("finished",): self._finished})
        registry.register(delays)
        registry.register(self)

    def note(self, seen: Snapshot, plan: Plan, outcome: Outcome) -> None:
        """Note the situation of a Job in a pass."""
        ending = plan.ending.reason if plan.ending is not None else ""
        if not ending and is_complete(seen.job, plan.counts.succeeded, len(plan.counts.active)):
            ending = COMPLETIONS_REACHED
        found = situation_of(
            seen.job,
            plan.counts.active,
            refusal=_refusal(plan, outcome),
            ending=ending,
            in_backoff=plan.delayed,
        )
        key = seen.job.key
        before = self._situations.get(key)
        if found != before:
            self.forget(key)
            self._situations[key] = found
            self._counts.setdefault(key.namespace, Counter())[found] += 1

    def forget(self, key: Key) -> None:
        """Count a Job no more; nothing happens when it is not counted."""
        before = self._situations.pop(key, None)
        if before is None:
            return
        counts = self._counts[key.namespace]
        counts[before] -= 1
        if not counts[before]:
            del counts[before]
            if not counts:
                del self._counts[key.namespace]

    def counted(self, pods: Iterable[Pod], now: datetime) -> datetime | None:
        """Observe how long ago pods have ended that are counted now; return the latest end, None without any."""
        ends = [end for pod in pods if (end := finish_time(pod)) is not None]
        if not ends:
            return None
        labels = exemplar()
        for end in ends:
            self._counted.observe(_seconds(end, now), labels)
        return max(ends)

    def finished(self, last: datetime, now: datetime) -> None:
        """Observe how long ago the last pod of a Job has ended that is finished now."""
        self._finished.observe(_seconds(last, now), exemplar())

    def collect(self) -> Iterator[Metric]:
        """Yield `kcr_jobs`; those of the smallest namespaces beyond the bound are counted together."""
        ranked = sorted(self._counts.items(), key=lambda one: (-one[1].total(), one[0]))
        rest: Counter[JobSituation] = Counter()
        for _, counts in ranked[self._most :]:
            rest += counts
        family = GaugeMetricFamily(
            "kcr_jobs",
            "Number of Jobs that have not ended, by namespace, state and cause; namespaces beyond a bound are _other",
            labels=("namespace", "state", "cause"),
        )
        for namespace, counts in (*ranked[: self._most], (OTHER, rest)):
            for situation, count in counts.items():
                family.add_metric((namespace, *situation), count)
        yield family


def _refusal(plan: Plan, outcome: Outcome) -> str:
    """Return why pods were not created in a pass, also when their creates were not sent for an earlier refusal."""
    error = outcome.error
    if not isinstance(plan.work, ScaleUp) or error is None or isinstance(error, UnconfirmedCreateError):
        return ""
    return str(error)


def _seconds(end: datetime, now: datetime) -> float:
    # The clock of a node may be ahead of ours.
    return max(0.0, (now - end).total_seconds())
