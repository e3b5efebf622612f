"""How often a Job may fail (`spec.backoffLimit`), and how long it waits before it tries again."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.controllers.job.pods import finish_time

DEFAULT_LIMIT = 6


class Backoff(NamedTuple):
    """The failures since the last success, and when the latest of them ended. Lives in memory only.

    `counted` has the UIDs of the pods that were counted last: they come again until they are on record.
    """

    failures: int = 0
    last: datetime | None = None
    counted: frozenset[str] = frozenset()


def advanced(record: Backoff, succeeded: Iterable[Pod], failed: Iterable[Pod]) -> Backoff:
    """Return the record after these pods have ended, each counted once however often it comes.

    A success wipes out all failures that did not end after it.

    Source: kubernetes/pkg/controller/job/backoff_utils.go, newBackoffRecord.
    """
    succeeded, failed = tuple(succeeded), tuple(failed)
    counted = frozenset(pod.metadata.uid for pod in (*succeeded, *failed))
    successes = _ends(pod for pod in succeeded if pod.metadata.uid not in record.counted)
    failures = _ends(pod for pod in failed if pod.metadata.uid not in record.counted)
    if not successes and not failures:
        return record if counted == record.counted else record._replace(counted=counted)
    if successes:
        later = [end for end in failures if end > max(successes)]
        return Backoff(len(later), max(later, default=None), counted)
    return Backoff(record.failures + len(failures), max(failures), counted)


def _ends(pods: Iterable[Pod]) -> list[datetime]:
    return [end for pod in pods if (end := finish_time(pod)) is not None]


def time_left(record: Backoff, now: datetime, base_seconds: float, max_seconds: float) -> timedelta:
    """Return how long to wait before the next pod may be created; zero when there is nothing to wait for.

    The n-th failure in a row is answered after `base · 2ⁿ⁻¹`, at most `max`, counted from its end.

    Source: kubernetes/pkg/controller/job/backoff_utils.go, getRemainingTimeForFailuresCount.
    """
    if record.failures == 0 or record.last is None:
        return timedelta()
    # The exponent is bounded because a float overflows long after the cap has been reached.
    delay = min(base_seconds * 2 ** min(record.failures - 1, 64), max_seconds)
    return max(timedelta(), record.last + timedelta(seconds=delay) - now)


def limit_exceeded(job: Job, failed: int) -> bool:
    """Return whether more pods have failed than the limit allows; strictly more."""
    return failed > _limit(job)


def restarts_exceeded(job: Job, pods: Iterable[Pod], restart_policy: str) -> bool:
    """Return whether containers have been restarted in place as often as the limit allows.

    Applies to restartPolicy OnFailure only. Counts the pods that are not over, those told to go included.
    The last retry is therefore always cut short: it has begun when the limit is found to be reached.

    Source: kubernetes/pkg/controller/job/job_controller.go, pastBackoffLimitOnFailure.
    """
    if restart_policy != "OnFailure":
        return False
    restarts = sum(
        container.restart_count
        for pod in pods
        if pod.status.phase in ("Running", "Pending")
        for container in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )
    limit = _limit(job)
    return restarts > 0 if limit == 0 else restarts >= limit


def _limit(job: Job) -> int:
    return DEFAULT_LIMIT if job.spec.backoff_limit is None else job.spec.backoff_limit
