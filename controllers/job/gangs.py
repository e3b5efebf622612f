"""The Workloads and PodGroups of Jobs whose pods are scheduled together.

The version of `scheduling.k8s.io` is chosen by discovery when the first Job is reconciled; then informers are opened.

Source: kubernetes/pkg/controller/job/job_scheduling_manager.go; job-controller §35; KEP-5547.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

from kcr.api.batch import Job
from kcr.api.conditions import find_condition
from kcr.api.core import Pod
from kcr.api.meta import Key, Resource, controller_of, is_controlled_by
from kcr.api.pods import is_terminal
from kcr.api.scheduling import PodGroup, PodGroupTemplate, Workload
from kcr.client.discovery import served_kinds
from kcr.controller import OwnWrites
from kcr.controllers.job.decisions.gang import (
    VERSIONS,
    GangVersion,
    gang_size,
    is_grouped,
    is_made_from,
    is_new,
    parent_of,
    pod_group_of,
    policy_of,
    refers_to,
    state_text,
    template_of,
    workload_of,
)
from kcr.controllers.job.decisions.lifecycle import SUSPENDED
from kcr.controllers.job.decisions.plan import Snapshot
from kcr.errors import AlreadyExistsError, KcrError, NotFoundError
from kcr.events import EventRecorder
from kcr.informer import Handler, Store, Trigger
from kcr.manager import Manager
from kcr.workqueue import WorkQueue

R = TypeVar("R", bound=Resource)


class _Served(NamedTuple):
    """The version that the server has, and the stores of its objects."""

    version: GangVersion
    workloads: Store[Workload]
    groups: Store[PodGroup]


class Gangs(Handler[PodGroup]):
    """The groups of Jobs whose pods are scheduled together."""

    def __init__(self, manager: Manager, queue: WorkQueue[Key], own_writes: OwnWrites, recorder: EventRecorder) -> None:
        """Take the parts of the controller; nothing is read before the first Job."""
        self._manager, self._client = manager, manager.client
        self._queue, self._own_writes, self._recorder = queue, own_writes, recorder
        self._served: _Served | None = None
        self._opening = asyncio.Lock()

    def on_delete(self, obj: PodGroup, final_state_unknown: bool) -> None:
        """Enqueue the Job of a deleted group: its next pods may have waited for that."""
        owner = controller_of(obj.metadata)
        if owner is not None and owner.kind == Job.resource.kind:
            self._queue.add(Key(obj.metadata.namespace, owner.name), *Trigger.deleted(obj))

    async def group_of(self, seen: Snapshot) -> str | None:
        """Return the name of the PodGroup that new pods are to join; empty for none, None while they have to wait.

        Where the user chooses the policy, the group of a suspended Job is deleted with its pods, so that the scheduler
        places the next ones without regard to them.

        Raises:
            KcrError: The group could not be made, and pods without it must not be.
        """
        job, served = seen.job, await self._open()
        if not is_grouped(job, served.version):
            return ""
        workload = await self._workload(seen, served)
        template = template_of(workload, job, served.version) if workload is not None else None
        if workload is None or template is None:
            return ""
        if job.spec.suspend and served.version.is_explicit:
            await self._drop(job, workload, served)
            return ""
        group = await self._group(seen, workload, template, served)
        if group is None or not is_controlled_by(group, job):
            return ""
        if group.metadata.deletion_timestamp is not None:
            return None
        if served.version.is_explicit:
            await self._resize(job, workload, template, group, served)
        return group.metadata.name

    def text(self, job: Job, pods: Sequence[Pod]) -> str:
        """Return the state of a Job's gang, from the stores; empty for none, or one that is scheduled."""
        groups = self._served.groups.list(job.metadata.namespace) if self._served is not None else ()
        return next((state_text(one, pods) for one in groups if is_controlled_by(one, job)), "")

    async def _open(self) -> _Served:
        async with self._opening:
            if self._served is None:
                self._served = await self._discover()
                self._manager.informer(self._served.version.group).add_handler(self)
            return self._served

    async def _discover(self) -> _Served:
        for version in VERSIONS:
            if "PodGroup" in await served_kinds(self._client, version.group.resource.api_version):
                informers = (self._manager.informer(version.workload), self._manager.informer(version.group))
                for informer in informers:
                    await informer.wait_synced()
                return _Served(version, informers[0].store, informers[1].store)
        names = " nor ".join(version.group.resource.api_version for version in VERSIONS)
        raise KcrError(f"the feature gate WorkloadWithJob is on, but the API server serves neither {names}")

    async def _workload(self, seen: Snapshot, served: _Served) -> Workload | None:
        job = seen.job
        found = [one for one in served.workloads.list(job.metadata.namespace) if refers_to(one, job, served.version)]
        if found or parent_of(job, served.version) is not None:
            return found[0] if len(found) == 1 else None
        if not is_new(job, has_pods=bool(seen.pods)):
            return None
        made, is_fresh = await self._ensure(job, workload_of(job, served.version), served.workloads)
        if is_fresh:
            message = f"Created Workload {made.metadata.name} for Job {job.metadata.name}"
            self._recorder.event(job, "Normal", "WorkloadCreated", message)
        return made

    async def _group(
        self, seen: Snapshot, workload: Workload, template: PodGroupTemplate, served: _Served
    ) -> PodGroup | None:
        job, has_parent = seen.job, parent_of(seen.job, served.version) is not None
        found = [one for one in served.groups.list(job.metadata.namespace) if is_made_from(one, workload)]
        if has_parent:
            # The Jobs of a parent have a group each.
            found = [one for one in found if is_controlled_by(one, job)]
        if found:
            return found[0] if len(found) == 1 else None
        # Pods that have none keep none: a group of its own would hold back the others.
        if served.version.is_explicit and not all(map(is_terminal, seen.pods)):
            return None
        # A Workload that came after the Job has begun changes nothing.
        was_suspended = find_condition(job.status.conditions, SUSPENDED) is not None
        if has_parent and not (was_suspended or is_new(job, has_pods=bool(seen.pods))):
            return None
        return (await self._ensure(job, pod_group_of(job, workload, template, served.version), served.groups))[0]

    async def _drop(self, job: Job, workload: Workload, served: _Served) -> None:
        """Delete the group of a suspended Job; a finalizer holds it until its pods have ended."""
        for group in served.groups.list(job.metadata.namespace):
            is_present = group.metadata.deletion_timestamp is None
            if is_present and is_made_from(group, workload) and is_controlled_by(group, job):
                with suppress(NotFoundError):
                    await self._client.delete(type(group), group.key, uid=group.metadata.uid)

    async def _resize(
        self, job: Job, workload: Workload, template: PodGroupTemplate, group: PodGroup, served: _Served
    ) -> None:
        """Write a changed size of the gang to its Workload and its group; all other fields are immutable."""
        has_parent = parent_of(job, served.version) is not None
        wanted = gang_size(template.scheduling_policy if has_parent else policy_of(job, served.version))
        if wanted is None:
            return
        if gang_size(template.scheduling_policy) not in (wanted, None):
            path = "/spec/podGroupTemplates/0/schedulingPolicy/gang/minCount"
            change = [{"op": "replace", "path": path, "value": wanted}]
            changed = await self._client.json_patch(served.version.workload, workload.key, change)
            self._own_writes.wrote(job.key, served.workloads, changed)
        if gang_size(group.spec.scheduling_policy) not in (wanted, None):
            patch = {"spec": {"schedulingPolicy": {"gang": {"minCount": wanted}}}}
            self._own_writes.wrote(
                job.key, served.groups, await self._client.merge_patch(served.version.group, group.key, patch)
            )

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
