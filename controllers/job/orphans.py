"""Pods whose Job is gone or has ended: they must lose the tracking finalizer, or they would stay for ever."""

import contextlib
from collections.abc import Callable

from kcr.api.batch import Job, is_finished
from kcr.api.core import Pod
from kcr.api.meta import Key, OwnerReference, controller_of
from kcr.client import Client
from kcr.controller import Result
from kcr.controllers.job.actions import UNTRACK
from kcr.controllers.job.pods import is_tracked
from kcr.errors import NotFoundError
from kcr.informer import Store


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

    def __init__(self, client: Client, jobs: Store[Job], pods: Store[Pod], is_ours: Callable[[Job], bool]) -> None:
        self._client = client
        self._jobs = jobs
        self._pods = pods
        self._is_ours = is_ours

    async def reconcile(self, key: Key) -> Result:
        """Look at one pod; most have an owner that looks after them.

        Source: kubernetes/pkg/controller/job/job_controller.go, handleOrphanPod.
        """
        pod = self._pods.get(key)
        if pod is None or not is_tracked(pod) or self._is_looked_after(pod):
            return Result()
        # As it was seen: a Job may be adopting it, and would never count it without the finalizer.
        require_version = {"resourceVersion": pod.metadata.resource_version}
        with contextlib.suppress(NotFoundError):
            await self._client.strategic_patch(Pod, key, {"metadata": {**UNTRACK["metadata"], **require_version}})
        return Result()

    def _is_looked_after(self, pod: Pod) -> bool:
        owner = controller_of(pod.metadata)
        if owner is None:
            return False
        if (owner.kind, owner.api_version) != (Job.resource.kind, Job.resource.api_version):
            return True
        job = owning_job(self._jobs, pod.metadata.namespace, owner)
        return job is not None and (not self._is_ours(job) or not is_finished(job))
