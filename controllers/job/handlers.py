"""Event handlers of Jobs and pods, the keys that they enqueue, and the reconciler of pods that no Job counts."""

import contextlib
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from kcr.api.batch import Job, is_finished
from kcr.api.core import Pod
from kcr.api.meta import Key, OwnerReference, controller_of
from kcr.client import Client
from kcr.controller import Result
from kcr.controllers.job.actions import UNTRACK
from kcr.controllers.job.decisions.pods import UNSETTLED, is_tracked, selects
from kcr.controllers.job.memory import Memory
from kcr.errors import KcrError, NotFoundError
from kcr.informer import Handler, Store, Trigger
from kcr.workqueue import WorkQueue

# When a pod is reconciled again whose Job the server has and the store does not show.
_UNSEEN_JOB = timedelta(seconds=5)


class Keys(NamedTuple):
    """Enqueues Jobs and orphaned pods; shared by the handlers of both kinds."""

    queue: WorkQueue[Key]
    orphans: WorkQueue[Key]
    memory: Memory
    is_ours: Callable[[Job], bool]

    def enqueue_batched(self, job: Job, version: str, trigger: Trigger) -> None:
        """Enqueue a Job when its token bucket allows, unless the event is the echo of our own write.

        Args:
            job: The Job.
            version: The version of the object that the event shows; empty when the event is no echo for sure.
            trigger: The event.
        """
        if self.is_ours(job):
            enqueue = partial(self.memory.batching.enqueue, job.key, *trigger)
            # Before the token bucket: the echo of our own write needs no reconcile at all.
            self.memory.own_writes.enqueue_unless_echo(job.key, version, enqueue)

    def enqueue_orphan(self, pod: Pod, trigger: Trigger) -> None:
        """Enqueue a pod that no Job counts, if it has the tracking finalizer."""
        if is_tracked(pod):
            self.orphans.add(pod.key, *trigger)

    def enqueue_matching_jobs(self, pod: Pod, jobs: Store[Job], trigger: Trigger) -> None:
        """Enqueue the Jobs whose selector matches a pod: one of them may adopt it."""
        for job in jobs.list(pod.metadata.namespace) if pod.metadata.labels else ():
            if _selects(job, pod):
                self.enqueue_batched(job, "", trigger)

    def forget_finished(self, job: Job, pods: Store[Pod], trigger: Trigger) -> None:
        """Drop the state of a Job that is finished or deleted, and enqueue its pods that still have the finalizer.

        Pods without a controller were enqueued when they lost it.
        """
        if self.is_ours(job):
            released = self.memory.own_writes.of(job).released
            for pod in pods.by_index(UNSETTLED, job.metadata.uid):
                if pod.metadata.uid not in released:
                    self.enqueue_orphan(pod, trigger)
        self.memory.forget(job.key)


def _selects(job: Job, pod: Pod) -> bool:
    """Return whether the Job's selector matches; a reconcile of the Job reports a malformed one."""
    with contextlib.suppress(KcrError):
        return selects(job, pod)
    return False


class JobEvents(Handler[Job]):
    """Handles the events of Jobs.

    Source: kubernetes/pkg/controller/job/job_controller.go, addJob, updateJob, deleteJob.
    """

    def __init__(self, keys: Keys, pods: Store[Pod]) -> None:
        self._keys = keys
        self._pods = pods

    def on_add(self, obj: Job, initial: bool) -> None:
        """Enqueue a new Job, without the backoff of an older one of its name."""
        trigger = Trigger.added(obj, initial)
        # Another Job may have had the name, and have failed often.
        self._keys.queue.forget(obj.key)
        self._keys.queue.add(obj.key, *trigger)
        if is_finished(obj):
            self._keys.forget_finished(obj, self._pods, trigger)

    def on_update(self, old: Job, new: Job) -> None:
        """Enqueue a changed Job: after a change of the spec at once, of the status when its token bucket allows."""
        trigger = Trigger.updated(old, new)
        if is_finished(new):
            self._keys.forget_finished(new, self._pods, trigger)
        # A user's change does not wait for a token; our own writes never change the spec.
        elif old.metadata.generation != new.metadata.generation:
            self._keys.queue.add(new.key, *trigger)
        else:
            self._keys.enqueue_batched(new, new.metadata.resource_version, trigger)

    def on_delete(self, obj: Job, final_state_unknown: bool) -> None:
        """Enqueue a deleted Job, and drop its state."""
        trigger = Trigger.deleted(obj)
        self._keys.forget_finished(obj, self._pods, trigger)
        self._keys.queue.add(obj.key, *trigger)


