"""How long a finished Job is kept, and which of its failed pods."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from kcr.api.batch import FAILED, Job, finished_type
from kcr.api.core import Pod
from kcr.controllers.job.decisions.directives import TTL_AFTER_FAILURE, directives_of
from kcr.controllers.job.decisions.pods import finish_time

_NEVER = datetime.min.replace(tzinfo=UTC)


class TimeToLive(NamedTuple):
    """How long a Job is kept after its end, and the field or annotation that says so."""

    duration: timedelta
    source: str


def time_to_live(job: Job) -> TimeToLive | None:
    """Return how long a Job is kept after its end; None for no limit.

    A failed one is kept as its annotation says, if it has one, longer or shorter than others
    (`kcr.dev/ttl-after-failure`).

    Args:
        job: The Job. Before its end it is judged as one that completes.
    """
    after_failure = directives_of(job).ttl_after_failure
    if after_failure is not None and finished_type(job) == FAILED:
        return TimeToLive(after_failure, TTL_AFTER_FAILURE)
    seconds = job.spec.ttl_seconds_after_finished
    return None if seconds is None else TimeToLive(timedelta(seconds=seconds), "ttlSecondsAfterFinished")


def surplus_failures(failed: Iterable[Pod], keep: int) -> tuple[Pod, ...]:
    """Return the failed pods to delete, those that ended first, first.

    Args:
        failed: The counted failed pods of one Job; one may come twice. Those that are being deleted are ignored.
        keep: How many of the latest are kept.
    """
    found = {pod.metadata.uid: pod for pod in failed if pod.metadata.deletion_timestamp is None}
    order = sorted(found.values(), key=lambda pod: (finish_time(pod) or _NEVER, pod.metadata.name))
    return tuple(order[: max(0, len(order) - keep)])
