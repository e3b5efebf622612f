"""What the controller remembers of a Job between two reconciles.

Everything here may be lost at any moment: it saves waiting and requests, and never decides what is counted.
All of it is filed under namespace, name and UID, so that a Job created anew under an old name starts clean.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from controllers.job.backoff import Backoff
from controllers.job.plan import Identity, Outcome
from controllers.job.pod_template import PodToCreate
from kcr.api.batch import Job, JobStatus
from kcr.api.meta import Key
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


class Remembered:
    """The memory of one Job."""

    def __init__(self, uid: str, period_seconds: float) -> None:
        self.uid = uid
        self.bucket = Bucket(period_seconds)
        self.backoff = Backoff()
        # UIDs of pods whose finalizer was asked to go and is still in the store.
        self.untracked: set[str] = set()
        # Creations sent without an answer: the pod may exist. Each still counts as expected.
        self.doubtful: list[PodToCreate] = []
        # Versions we wrote and have not seen come back; their events tell us nothing new.
        self.echoes: set[str] = set()
        # Whether a reconcile was held back by open expectations.
        self.held_back = False
        # Whether a write of the status had no answer: the store may show less than the server has.
        self.unsure = False
        # Whether the terminal condition has been written, though the store may not show it yet.
        self.finished = False
        # The status as it was last written here, or seen.
        self._status = JobStatus()
        # What the store of pods has to reach before it is relied on: the version at which somebody else was seen to
        # have written the status, or which was written here with the pods looked at themselves. 0 for nothing.
        self._counted_at = 0
        # Whether the pods are looked at themselves in this pass.
        self._ahead = False

    def is_ahead(self, job: Job, pods_version: int) -> bool:
        """Return whether pods may be counted in the Job's status that the store still shows as they were.

        Args:
            job: The Job as last seen.
            pods_version: What the store of pods has reached.
        """
        if job.status != self._status:
            self._status, self._counted_at = job.status, version_of(job.metadata.resource_version)
        self._ahead = pods_version < self._counted_at
        return self._ahead

    def wrote(self, job: Job) -> None:
        """Note a Job as the server returned it after a write of its status."""
        self._status = job.status
        self.echoes.add(job.metadata.resource_version)
        if self._ahead:
            self._counted_at = version_of(job.metadata.resource_version)

    def absorb(self, outcome: Outcome) -> None:
        """Note what was written to the Job's pods."""
        self.echoes.update(outcome.versions)
        self.doubtful.extend(outcome.doubtful)

    def is_echo(self, version: str) -> bool:
        """Return whether an event shows nothing but our own write; true once per write."""
        if version not in self.echoes:
            return False
        self.echoes.discard(version)
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
        self._jobs: dict[Key, Remembered] = {}

    def of(self, job: Job) -> Remembered:
        """Return the memory of this Job, empty if there is none; another UID's under this name is dropped."""
        mine = self._jobs.get(job.key)
        if mine is None or mine.uid != job.metadata.uid:
            self.forget(job.key)
            mine = self._jobs[job.key] = Remembered(job.metadata.uid, self._period)
        return mine

    @contextmanager
    def in_use(self, mine: Remembered, key: Key) -> Iterator[None]:
        """Let a pass note things; if its Job is forgotten meanwhile, they are dropped with the end of the context."""
        try:
            yield
        finally:
            if self._jobs.get(key) is not mine:
                self._forgotten(Identity(key, mine.uid))

    def forget(self, key: Key) -> None:
        """Drop what is remembered of the Job of this name, whichever it was."""
        mine = self._jobs.pop(key, None)
        if mine is not None:
            self._forgotten(Identity(key, mine.uid))
