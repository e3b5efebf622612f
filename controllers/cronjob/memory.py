"""The controller's memory of a CronJob between two reconciles.

Its writes that it has not observed are in `OwnWrites`. Everything here may be lost at any moment: it saves events and
warnings, and every run has its one name whatever is remembered. Filed under namespace, name and UID, so that another
CronJob of the same name starts clean.
"""

from datetime import datetime

from kcr.api.batch import CronJob
from kcr.api.meta import Key
from kcr.controllers.cronjob.decisions.runs import DueRun
from kcr.controllers.cronjob.decisions.status import Run
from kcr.log import get_logger
from kcr.log.ratelimited import RateLimitedLogger


class CronJobState:
    """The memory of one CronJob."""

    def __init__(self, uid: str) -> None:
        self.uid = uid
        # A run that was started and is not on record yet.
        self.started: Run | None = None
        # Whether no event has been recorded for that run.
        self.is_news = False
        # The moment of the change of the clock that was announced last.
        self.announced: datetime | None = None
        # The unreadable annotations of which there is an event.
        self.faults: tuple[str, ...] = ()
        # The run that was due last; for the metric of missed runs alone.
        self.due: DueRun | None = None


class Memory:
    """The memories of all CronJobs, at most one per name."""

    def __init__(self) -> None:
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
            state = self._crons[cron.key] = CronJobState(cron.metadata.uid)
        return state

    def peek(self, cron: CronJob) -> CronJobState:
        """Return the memory of this CronJob; when there is none, an empty one that is not kept."""
        state = self._crons.get(cron.key)
        return CronJobState(cron.metadata.uid) if state is None or state.uid != cron.metadata.uid else state

    def forget(self, key: Key) -> None:
        """Drop the memory of the CronJob of this name, with any uid."""
        self._crons.pop(key, None)
