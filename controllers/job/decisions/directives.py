"""The annotations under `kcr.dev/` by which a Job asks for more than its spec can say, as one frozen value.

Without them a Job is reconciled as by kube-controller-manager. A value that cannot be read counts as absent, and is
reported once.
"""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple

from kcr.api.annotations import AnnotationReader, annotations_reader
from kcr.api.batch import FAILED, Job, finished_type
from kcr.api.durations import bounded_duration
from kcr.controllers.job.decisions.plan import Limits

START_DEADLINE = "kcr.dev/start-deadline"
BACKOFF = "kcr.dev/backoff"
TTL_AFTER_FAILURE = "kcr.dev/ttl-after-failure"
FAILED_PODS_HISTORY = "kcr.dev/failed-pods-history"

# Causes for which a pod does not start. Those of the first line count where a Job names none.
DEFAULT_CAUSES = ("unschedulable", "image", "configuration", "command", "crash", "other")
CAUSES = (*DEFAULT_CAUSES, "gates")

_COUNT = re.compile("[0-9]{1,9}")


class StartDeadline(NamedTuple):
    """How long a pod may take to start (`kcr.dev/start-deadline`).

    Attributes:
        limit: The time without a step towards its start.
        causes: The causes that count.
    """

    limit: timedelta
    causes: tuple[str, ...] = DEFAULT_CAUSES


class BackoffRange(NamedTuple):
    """The delay after the first failure in a row, and the longest delay, in seconds (`kcr.dev/backoff`)."""

    base_seconds: float
    max_seconds: float


class JobDirectives(NamedTuple):
    """The annotations of a Job; None for those that are absent or cannot be read.

    Attributes:
        start_deadline: After which time without a start the Job fails.
        backoff: The delays before failed pods are replaced.
        ttl_after_failure: How long the Job is kept when it has failed.
        failed_pods_history: How many of its failed pods are kept, the latest.
        faults: The values that cannot be read, each with its remedy.
    """

    start_deadline: StartDeadline | None = None
    backoff: BackoffRange | None = None
    ttl_after_failure: timedelta | None = None
    failed_pods_history: int | None = None
    faults: tuple[str, ...] = ()


def directives_of(job: Job) -> JobDirectives:
    """Return the annotations of a Job."""
    return _read(job.metadata.annotations)


def own_limits(job: Job, limits: Limits) -> Limits:
    """Return the limits with the backoff of a Job, if it has one of its own (`kcr.dev/backoff`, k8s#114651)."""
    backoff = directives_of(job).backoff
    if backoff is None:
        return limits
    return limits._replace(backoff_base_seconds=backoff.base_seconds, backoff_max_seconds=backoff.max_seconds)


def texts_of(job: Job) -> tuple[str, ...]:
    """Return the annotations as they are written, without the prefix: `start-deadline 10m`."""
    annotations = job.metadata.annotations
    return tuple(f"{name.partition('/')[2]} {annotations[name]}" for name in _READERS if name in annotations)


def _start_deadline(text: str) -> StartDeadline:
    limit, *causes = [*filter(None, re.split(r"[\s,]+", text))] or [""]
    unknown = [cause for cause in causes if cause not in CAUSES]
    if unknown:
        raise ValueError(f"there is no cause {unknown[0]!r}, known are {', '.join(CAUSES)}")
    found = bounded_duration(limit)
    if not found:
        raise ValueError("the time is not above zero")
    return StartDeadline(found, tuple(causes) or DEFAULT_CAUSES)


def _backoff(text: str) -> BackoffRange:
    base, dots, most = text.partition("..")
    if not dots:
        raise ValueError("it is not a range")
    found = BackoffRange(*(bounded_duration(part.strip()).total_seconds() for part in (base, most)))
    if found.base_seconds > found.max_seconds:
        raise ValueError("the first delay is longer than the longest")
    return found


def _count(text: str) -> int:
    if not _COUNT.fullmatch(text):
        raise ValueError("it is not a whole number")
    return int(text)


_READERS: Mapping[str, AnnotationReader] = {
    START_DEADLINE: AnnotationReader(
        "start_deadline", _start_deadline, "10m, or with causes as 10m image, configuration"
    ),
    BACKOFF: AnnotationReader("backoff", _backoff, "10s..5m"),
    TTL_AFTER_FAILURE: AnnotationReader("ttl_after_failure", bounded_duration, "168h"),
    FAILED_PODS_HISTORY: AnnotationReader("failed_pods_history", _count, "3"),
}
_read = annotations_reader(JobDirectives, _READERS)


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
