"""One pass over one CronJob: restore, clear away, confirm, decide, act, record."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta, tzinfo

from msgspec.structs import replace

from kcr.api.batch import CronJob, CronJobStatus, Job
from kcr.api.core import ObjectReference
from kcr.api.explanation import Code, Explanation
from kcr.api.meta import Key
from kcr.client import Client
from kcr.clock import Clock
from kcr.controller import OwnWrites, Result
from kcr.controllers.cronjob.actions import Actions
from kcr.controllers.cronjob.decisions.decide import FUTURE_RUN, decide, next_run_delay
from kcr.controllers.cronjob.decisions.directives import directives_of
from kcr.controllers.cronjob.decisions.jobs import BY_CONTROLLER, run_of, surplus
from kcr.controllers.cronjob.decisions.plan import Facts, NoOp, Plan, Start
from kcr.controllers.cronjob.decisions.status import (
    Run,
    absent,
    forgotten,
    is_unrecorded,
    restored,
    unlisted,
    with_successes,
    without,
)
from kcr.controllers.cronjob.explanation import explain_own
from kcr.controllers.cronjob.memory import CronJobState, Memory
from kcr.controllers.cronjob.metrics import CronJobMetrics
from kcr.errors import KcrError, NotFoundError
from kcr.events import EventRecorder
from kcr.informer import Store
from kcr.workqueue import WorkQueue


@dataclass(frozen=True, kw_only=True)
class CronJobReconciler:
    """Reconciles CronJobs: starts the runs that are due, and records them in the status.

    Attributes:
        client: Talks to the server.
        crons: The store of CronJobs.
        jobs: The store of Jobs, with the index `BY_CONTROLLER`.
        memory: The memory of each CronJob.
        own_writes: The writes that were not observed yet.
        actions: The writes to Jobs.
        recorder: Events about CronJobs.
        clock: Wall time.
        local: The zone of schedules that name none.
        queue: The controller's own.
        metrics: The next runs and the missed ones.
    """

    client: Client
    crons: Store[CronJob]
    jobs: Store[Job]
    memory: Memory
    own_writes: OwnWrites
    actions: Actions
    recorder: EventRecorder
    clock: Clock
    local: tzinfo
    queue: WorkQueue[Key]
    metrics: CronJobMetrics

    async def reconcile(self, key: Key) -> Result:
        """Bring one CronJob up to date.

        Source: kubernetes/pkg/controller/cronjob/cronjob_controllerv2.go, sync.
        """
        cron = self.crons.get(key)
        if cron is None:
            self.release(key)
            self.own_writes.forget(key)
            return Result()
        state = self.memory.of(cron)
        try:
            if self.own_writes.must_verify(cron, self.crons):
                # A run that the leader before this one recorded, and whose Job is deleted since, would start again.
                await self.own_writes.verify(self.client, cron, self.crons)
                return Result(timedelta())
            return await self._sync(cron, state)
        except KcrError:
            # However long the back-off has become: the next run is due when it is due.
            left = next_run_delay(cron, self.local, self.clock.now())
            if left is not None:
                self.queue.add_after(key, left.total_seconds())
            raise

    def release(self, key: Key) -> None:
        """Drop the memory of a CronJob that another replica reconciles from now on."""
        self.memory.forget(key)
        self.metrics.forget(key)

    async def explain(self, key: Key) -> Explanation:
        """Return why a CronJob is where it is, from this controller's own store and memory; nothing is written."""
        cron = self.crons.get(key)
        if cron is None:
            return Explanation(Code.WAITING, "is not in the store of this controller")
        jobs = self.jobs.by_index(BY_CONTROLLER, str(key))
        return explain_own(cron, jobs, self.memory.peek(cron), self.own_writes.peek(cron), self.local, self.clock.now())

    async def _sync(self, cron: CronJob, state: CronJobState) -> Result:
        # First of all: started Jobs must be on record before anything is judged or deleted by the record.
        cron, jobs = await self._restore(cron, state)
        excess = surplus(cron, jobs)
        # The success of a deleted Job is no longer recorded anywhere.
        cron = await self._record(cron, with_successes(cron.status, excess))
        await self.actions.delete_surplus(cron, excess)
        cron, seen = await self._confirm(cron, jobs)
        return await self._carry_out(cron, seen, decide(seen), state)

    async def _restore(self, cron: CronJob, state: CronJobState) -> tuple[CronJob, tuple[Job, ...]]:
        """Record started Jobs; return the resulting CronJob, and its Jobs that are not deleted."""
        own = self.own_writes.of(cron)
        for key, sent in tuple(own.creates.items()):
            job = await self.actions.find(cron, key.name)
            del own.creates[key]
            if job is not None and (due := run_of(cron, sent)) is not None:
                state.started, state.is_news = Run(due, job), False
        deleted = own.deleted
        shown = self.jobs.by_index(BY_CONTROLLER, str(cron.key))
        jobs = tuple(job for job in shown if job.metadata.uid not in deleted)
        runs = forgotten(cron, jobs, self.clock.now())
        started = state.started
        # Jobs that another controller or a later run has put on record meanwhile may be over by now.
        if started is not None and is_unrecorded(cron.status, started.due):
            if all(job.metadata.uid != started.job.metadata.uid for job in jobs):
                # The store does not show it yet.
                jobs += (started.job,)
            runs = (*(run for run in runs if run.due < started.due), started)
        if state.is_news and started is not None:
            name = started.job.metadata.name
            self.recorder.event(cron, "Normal", "SuccessfulCreate", f"Created job {name}")
            state.is_news = False
        cron = await self._record(cron, without(restored(cron.status, runs), deleted))
        if started is not None:
            self.own_writes.wrote(cron.key, self.jobs, started.job)
            state.started = None
        return cron, jobs

    async def _confirm(self, cron: CronJob, jobs: Sequence[Job]) -> tuple[CronJob, Facts]:
        """Verify unconfirmed writes with the server; return the live CronJob and the results.

        Raises:
            KcrError: It gave no answer; nothing can be decided.
        """
        shown = self._without_deleted(cron)
        suspects = unlisted(shown, jobs)
        if suspects:
            fresh = await self.client.get(CronJob, cron.key)
            if len(unlisted(fresh, suspects)) < len(suspects):
                # The store is behind, so continue with the server's object, and write to that.
                cron, shown = fresh, self._without_deleted(fresh)
                suspects = unlisted(fresh, suspects)
        missing = [listed.uid for listed in absent(shown, jobs) if await self._is_gone(cron, listed)]
        return cron, Facts(
            cron=shown,
            jobs=tuple(jobs),
            unexpected=suspects,
            missing=frozenset(missing),
            local=self.local,
            now=self.clock.now(),
        )

    async def _is_gone(self, cron: CronJob, listed: ObjectReference) -> bool:
        if not listed.name:
            # The server does not check the entries of the list, and no object has an empty name.
            return True
        try:
            job = await self.client.get(Job, Key(cron.metadata.namespace, listed.name))
        except NotFoundError:
            return True
        # Another Job of its name does not count. Upstream keeps it on the list for as long as it exists.
        return job.metadata.uid != listed.uid

    async def _carry_out(self, cron: CronJob, seen: Facts, plan: Plan, state: CronJobState) -> Result:
        state.due = self.metrics.note(seen, plan, state.due)
        for event in plan.announcements:
            self.recorder.event(cron, event.type, event.reason, event.message)
            if event.reason == FUTURE_RUN:
                self.memory.warn_of_future_run(cron, asyncio.get_running_loop().time())
        self._report_once(cron, plan, state)
        match plan.work:
            case NoOp(requeue_after):
                await self._record(cron, plan.status)
                return Result(requeue_after, priority=0)
            case Start() as start:
                # So that the events above are not recorded again when the status is written for the start.
                cron = await self._record(cron, plan.status)
                outcome = await self.actions.start(cron, start)
                if outcome.job is not None:
                    state.started, state.is_news = Run(start.run, outcome.job), outcome.is_new
                    # The record can wait until all others that are due have had their turn.
                    return Result(timedelta())
                # The next pass records the Job that was deleted for it: the error brings one, or the deletion does.
                if outcome.error is not None:
                    raise outcome.error
                # A run that is due is a change, however low the priority at which the schedule was read.
                return Result(next_run_delay(seen.cron, seen.local, seen.now), priority=0)

    def _report_once(self, cron: CronJob, plan: Plan, state: CronJobState) -> None:
        """Record one event for each annotation that cannot be read, and one for a change of the clock."""
        faults = directives_of(cron).faults
        for fault in faults:
            if fault not in state.faults:
                self.recorder.event(cron, "Warning", "InvalidAnnotation", fault)
        state.faults = faults
        change = plan.clock_change
        if change is not None and change.at != state.announced:
            self.recorder.event(cron, "Warning", "ClockChange", change.text)
            state.announced = change.at

    async def _record(self, cron: CronJob, status: CronJobStatus) -> CronJob:
        """Write the status if it differs, and return the CronJob for the next write."""
        if status is cron.status:
            return cron
        written = await self.client.patch_status(cron, replace(cron, status=status))
        if written is not cron:
            self.own_writes.wrote(cron.key, self.crons, written)
        return written

    def _without_deleted(self, cron: CronJob) -> CronJob:
        status = without(cron.status, self.own_writes.of(cron).deleted)
        return cron if status is cron.status else replace(cron, status=status)
