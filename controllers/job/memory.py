"""What the controller remembers of a Job between two reconciles.

Everything here may be lost at any moment: it saves waiting and requests, and never decides what is counted.
All of it is filed under namespace, name and UID, so that a Job created anew under an old name starts clean.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kcr.api.batch import Job, JobStatus
from kcr.api.meta import Key
from kcr.controllers.job.backoff import Backoff
from kcr.controllers.job.plan import Identity, Outcome
from kcr.controllers.job.pod_template import PodToCreate
from kcr.informer.store import version_of

BURST = 5.0


class Bucket:
    """How soon a Job may be looked at again: at once while it has been quiet, once per period when it is busy.

    Args:
        period_seconds: How long one token takes to come back; 0 turns the bucket off.
    """

    def __init__(self, period_seconds: float) -> None:
        self._period = period_seconds
        # Tokens at the moment `_at`; between 0 and BURST.
        self._tokens = BURST
        self._at = 0.0

    def delay(self, now: float) -> float:
        """Return the seconds until the next token; 0 when there is one."""
        if self._period <= 0:
            return 0.0
        return max(0.0, (1.0 - self._level(now)) * self._period)

    def spend(self, now: float) -> None:
        """Take one token, if there is one."""
        if self._period > 0:
            self._tokens, self._at = max(0.0, self._level(now) - 1.0), now

    def _level(self, now: float) -> float:
        return min(BURST, self._tokens + (now - self._at) / self._period)


class JobState:
    """What this process remembers of one Job."""

    def __init__(self, uid: str, period_seconds: float) -> None:
        self.uid = uid
        self.bucket = Bucket(period_seconds)
        self.backoff = Backoff()
        # UIDs of pods whose finalizer was removed, though the store still shows it.
        self.untracked: set[str] = set()
        # Creates without an answer: the pod may exist. Each still counts as expected.
        self.unconfirmed_creates: list[PodToCreate] = []
        # resourceVersions that this process wrote and has not observed; their events are echoes.
        self.own_versions: set[str] = set()
        # Whether a reconcile was held back by open expectations.
        self.held_back = False
        # Whether a write of the status had no answer: the store may show less than the server has.
        self.unconfirmed_status = False
        # Whether the terminal condition has been written, though the store may not show it yet.
        self.finished = False
        # The status as it was last written here, or seen.
        self._status = JobStatus()
        # The version that the store of pods has to reach before it is used: that of a status that another client
        # wrote, or that was written here after a live list of the pods. 0 for none.
        self._counted_at = 0
        # Whether this sync lists the pods live.
        self._ahead = False
        # Whether `_status` is what this process has seen or written, with no write in between that had no answer.
        self._knows_status = False
        # Whether the status that was seen last is another client's.
        self.sees_concurrent_controller = False

    def is_ahead(self, job: Job, pods_version: int) -> bool:
        """Return whether pods may be counted in the Job's status that the store still shows as they were.

        Args:
            job: The Job as last seen.
            pods_version: What the store of pods has reached.
        """
        self.sees_concurrent_controller = self._knows_status and job.status != self._status
        self._knows_status = True
        if job.status != self._status:
            self._status, self._counted_at = job.status, version_of(job.metadata.resource_version)
        self._ahead = pods_version < self._counted_at
        return self._ahead

    def wrote(self, job: Job) -> None:
        """Note a Job as the server returned it after a write of its status."""
        self._status, self._knows_status = job.status, True
        self.own_versions.add(job.metadata.resource_version)
        if self._ahead:
            self._counted_at = version_of(job.metadata.resource_version)

    def had_no_answer(self) -> None:
        """Note that a write of the status had no answer."""
        self.unconfirmed_status, self._knows_status = True, False

    def absorb(self, outcome: Outcome) -> None:
        """Note what was written to the Job's pods."""
        self.own_versions.update(outcome.versions)
        self.unconfirmed_creates.extend(outcome.unconfirmed_creates)

    def is_own_version(self, version: str) -> bool:
        """Return whether an event shows nothing but our own write; true once per write."""
        if version not in self.own_versions:
            return False
        self.own_versions.discard(version)
        return True


class Memory:
    """The memories of all Jobs, at most one per name."""

    def __init__(self, period_seconds: float, forgotten: Callable[[Identity], None]) -> None:
        """Start empty.

        Args:
            period_seconds: The refill time of each Job's bucket.
            forgotten: Called with every Job whose memory is dropped, for what others remember of it.
        """
        self._period = period_seconds
        self._forgotten = forgotten
        self._jobs: dict[Key, JobState] = {}

    def of(self, job: Job) -> JobState:
        """Return the memory of this Job, empty if there is none; another UID's under this name is dropped."""
        state = self._jobs.get(job.key)
        if state is None or state.uid != job.metadata.uid:
            self.forget(job.key)
            state = self._jobs[job.key] = JobState(job.metadata.uid, self._period)
        return state

    @contextmanager
    def in_use(self, state: JobState, key: Key) -> Iterator[None]:
        """Let a pass note things; if its Job is forgotten meanwhile, they are dropped with the end of the context."""
        try:
            yield
        finally:
            if self._jobs.get(key) is not state:
                self._forgotten(Identity(key, state.uid))

    def forget(self, key: Key) -> None:
        """Drop what is remembered of the Job of this name, whichever it was."""
        state = self._jobs.pop(key, None)
        if state is not None:
            self._forgotten(Identity(key, state.uid))
