"""One pass over one CronJob: recall, clear away, confirm, decide, act, record."""

from collections.abc import Sequence
from datetime import tzinfo

import msgspec
from msgspec.structs import replace

from controllers.cronjob.actions import Actions
from controllers.cronjob.active import without
from controllers.cronjob.decide import decide, look_again, settle
from controllers.cronjob.doubts import absent, forgotten, recalled, unlisted
from controllers.cronjob.history import surplus
from controllers.cronjob.jobs import BY_CONTROLLER, is_own
from controllers.cronjob.memory import Memory, Remembered
from controllers.cronjob.plan import Facts, Plan, Rest, Start
from kcr.api.batch import CronJob, CronJobStatus, Job
from kcr.api.core import ObjectReference
from kcr.api.meta import Key
from kcr.client import Client
from kcr.clock import Clock
from kcr.controller import Parking, Result
from kcr.errors import KcrError, NotFoundError
from kcr.events import EventRecorder
from kcr.informer import Store


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """What the reconciler works with.

    Attributes:
        client: Talks to the server.
        crons: The store of CronJobs.
        jobs: The store of Jobs, with the index `BY_CONTROLLER`.
        memory: What is remembered of each CronJob.
        parking: Holds CronJobs back until the stores show what was written for them.
        actions: The writes to Jobs.
        recorder: Events about CronJobs.
        clock: Wall time.
        local: The zone of schedules that name none.
    """

    client: Client
    crons: Store[CronJob]
    jobs: Store[Job]
    memory: Memory
    parking: Parking
    actions: Actions
    recorder: EventRecorder
    clock: Clock
    local: tzinfo


class CronJobReconciler:
    """Starts what is due, and keeps the books of what was started."""

    def __init__(self, services: Services) -> None:
        self._use = services

    async def reconcile(self, key: Key) -> Result:
        """Bring one CronJob up to date.

        Source: kubernetes/pkg/controller/cronjob/cronjob_controllerv2.go, sync.
        """
        cron = self._use.crons.get(key)
        if cron is None:
            self._use.memory.forget(key)
            self._use.parking.forget(key)
            return Result()
        mine = self._use.memory.of(cron)
        jobs = mine.left(cron, await self._jobs_of(cron, mine))
        # First of all: what the status forgot must be on record before anything is judged or deleted by it.
        cron = await self._record(cron, recalled(cron.status, forgotten(cron, jobs)))
        mine.deleted |= await self._use.actions.clear_away(cron, surplus(cron, jobs))
        try:
            cron, seen = await self._confirm(cron, jobs, mine)
        except KcrError:
            await self._record(cron, without(cron.status, mine.deleted))
            raise
        return await self._carry_out(cron, seen, decide(seen), mine)

    async def _jobs_of(self, cron: CronJob, mine: Remembered) -> tuple[Job, ...]:
        """Return the CronJob's Jobs from the store, and with them one that may be there unseen."""
        doubtful = await self._resolve(cron, mine.doubtful) if mine.doubtful else None
        mine.doubtful = ""
        jobs = self._use.jobs.by_index(BY_CONTROLLER, str(cron.key))
        if doubtful is None or any(job.metadata.uid == doubtful.metadata.uid for job in jobs):
            return jobs
        self._use.parking.wrote(cron.key, self._use.jobs, doubtful.metadata.resource_version)
        return (*jobs, doubtful)

    async def _resolve(self, cron: CronJob, name: str) -> Job | None:
        """Return the Job whose creation nobody answered, or None when it is not there.

        Raises:
            KcrError: There is still no answer; the reconcile is to be tried again.
        """
        try:
            job = await self._use.client.get(Job, name, cron.metadata.namespace)
        except NotFoundError:
            return None
        return job if is_own(job, cron) else None

    async def _confirm(self, cron: CronJob, jobs: Sequence[Job], mine: Remembered) -> tuple[CronJob, Facts]:
        """Ask the server about everything in doubt; return the CronJob as it is there, and what is known now.

        Raises:
            KcrError: It gave no answer; nothing can be decided.
        """
        shown = _shown(cron, mine)
        suspects = unlisted(shown, jobs)
        if suspects:
            fresh = await self._use.client.get(CronJob, cron.metadata.name, cron.metadata.namespace)
            if len(unlisted(fresh, suspects)) < len(suspects):
                # The store is behind, so go on with what is there, and write to that.
                cron, shown = fresh, _shown(fresh, mine)
                suspects = unlisted(fresh, suspects)
        missing = [listed.uid for listed in absent(shown, jobs) if await self._is_gone(cron, listed)]
        return cron, Facts(
            cron=shown,
            jobs=tuple(jobs),
            unexpected=suspects,
            missing=frozenset(missing),
            local=self._use.local,
            now=self._use.clock.now(),
        )

    async def _is_gone(self, cron: CronJob, listed: ObjectReference) -> bool:
        try:
            job = await self._use.client.get(Job, listed.name, cron.metadata.namespace)
        except NotFoundError:
            return True
        # Another Job of its name is no more than that. Upstream keeps it on the list for as long as it is there.
        return job.metadata.uid != listed.uid

    async def _carry_out(self, cron: CronJob, seen: Facts, plan: Plan, mine: Remembered) -> Result:
        for told in plan.announcements:
            self._use.recorder.event(cron, told.type, told.reason, told.message)
        match plan.work:
            case Rest(requeue_after):
                await self._record(cron, plan.status)
                return Result(requeue_after)
            case Start() as start:
                outcome = await self._use.actions.start(cron, start)
                mine.deleted |= outcome.deleted
                if outcome.job is not None:
                    self._use.parking.wrote(cron.key, self._use.jobs, outcome.job.metadata.resource_version)
                if outcome.is_doubtful:
                    mine.doubtful = start.job.metadata.name
                status = settle(plan.status, start, outcome)
                await self._record(cron, status)
                if outcome.error is not None:
                    raise outcome.error
                return Result(look_again(seen, status))

    async def _record(self, cron: CronJob, status: CronJobStatus) -> CronJob:
        """Write the status if it differs, and return the CronJob to go on with."""
        written = await self._use.client.patch(cron, replace(cron, status=status), subresource="status")
        if written is not cron:
            self._use.parking.wrote(cron.key, self._use.crons, written.metadata.resource_version)
        return written


def _shown(cron: CronJob, mine: Remembered) -> CronJob:
    """Return the CronJob without the Jobs in its list that were deleted."""
    status = without(cron.status, mine.deleted)
    return cron if status is cron.status else replace(cron, status=status)
