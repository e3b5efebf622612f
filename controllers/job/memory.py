"""The controller's memory of a Job between two reconciles.

Its writes that it has not observed are in `OwnWrites`, which forgets them together with this. Everything here may be
lost at any moment: it saves waiting and requests, and never decides the counters. All of it is filed under
namespace, name and UID, so that a Job created again under an old name starts clean.
"""

from datetime import datetime

from kcr.api.batch import Job, JobStatus
from kcr.api.core import Event
from kcr.api.meta import Key
from kcr.controller import Batching, OwnWrites
from kcr.controllers.job.decisions.failures import Backoff
from kcr.controllers.job.decisions.plan import Outcome
from kcr.controllers.job.fleet import Fleet
from kcr.informer import version_of
from kcr.log import get_logger
from kcr.log.ratelimited import RateLimitedLogger

# How long the warning of another controller is not repeated.
WARNING_SECONDS = 600.0


class JobState:
    """This process's memory of one Job."""

    def __init__(self, uid: str, since: int = 0) -> None:
        """Start with nothing; `since` is the version from which on this process leads."""
        self.uid = uid
        self.backoff: Backoff = Backoff()
        # The status as it was last written here, or seen, and the version of the Job that had it.
        self._status = JobStatus()
        self._version = 0
        # The version that the store of pods has to reach before it is used: that of a status that another client
        # wrote, or that was written here after a live list of the pods, or with which this process leads. 0 for none.
        self._counted_at = since
        # Whether this sync lists the pods live.
        self._ahead = False
        # Whether this process has seen or written `_status`, with no unanswered write since.
        self.knows_status: bool = False
        # Whether the status that was seen last is another client's.
        self.sees_concurrent_controller: bool = False
        # When the last of the pods ended that were counted here; None before.
        self.last_end: datetime | None = None
        # While the status that says that the Job has started is put off: what it says, and when it is due, in the
        # loop's time.
        self.started: datetime | None = None
        self.start_due: float | None = None
        # For explanations alone: when another client's status was seen last, and the event of the last refusal of pods.
        self.concurrent_seen_at: datetime | None = None
        self.refusal: Event | None = None
        # The unreadable annotations of which there is an event.
        self.faults: tuple[str, ...] = ()

    def is_ahead(self, job: Job, pods_version: int) -> bool:
        """Return whether pods may be counted in the Job's status that the store still shows as they were.

        Args:
            job: The Job as last seen.
            pods_version: The version that the store of pods has reached.
        """
        version = version_of(job.metadata.resource_version)
        # A store whose watch has lost an event shows an older version than the last one: no news.
        is_news = job.status != self._status and version >= self._version
        self.sees_concurrent_controller = self.knows_status and is_news
        self.knows_status = True
        if is_news:
            self._status, self._version = job.status, version
            self._counted_at = max(self._counted_at, version)
        self._ahead = pods_version < self._counted_at
        return self._ahead

    def note_creates(self, outcome: Outcome, now: datetime) -> None:
        """Record the results of creates: refused pods, until one is created."""
        if outcome.refused:
            before = self.refusal
            times, first = (1, now) if before is None else (before.count + 1, before.first_timestamp)
            message = f"Error creating: {outcome.error}"
            self.refusal = Event(
                reason="FailedCreate", message=message, count=times, first_timestamp=first, last_timestamp=now
            )
        elif outcome.created:
            self.refusal = None

    def wrote(self, job: Job) -> None:
        """Note a Job as the server returned it after a write of its status."""
        self._status, self.knows_status = job.status, True
        self._version = version_of(job.metadata.resource_version)
        if self._ahead:
            self._counted_at = self._version


class Memory:
    """The memories of all Jobs, at most one per name.

    Attributes:
        own_writes: The writes for the Jobs that were not observed yet; forgotten with them.
        batching: Enqueues busy Jobs once per period; forgotten likewise.
        fleet: Counts the Jobs by state; forgotten likewise.
    """

    def __init__(self, own_writes: OwnWrites, batching: Batching, fleet: Fleet, patience: float = 0.0) -> None:
        """Start with nothing.

        Args:
            own_writes: The writes that were not observed yet.
            batching: Enqueues busy Jobs once per period.
            fleet: Counts the Jobs by state.
            patience: How long in seconds another client has to write the status of Jobs before there is a warning of
                it: with election it may be the next leader, as long as this one may not know that it has lost.
        """
        self.own_writes = own_writes
        self.batching = batching
        self.fleet = fleet
        self._patience = patience
        # When another client's status was seen first and last, in the loop's time.
        self._concurrent_since = self._concurrent_at = float("-inf")
        self._jobs: dict[Key, JobState] = {}
        self._log = RateLimitedLogger(get_logger(), WARNING_SECONDS)

    def of(self, job: Job) -> JobState:
        """Return the memory of this Job, empty if there is none; another UID's under this name is dropped."""
        state = self._jobs.get(job.key)
        if state is None or state.uid != job.metadata.uid:
            self.forget(job.key)
            state = self._jobs[job.key] = JobState(job.metadata.uid, self.own_writes.leading_since())
        return state

    def peek(self, job: Job) -> JobState:
        """Return the memory of this Job; when there is none, an empty one that is not kept."""
        state = self._jobs.get(job.key)
        return JobState(job.metadata.uid) if state is None or state.uid != job.metadata.uid else state

    def end_pass(self, state: JobState, key: Key) -> None:
        """Drop what a pass has noted if its Job was forgotten meanwhile."""
        if self._jobs.get(key) is not state:
            self._forget_rest(key)

    def forget(self, key: Key) -> None:
        """Drop the memory of the Job of this name, with any uid."""
        self._jobs.pop(key, None)
        self._forget_rest(key)

    def _forget_rest(self, key: Key) -> None:
        self.own_writes.forget(key)
        self.batching.forget(key)
        self.fleet.forget(key)

    def warn_of_concurrent_controller(self, job: Job, now: float) -> None:
        """Warn that another client writes the status of Jobs, such as a second controller started by mistake.

        Args:
            job: The Job whose status is another client's.
            now: The loop's time.
        """
        if now - self._concurrent_at > WARNING_SECONDS:
            self._concurrent_since = now
        self._concurrent_at = now
        if now - self._concurrent_since < self._patience:
            return
        message = "another client writes the status of Jobs: two controllers of the same Jobs double the work; stop one"
        self._log.warning(now, message, job=str(job.key))
