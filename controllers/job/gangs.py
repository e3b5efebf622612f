"""Finds or makes the group in which a Job's pods are scheduled."""

from typing import TypeVar

from kcr.api.batch import Job
from kcr.api.meta import Key, Resource, is_controlled_by
from kcr.api.scheduling import PodGroup, Workload
from kcr.client import Client
from kcr.controller import OwnWrites
from kcr.controllers.job.gang import is_gang, is_made_from, is_new, pod_group_of, refers_to, workload_of
from kcr.controllers.job.plan import Snapshot
from kcr.errors import AlreadyExistsError
from kcr.events import EventRecorder
from kcr.informer import Store

R = TypeVar("R", bound=Resource)


class Gangs:
    """The groups of Jobs whose pods are scheduled all or none."""

    def __init__(
        self,
        client: Client,
        workloads: Store[Workload],
        groups: Store[PodGroup],
        own_writes: OwnWrites,
        recorder: EventRecorder,
    ) -> None:
        self._client = client
        self._workloads = workloads
        self._groups = groups
        self._own_writes = own_writes
        self._recorder = recorder

    async def group_of(self, seen: Snapshot) -> str:
        """Return the name of the PodGroup that new pods are to join; empty for none.

        Raises:
            KcrError: The group could not be made, and pods without it must not be.

        Source: job-controller §35.
        """
        job = seen.job
        if not is_gang(job):
            return ""
        workload = await self._workload(seen)
        if workload is None or len(workload.spec.pod_group_templates) != 1 or not is_controlled_by(workload, job):
            return ""
        group = await self._group(job, workload)
        return group.metadata.name if group is not None and is_controlled_by(group, job) else ""

    async def _workload(self, seen: Snapshot) -> Workload | None:
        job = seen.job
        found = [one for one in self._workloads.list(job.metadata.namespace) if refers_to(one, job)]
        if found:
            return found[0] if len(found) == 1 else None
        if not is_new(job, has_pods=bool(seen.pods)):
            return None
        made, is_fresh = await self._ensure(job, workload_of(job), self._workloads)
        if is_fresh:
            message = f"Created Workload {made.metadata.name} for Job {job.metadata.name}"
            self._recorder.event(job, "Normal", "WorkloadCreated", message)
        return made

    async def _group(self, job: Job, workload: Workload) -> PodGroup | None:
        found = [one for one in self._groups.list(job.metadata.namespace) if is_made_from(one, workload)]
        if found:
            return found[0] if len(found) == 1 else None
        return (await self._ensure(job, pod_group_of(job, workload), self._groups))[0]

    async def _ensure(self, job: Job, wanted: R, store: Store[R]) -> tuple[R, bool]:
        """Create an object, or read the one that has its name; return it, and whether it is new.

        Its name is always the same, so that a crash or a lost reply makes no second one.
        """
        try:
            there, is_fresh = await self._client.create(wanted), True
        except AlreadyExistsError:
            key = Key(job.metadata.namespace, wanted.metadata.name)
            there, is_fresh = await self._client.get(type(wanted), key), False
        # The next pass over the Job has to see it.
        self._own_writes.wrote(job.key, store, there)
        return there, is_fresh
