"""What happens to Jobs and pods, and which keys that wakes."""

import asyncio
import contextlib
from collections.abc import Callable

from controllers.job import indexes
from controllers.job.adoption import selects
from controllers.job.conditions import is_finished
from controllers.job.memory import Memory
from controllers.job.orphans import owning_job
from controllers.job.plan import Identity, identity
from controllers.job.pods import is_tracked
from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.meta import Key, controller_of
from kcr.errors import KcrError
from kcr.expectations import Expectations
from kcr.informer import Handler, Store
from kcr.workqueue import WorkQueue


class Keys:
    """Wakes Jobs and orphaned pods; shared by the handlers of both kinds."""

    def __init__(
        self,
        queue: WorkQueue[Key],
        orphans: WorkQueue[Key],
        memory: Memory,
        expectations: Expectations[Identity],
        is_ours: Callable[[Job], bool],
    ) -> None:
        self._queue = queue
        self._orphans = orphans
        self._memory = memory
        self._is_ours = is_ours
        self.expectations = expectations

    def now(self, key: Key) -> None:
        """Look at a Job at once."""
        self._queue.add(key)

    def anew(self, key: Key) -> None:
        """Look at a new Job at once; the failures of an older one of its name are not its own."""
        self._queue.forget(key)
        self._queue.add(key)

    def soon(self, job: Job, version: str) -> None:
        """Look at a Job when its bucket allows, unless the event only shows what we wrote ourselves.

        Args:
            job: The Job.
            version: The version of the object that the event shows; empty when the event is no echo for sure.
        """
        if not self._is_ours(job):
            return
        mine = self._memory.of(job)
        freed = mine.held_back and self.expectations.expectations_met(identity(job))
        if freed or not mine.is_echo(version):
            self._queue.add_after(job.key, mine.bucket.delay(asyncio.get_running_loop().time()))

    def orphaned(self, pod: Pod) -> None:
        """Let a pod go that no Job counts, if it is held."""
        if is_tracked(pod):
            self._orphans.add(pod.key)

    def offered(self, pod: Pod, jobs: Store[Job]) -> None:
        """Let the Jobs look that may adopt a pod."""
        for job in jobs.list(pod.metadata.namespace) if pod.metadata.labels else ():
            if _selects(job, pod):
                self.soon(job, "")

    def over(self, job: Job, pods: Store[Pod]) -> None:
        """Forget a Job that has ended or is gone, and let the pods go that it has not let go itself.

        Those that nobody controls any more were let go when that was seen.
        """
        if self._is_ours(job):
            asked = self._memory.of(job).untracked
            for pod in pods.by_index(indexes.UNSETTLED, job.metadata.uid):
                if pod.metadata.uid not in asked:
                    self.orphaned(pod)
        self._memory.forget(job.key)


def _selects(job: Job, pod: Pod) -> bool:
    """Return whether the Job's selector fits; a malformed one is told where the Job is looked at."""
    with contextlib.suppress(KcrError):
        return selects(job, pod)
    return False


class JobEvents(Handler[Job]):
    """What happens to Jobs, and the keys it wakes.

    Source: kubernetes/pkg/controller/job/job_controller.go, addJob, updateJob, deleteJob.
    """

    def __init__(self, keys: Keys, pods: Store[Pod]) -> None:
        self._keys = keys
        self._pods = pods

    def on_add(self, obj: Job, initial: bool) -> None:
        """A Job came."""
        self._keys.anew(obj.key)
        if is_finished(obj):
            self._keys.over(obj, self._pods)

    def on_update(self, old: Job, new: Job) -> None:
        """A Job changed: a new wish is met at once, a new status when the Job's bucket allows."""
        if is_finished(new):
            self._keys.over(new, self._pods)
        elif old.metadata.generation != new.metadata.generation:
            self._keys.now(new.key)
        else:
            self._keys.soon(new, new.metadata.resource_version)

    def on_delete(self, obj: Job) -> None:
        """A Job went."""
        self._keys.over(obj, self._pods)
        self._keys.now(obj.key)


class PodEvents(Handler[Pod]):
    """What happens to pods, and the Jobs it wakes.

    Source: kubernetes/pkg/controller/job/job_controller.go, addPod, updatePod, deletePod.
    """

    def __init__(self, keys: Keys, jobs: Store[Job]) -> None:
        self._keys = keys
        self._jobs = jobs

    def on_add(self, obj: Pod, initial: bool) -> None:
        """A pod came: one creation less to wait for."""
        job = self._job_of(obj)
        if job is not None:
            self._keys.expectations.creation_observed(identity(job))
        self._changed(obj, job, is_news=obj.status.phase not in ("", "Pending"))
        # All Jobs are looked at when the controller starts.
        if not initial:
            self._offer(obj)

    def on_update(self, old: Pod, new: Pod) -> None:
        """A pod changed."""
        if new.metadata.resource_version == old.metadata.resource_version:
            return
        before, job = self._job_of(old), self._job_of(new)
        if before is not None and before is not job and not is_finished(before):
            # Somebody took the pod away from its Job, which may want another one.
            self._keys.soon(before, "")
        self._changed(new, job, is_news=new.status != old.status)
        if new.metadata.labels != old.metadata.labels or controller_of(old.metadata) is not None:
            self._offer(new)

    def on_delete(self, obj: Pod) -> None:
        """A pod is gone."""
        job = self._job_of(obj)
        if job is not None and not is_finished(job):
            self._keys.expectations.deletion_observed(identity(job))
            self._keys.soon(job, "")

    def _changed(self, pod: Pod, job: Job | None, *, is_news: bool) -> None:
        """Tell the pod's Job.

        Args:
            pod: The pod as it is now.
            job: Its Job, if that is in the store.
            is_news: Whether the event shows more than our own write could have brought. The answer to that write may
                have told of changes by others as well, and after a relist its version is the only one that comes.
        """
        going = pod.metadata.deletion_timestamp is not None
        if job is not None and not is_finished(job):
            if going:
                self._keys.expectations.deletion_observed(identity(job))
            self._keys.soon(job, "" if is_news or going else pod.metadata.resource_version)
        elif going or job is not None or controller_of(pod.metadata) is None:
            # A pod with an owner that is not in the store may have come before its Job: it waits.
            self._keys.orphaned(pod)

    def _offer(self, pod: Pod) -> None:
        """A pod that nobody controls may be one that a Job is looking for."""
        if controller_of(pod.metadata) is None and pod.metadata.deletion_timestamp is None:
            self._keys.offered(pod, self._jobs)

    def _job_of(self, pod: Pod) -> Job | None:
        return owning_job(self._jobs, pod.metadata.namespace, controller_of(pod.metadata))
