"""The annotations under `kcr.dev/` by which a CronJob asks for more than its spec can say, as one frozen value.

Without them a CronJob is reconciled as by kube-controller-manager. A value that cannot be read counts as absent, and is
reported once.
"""

from datetime import timedelta
from typing import NamedTuple

from kcr.api.annotations import AnnotationReader, annotations_reader
from kcr.api.batch import CronJob
from kcr.api.durations import bounded_duration
from kcr.api.slots import hash_of

SPREAD = "kcr.dev/spread"
CLOCK_CHANGE_NOTICE = "kcr.dev/clock-change-notice"

_LONGEST_SPREAD = timedelta(days=1)
_LONGEST_NOTICE = timedelta(days=90)
_SECOND = timedelta(seconds=1)
_HASH_BITS = 64


class CronJobDirectives(NamedTuple):
    """The annotations of a CronJob; None for those that are absent or cannot be read.

    Attributes:
        spread: The window behind each scheduled time in which its run starts.
        notice: How long before a change of the clock an event announces it.
        faults: The values that cannot be read, each with its remedy.
    """

    spread: timedelta | None = None
    notice: timedelta | None = None
    faults: tuple[str, ...] = ()


def directives_of(cron: CronJob) -> CronJobDirectives:
    """Return the annotations of a CronJob."""
    return _read(cron.metadata.annotations)


def offset_of(cron: CronJob) -> timedelta:
    """Return by how much the runs of a CronJob start after their scheduled time; zero without `kcr.dev/spread`.

    It is drawn from the uid, in whole seconds below the window: always the same for one CronJob, so that no run comes
    closer to the next one, and evenly distributed over many with the same schedule (k8s#91652).
    """
    window = directives_of(cron).spread
    if window is None:
        return timedelta()
    return (hash_of(cron.metadata.uid) * (window // _SECOND) >> _HASH_BITS) * _SECOND


def _within(text: str, longest: timedelta) -> timedelta:
    found = bounded_duration(text)
    if not _SECOND <= found <= longest:
        raise ValueError(f"the time is not between 1s and {longest.days * 24}h")
    return found


_read = annotations_reader(CronJobDirectives, {
    SPREAD: AnnotationReader("spread", lambda text: _within(text, _LONGEST_SPREAD), "5m"),
    CLOCK_CHANGE_NOTICE: AnnotationReader("notice", lambda text: _within(text, _LONGEST_NOTICE), "168h"),
})  # fmt: skip
