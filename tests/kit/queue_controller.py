"""A small queue controller that uses Jobs as Kueue does: quotas of pods by flavour, admission by priority, preemption.

A Job of the queue is created suspended. Its admission is one patch: the flavour's node selector and label in the pod
template, and `suspend: false`. A preempted Job is suspended; when it has no active pod, its start time is reset, its
template restored and its quota released, and it waits for any flavour again. A Job that needs fewer pods than run at a
time gives the quota of the others back (`reclaimablePods`).

Source: kueue/pkg/controller/jobs/job/job_controller.go, RunWithPodSetsInfo, Stop, ReclaimablePods, IsActive.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import kcr
from kcr.api.batch import Job, is_finished

QUEUE, PRIORITY = "example.com/queue", "example.com/priority"
# The annotation of an admitted Job, and the label of nodes and injected into pods.
FLAVOUR = "example.com/flavour"


def reclaimable_pods(job: Job) -> int:
    """Return how many of the pods that run at a time a Job needs no more."""
    parallelism = job.spec.parallelism or 0
    if parallelism <= 1 or not job.status.succeeded:
        return 0
    completions = parallelism if job.spec.completions is None else job.spec.completions
    return max(parallelism - (completions - job.status.succeeded), 0)


def needed(job: Job) -> int:
    """Return the quota that a Job uses, or would use."""
    return (job.spec.parallelism or 0) - reclaimable_pods(job)


def flavour_of(job: Job) -> str:
    """Return the flavour that a Job is admitted to; empty for none."""
    return job.metadata.annotations.get(FLAVOUR, "")


def rank(job: Job) -> tuple[int, str, str]:
    """Return the place of a Job in its queue: the most important first, then the oldest."""
    created = str(job.metadata.creation_timestamp)
    return -int(job.metadata.labels.get(PRIORITY, "0")), created, job.metadata.name


class QueueController:
    """Admits and preempts the Jobs of queues; its keys are the names of queues."""

    def __init__(self, manager: kcr.Manager, quotas: Mapping[str, int]) -> None:
        self._client = manager.client
        self._jobs = manager.store(Job)
        self._quotas = quotas

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        """Release stopped Jobs, then admit the first of those that wait, or preempt others for it."""
        jobs = [job for job in self._jobs.list() if job.metadata.labels.get(QUEUE) == key.name]
        going = sorted((job for job in jobs if not is_finished(job)), key=rank)
        for job in going:
            if flavour_of(job) and job.spec.suspend and not job.status.active:
                await self._release(job)
                return kcr.Result(requeue_after=0)
        first = next((job for job in going if job.spec.suspend and not flavour_of(job)), None)
        if first is not None:
            await self._admit(first, [job for job in going if flavour_of(job)])
        return kcr.Result()

    async def _admit(self, job: Job, admitted: Sequence[Job]) -> None:
        used = Counter(dict.fromkeys(self._quotas, 0))
        for other in admitted:
            used[flavour_of(other)] += needed(other)
        free = {name: quota - used[name] for name, quota in self._quotas.items()}
        for name in self._quotas:
            if needed(job) <= free[name]:
                await self._start(job, name)
                return
        for name in self._quotas:
            stopping = sum(needed(other) for other in admitted if flavour_of(other) == name and other.spec.suspend)
            victims, missing = list[Job](), needed(job) - free[name] - stopping
            for other in sorted(admitted, key=rank, reverse=True):
                if (
                    missing > 0
                    and flavour_of(other) == name
                    and not other.spec.suspend
                    and rank(other)[0] > rank(job)[0]
                ):
                    victims.append(other)
                    missing -= needed(other)
            if missing <= 0:
                for victim in victims:
                    await self._patch(victim, {"spec": {"suspend": True}})
                return

    async def _start(self, job: Job, flavour: str) -> None:
        template = {"metadata": {"labels": {FLAVOUR: flavour}}, "spec": {"nodeSelector": {FLAVOUR: flavour}}}
        spec = {"suspend": False, "template": template}
        await self._patch(job, {"metadata": {"annotations": {FLAVOUR: flavour}}, "spec": spec})

    async def _release(self, job: Job) -> None:
        if job.status.start_time is not None:
            job = await self._client.merge_patch(
                Job, job.key, {"metadata": _precondition(job), "status": {"startTime": None}}, subresource="status"
            )
        template = {"metadata": {"labels": {FLAVOUR: None}}, "spec": {"nodeSelector": None}}
        await self._patch(job, {"metadata": {"annotations": {FLAVOUR: None}}, "spec": {"template": template}})

    async def _patch(self, job: Job, changes: Mapping[str, Mapping[str, object]]) -> None:
        metadata = {**changes.get("metadata", {}), **_precondition(job)}
        await self._client.merge_patch(Job, job.key, {**changes, "metadata": metadata})


def _precondition(job: Job) -> dict[str, object]:
    return {"resourceVersion": job.metadata.resource_version}


def add_queue_controller(manager: kcr.Manager, quotas: Mapping[str, int]) -> None:
    """Attach a queue controller to a manager.

    Args:
        manager: The manager.
        quotas: The number of pods that may be active, by flavour, in the order of preference.
    """

    def queue_of(job: Job) -> list[kcr.Key]:
        return [kcr.Key("", queue)] if (queue := job.metadata.labels.get(QUEUE)) else []

    manager.add_controller(
        "queue", QueueController(manager, quotas), watches=[kcr.watch(Job, map_to=queue_of)], workers=1
    )