class PodEvents(Handler[Pod]):
    """Handles the events of pods.

    Source: kubernetes/pkg/controller/job/job_controller.go, addPod, updatePod, deletePod.
    """

    def __init__(self, keys: Keys, jobs: Store[Job]) -> None:
        self._keys = keys
        self._jobs = jobs

    def on_add(self, obj: Pod, initial: bool) -> None:
        """Enqueue the pod's Job."""
        job, trigger = self._job_of(obj), Trigger.added(obj, initial)
        self._enqueue_owner(obj, job, trigger, is_news=obj.status.phase not in ("", "Pending"))
        # All Jobs are reconciled when the controller starts.
        if not initial:
            self._enqueue_matching(obj, trigger)

    def on_update(self, old: Pod, new: Pod) -> None:
        """Enqueue the Jobs that control the pod, or did."""
        if new.metadata.resource_version == old.metadata.resource_version:
            return
        before, job, trigger = self._job_of(old), self._job_of(new), Trigger.updated(old, new)
        if before is not None and before is not job and not is_finished(before):
            # Another client took the pod away from its Job, which may want another one.
            self._keys.enqueue_batched(before, "", trigger)
        self._enqueue_owner(new, job, trigger, is_news=new.status != old.status)
        if new.metadata.labels != old.metadata.labels or controller_of(old.metadata) is not None:
            self._enqueue_matching(new, trigger)

    def on_delete(self, obj: Pod, final_state_unknown: bool) -> None:
        """Enqueue the pod's Job."""
        job = self._job_of(obj)
        if job is not None and not is_finished(job):
            self._keys.enqueue_batched(job, "", Trigger.deleted(obj))

    def _enqueue_owner(self, pod: Pod, job: Job | None, trigger: Trigger, *, is_news: bool) -> None:
        """Enqueue the pod's Job.

        Args:
            pod: The pod as it is now.
            job: Its Job, if that is in the store.
            trigger: The event.
            is_news: Whether the event shows more than our own write could have brought. The answer to that write may
                have contained changes by others as well, and after a relist its version is the only one that comes.
        """
        is_terminating = pod.metadata.deletion_timestamp is not None
        if job is not None and not is_finished(job):
            self._keys.enqueue_batched(job, "" if is_news or is_terminating else pod.metadata.resource_version, trigger)
        elif is_terminating or job is not None or controller_of(pod.metadata) is None:
            # A pod with an owner that is not in the store may have come before its Job: it waits.
            self._keys.enqueue_orphan(pod, trigger)

    def _enqueue_matching(self, pod: Pod, trigger: Trigger) -> None:
        if controller_of(pod.metadata) is None and pod.metadata.deletion_timestamp is None:
            self._keys.enqueue_matching_jobs(pod, self._jobs, trigger)

    def _job_of(self, pod: Pod) -> Job | None:
        return owning_job(self._jobs, pod.metadata.namespace, controller_of(pod.metadata))


def owning_job(jobs: Store[Job], namespace: str, owner: OwnerReference | None) -> Job | None:
    """Return the Job that a controller reference means, or None when the store has no such Job.

    Source: kubernetes/pkg/controller/job/job_controller.go, resolveControllerRef.
    """
    if owner is None or owner.kind != Job.resource.kind:
        return None
    job = jobs.get(Key(namespace, owner.name))
    return job if job is not None and job.metadata.uid == owner.uid else None


class OrphanReconciler:
    """Takes the finalizer off pods that no Job will count. Its keys are pods."""

    def __init__(
        self,
        client: Client,
        jobs: Store[Job],
        pods: Store[Pod],
        is_ours: Callable[[Job], bool],
        since: Callable[[], int] = lambda: 0,
        *,
        sees_all: bool = True,
    ) -> None:
        """Make one.

        Args:
            client: Removes the finalizers.
            jobs: The Jobs.
            pods: The pods.
            is_ours: Whether the controller reconciles a Job.
            since: Returns the version with which this process leads, 0 without election.
            sees_all: Whether the store has all Jobs; under sharding it lacks those of other replicas.
        """
        self._client = client
        self._jobs = jobs
        self._pods = pods
        self._is_ours = is_ours
        self._since = since
        self._sees_all = sees_all

    async def reconcile(self, key: Key) -> Result:
        """Remove the finalizer of a pod that no Job counts; most pods have a Job that does.

        Source: kubernetes/pkg/controller/job/job_controller.go, orphanWorker, syncOrphanPod and handleOrphanPod.
        """
        pod = self._pods.get(key)
        if pod is None or not is_tracked(pod) or self._is_managed(pod):
            return Result()
        may_lack_job = not self._sees_all or self._jobs.resource_version < self._since()
        if may_lack_job and await self._has_unseen_job(pod):
            # The Job may be deleted before the store shows it, and then no event enqueues the pod.
            return Result(requeue_after=_UNSEEN_JOB)
        # As it was seen: a Job may be adopting it, and would never count it without the finalizer.
        require_version = {"resourceVersion": pod.metadata.resource_version}
        with contextlib.suppress(NotFoundError):
            await self._client.strategic_patch(Pod, key, {"metadata": {**UNTRACK["metadata"], **require_version}})
        return Result()

    def _is_managed(self, pod: Pod) -> bool:
        owner = controller_of(pod.metadata)
        if owner is None:
            return False
        if (owner.kind, owner.api_version) != (Job.resource.kind, Job.resource.api_version):
            return True
        job = owning_job(self._jobs, pod.metadata.namespace, owner)
        return job is not None and self._counts_pods(job)

    async def _has_unseen_job(self, pod: Pod) -> bool:
        """Return whether the server has a Job that counts the pod, and that the store of a new leader may lack.

        Without its finalizer the pod would end uncounted. Upstream has no such care: it relies on its lease, and a new
        leader lists everything first.
        """
        owner = controller_of(pod.metadata)
        if owner is None:
            return False
        try:
            job = await self._client.get(Job, Key(pod.metadata.namespace, owner.name))
        except NotFoundError:
            return False
        return job.metadata.uid == owner.uid and self._counts_pods(job)

    def _counts_pods(self, job: Job) -> bool:
        return not self._is_ours(job) or not is_finished(job)
