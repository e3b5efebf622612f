"""What the controller remembers of a CronJob between two reconciles.

Everything here may be lost at any moment: it saves requests, warnings and waiting, and every run has its one name
whatever is remembered. Filed under namespace, name and UID, so that another CronJob of the same name starts clean.
"""

from collections.abc import Callable, Sequence

from kcr.api.batch import CronJob, Job
from kcr.api.meta import Key
from kcr.controllers.cronjob.decisions.plan import Outcome, Start
from kcr.controllers.cronjob.decisions.status import Run
from kcr.log import get_logger
from kcr.ratelimitedlog import RateLimitedLogger


class CronJobState:
    """The memory of one CronJob."""

    def __init__(self, uid: str, since: int = 0) -> None:
        """Start with nothing; `since` is the version from which on this process leads."""
        self.uid = uid
        # The version that the store of CronJobs has to reach before it is used: the leader before this one may have
        # recorded a run that it does not show. 0 once it was compared with the server.
        self.unverified_before = since
        # UIDs of Jobs that were deleted and that the store or the status may still show.
        self.deleted: set[str] = set()
        # A start whose Job may have been created: no answer came.
        self.unconfirmed: Start | None = None
        # A run that was started and is not on record yet.
        self.started: Run | None = None
        # Whether no event has been recorded for that run.
        self.is_news = False

    def note(self, start: Start, outcome: Outcome) -> None:
        """Note what became of a start."""
        self.deleted |= outcome.deleted
        self.unconfirmed = start if outcome.is_unconfirmed else None
        if outcome.job is not None:
            self.started, self.is_news = Run(start.run, outcome.job), outcome.is_new

    def left(self, cron: CronJob, jobs: Sequence[Job]) -> tuple[Job, ...]:
        """Return the Jobs that were not deleted; forget deleted ones that neither store nor status shows."""
        if not self.deleted:
            return tuple(jobs)
        self.deleted.intersection_update(
            {job.metadata.uid for job in jobs} | {listed.uid for listed in cron.status.active}
        )
        return tuple(job for job in jobs if job.metadata.uid not in self.deleted)


class Memory:
    """The memories of all CronJobs, at most one per name."""

    def __init__(self, since: Callable[[], int] = lambda: 0) -> None:
        """Start with nothing; `since` returns the version with which this process leads, 0 without election."""
        self._since = since
        self._crons: dict[Key, CronJobState] = {}
        self._log = RateLimitedLogger(get_logger())

    def warn_of_future_run(self, cron: CronJob, now: float) -> None:
        """Warn that the last run of a CronJob lies in the future: one line for all CronJobs, at most twice a minute.

        Args:
            cron: The CronJob.
            now: The loop's time.
        """
        message = "last run lies in the future, none is started before: was the clock set back?"
        last = cron.status.last_schedule_time
        self._log.warning(now, message, cronjob=str(cron.key), last_schedule_time=None if last is None else str(last))

    def of(self, cron: CronJob) -> CronJobState:
        """Return the memory of this CronJob, empty if there is none; another UID's under this name is dropped."""
        state = self._crons.get(cron.key)
        if state is None or state.uid != cron.metadata.uid:
            state = self._crons[cron.key] = CronJobState(cron.metadata.uid, self._since())
        return state

    def peek(self, cron: CronJob) -> CronJobState:
        """Return the memory of this CronJob; when there is none, an empty one that is not kept."""
        state = self._crons.get(cron.key)
        return CronJobState(cron.metadata.uid) if state is None or state.uid != cron.metadata.uid else state

    def forget(self, key: Key) -> None:
        """Drop what is remembered of the CronJob of this name, whichever it was."""
        self._crons.pop(key, None)
