"""Reconciles one Job: observe, claim, decide, act, compute and write the status, untrack, finalize and write it."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from msgspec.structs import replace

from kcr.api.batch import FAILED, Job, JobStatus, is_finished
from kcr.api.conditions import find_condition
from kcr.api.core import Pod
from kcr.api.explanation import Code, Explanation
from kcr.api.meta import Key, is_controlled_by
from kcr.clock import Clock
from kcr.controller import Result
from kcr.controllers.job.actions import Actions, FailedPodHistory
from kcr.controllers.job.decisions.decide import decide
from kcr.controllers.job.decisions.directives import directives_of, own_limits
from kcr.controllers.job.decisions.explain import Evidence, explain
from kcr.controllers.job.decisions.failures import concerns, has_fatal_rule
from kcr.controllers.job.decisions.lifecycle import is_being_deleted, is_ending, is_ours, time_to_deadline
from kcr.controllers.job.decisions.plan import (
    Hold,
    Limits,
    Outcome,
    Plan,
    ScaleDown,
    ScaleUp,
    Snapshot,
    Terminate,
    Work,
)
from kcr.controllers.job.decisions.pods import ORPHANS, UNSETTLED, UNTRACKED_FAILURES
from kcr.controllers.job.decisions.status import compute_status, finalize_status, interim_status, is_start
from kcr.controllers.job.explanation import DigestEvents, own_evidence
from kcr.controllers.job.memory import JobState, Memory
from kcr.controllers.job.metrics import JobMetrics, Sync, action_of, creation_reason
from kcr.errors import KcrError
from kcr.informer import Store
from kcr.workqueue import WorkQueue

# While so many Jobs wait for a worker, the status of one that has just started is put off for so long at most.
BACKLOG, START_SECONDS = 10, 0.5


@dataclass(frozen=True, kw_only=True)
class JobReconciler:
    """Reconciles Jobs: creates and deletes their pods, and writes their status.

    Attributes:
        jobs: The store of Jobs.
        pods: The store of pods, with the indexes `UNSETTLED`, `UNTRACKED_FAILURES` and `ORPHANS`.
        memory: The memory of each Job, its own writes included.
        actions: The requests to the API server.
        queue: The controller's own.
        clock: Wall time.
        limits: The tunables of a decision.
        metrics: The counters.
        history: Deletes surplus failed pods.
        digests: Records the causes when a Job fails; None for no such event.
    """

    jobs: Store[Job]
    pods: Store[Pod]
    memory: Memory
    actions: Actions
    queue: WorkQueue[Key]
    clock: Clock
    limits: Limits
    metrics: JobMetrics
    history: FailedPodHistory
    digests: DigestEvents | None = None

    async def reconcile(self, key: Key) -> Result:
        """Bring one Job a step further; level-triggered and idempotent."""
        job = self.jobs.get(key)
        if job is None or is_finished(job):
            self.memory.forget(key)
            return Result()
        if not is_ours(job, take_over=self.limits.take_over):
            return Result()
        # All that is remembered belongs to this uid; that of an earlier Job of the same name is dropped here.
        state, own_writes = self.memory.of(job), self.memory.own_writes
        if job.spec.completion_mode not in (None, "NonIndexed", "Indexed"):
            message = "Skipped Job sync because completion mode is unknown"
            self.actions.event(job, "Warning", "UnknownCompletionMode", message)
            return Result()
        if own_writes.must_verify(job, self.jobs):
            # A pod that was counted, and was deleted since, would be created once more.
            await self.actions.verify(job)
            state.knows_status = False
            return Result(requeue_after=timedelta())
        self._confirm(job)
        # Every write below is noted in `own_writes`: the next reconcile waits until the stores show it.
        with self.metrics.sync(job) as sync:
            try:
                if not own_writes.of(job).creates:
                    return await self._sync(job, state, sync)
                return await self._resolve(job, state, sync)
            finally:
                self.memory.end_pass(state, key)

    async def _resolve(self, job: Job, state: JobState, sync: Sync) -> Result:
        try:
            self._count(job, await self.actions.resolve(job, wanted=self._wants_pods(job)))
            # That took time: earlier reads are no longer the present.
            return Result(requeue_after=timedelta())
        except KcrError:
            # Finished pods are counted all the same.
            await self._sync(job, state, sync)
            raise

    def release(self, key: Key) -> None:
        """Drop the memory of a Job that another replica reconciles from now on."""
        self.memory.forget(key)

    def _confirm(self, job: Job) -> None:
        """Confirm creates without an answer whose pod the store shows, before anything is counted by the store.

        Sent again, the create of a pod that was created, counted and deleted meanwhile would make a surplus pod.
        """
        outcome = self.actions.confirm(job)
        if outcome.created:
            self._count(job, outcome)

    def _count(self, job: Job, outcome: Outcome) -> None:
        reason = creation_reason(job, job.status.failed, job.status.terminating or 0)
        self.metrics.created(reason, outcome)

    def _wants_pods(self, job: Job) -> bool:
        left = time_to_deadline(job, self.clock.now())
        return not job.spec.suspend and not is_being_deleted(job) and (left is None or left > timedelta())

    async def _sync(self, job: Job, state: JobState, sync: Sync) -> Result:
        seen = await self._claim(await self._refresh_pods_if_stale(self._observe(job, state), state))
        group = await self.actions.group_of(seen)
        self._report_faults(job, state)
        plan = decide(seen)
        sync.action = action_of(job, plan)
        # At once: whether the status write below succeeds or its reply is lost, these failures have happened.
        state.backoff = plan.backoff
        # Before the first write: one that fails must not cost the Job its deadline.
        if plan.requeue_after:
            self.queue.add_after(job.key, plan.requeue_after.total_seconds())
        # The order of the writes is a safety property, see `decisions.status`: the interim condition is on record
        # before any pod is deleted for it, uncounted pods are listed before any finalizer is removed, the counters move
        # after that, and the terminal condition comes last.
        interim = interim_status(seen, plan)
        recorded = job if interim is None else await self._write_status(job, interim, state)
        outcome = await self._act(job, plan.work, group)
        state.note_creates(outcome, seen.now)
        self.memory.fleet.note(seen, plan, outcome)
        self.metrics.created(creation_reason(job, plan.counts.failed, plan.counts.terminating), outcome)
        update = compute_status(seen, plan, outcome)
        if outcome.error is None and not update.requeue and self._puts_off(job, update.status, state):
            if not isinstance(plan.work, Hold):
                self.memory.batching.spend(job.key)
            return Result()
        recorded = await self._write_status(recorded, update.status, state)
        for action in update.handled:
            self.metrics.handled(action).inc()
        for reason, message in update.announcements:
            self.actions.event(recorded, "Normal", reason, message)
        released = await self.actions.untrack(job, update.untrack, require_version=update.require_version)
        # One that is adopted again counts again.
        state.backoff = plan.backoff._replace(counted=plan.backoff.counted - released.untracked)
        pruned = await self.history.prune(job, (p for p in update.untrack if p.metadata.uid in released.untracked))
        final = finalize_status(update, recorded, released.untracked, self.clock.now())
        closed = await self._write_status(recorded, final, state)
        if closed is not job or update.untrack or not isinstance(plan.work, Hold):
            # Only a pass that wrote something costs a token.
            self.memory.batching.spend(job.key)
        self._measure(plan, released.untracked, state)
        if is_finished(closed):
            self._finish(closed, state)
        if (first := outcome.error or released.error or pruned) is not None:
            # Failed requests come again with the rest, and later each time.
            raise first
        if update.requeue and not is_finished(closed):
            self.memory.batching.enqueue(job.key, self.queue.priority(job.key))
        return Result()

    def _puts_off(self, job: Job, status: JobStatus, state: JobState) -> bool:
        """Return whether a status is put off that says only that the Job has started.

        While many Jobs wait for a worker, the first count of pods that end soon is written with the start: a request
        less for each of them. What users see changes within a second: the next pass comes before those of other Jobs.
        """
        if not is_start(job.status, status):
            return False
        now, key = asyncio.get_running_loop().time(), job.key
        if state.start_due is None:
            if len(self.queue) < BACKLOG:
                return False
            state.started, state.start_due = status.start_time, now + START_SECONDS
        if now >= state.start_due:
            return False
        self.queue.add_after(key, state.start_due - now, self.queue.priority(key) + 1)
        return True

    def _report_faults(self, job: Job, state: JobState) -> None:
        """Record one event for each annotation that cannot be read, and again only when its value has changed."""
        faults = directives_of(job).faults
        for fault in faults:
            if fault not in state.faults:
                self.actions.event(job, "Warning", "InvalidAnnotation", fault)
        state.faults = faults

    def _observe(self, job: Job, state: JobState) -> Snapshot:
        """Read everything at one moment; nothing may come between."""
        self._confirm(job)
        return self._snapshot(job, state)

    async def explain(self, key: Key) -> Explanation:
        """Return why a Job is where it is, from this controller's own store and memory; nothing is written."""
        job = self.jobs.get(key)
        if job is None:
            return Explanation(Code.WAITING, "is not in the store of this controller")
        state = self.memory.peek(job)
        return explain(self._snapshot(job, state), self._evidence(job, state))

    def _evidence(self, job: Job, state: JobState) -> Evidence:
        # No index: it would stay.
        near = (pod for pod in self.pods.snapshot() if pod.metadata.namespace == job.metadata.namespace)
        pods = (pod for pod in near if is_controlled_by(pod, job))
        own = tuple(pods)
        known = own_evidence(state, self.memory.own_writes, job, own, self.clock.now())
        return known._replace(gang=self.actions.gang_text(job, own))

    def _snapshot(self, job: Job, state: JobState) -> Snapshot:
        own = self.memory.own_writes.peek(job)
        return Snapshot(
            job=job,
            pods=self._pods_of(job),
            untracked=own.released,
            # Of a Job that ends all pods are deleted: there is no next one to choose.
            expectations_met=not own.creates and (is_ending(job) or not own.deleted),
            backoff=state.backoff,
            limits=own_limits(job, self.limits),
            now=self.clock.now(),
            started=state.started,
        )

    def _pods_of(self, job: Job) -> tuple[Pod, ...]:
        """Return the pods that concern the Job; others are read only where one of them may fail it."""
        unsettled = self.pods.by_index(UNSETTLED, job.metadata.uid)
        if not has_fatal_rule(job):
            return unsettled
        known = {pod.metadata.uid for pod in unsettled}
        failed = self.pods.by_index(UNTRACKED_FAILURES, job.metadata.uid)
        return (*unsettled, *(pod for pod in failed if pod.metadata.uid not in known and concerns(job, pod)))

    async def _refresh_pods_if_stale(self, seen: Snapshot, state: JobState) -> Snapshot:
        """List the pods live, if the store may be older than a status that another client has written."""
        is_ahead = state.is_ahead(seen.job, self.pods.version_of_dependents(seen.job))
        if state.sees_concurrent_controller:
            state.concurrent_seen_at = seen.now
            self.memory.warn_of_concurrent_controller(seen.job, asyncio.get_running_loop().time())
        # Counted by a store that is older than the status, a pod would be counted twice.
        return replace(seen, pods=await self.actions.list_pods(seen.job)) if is_ahead else seen

    async def _claim(self, seen: Snapshot) -> Snapshot:
        """Release pods that the selector no longer fits, and adopt those without a controller that it fits.

        A Job that is being deleted does neither, and releases all pods that are its own; upstream forgets those that
        its selector does not fit, and they would block its deletion.

        Raises:
            KcrError: One of them could not be; nothing is counted before all are.

        Source: kubernetes/pkg/controller/job/job_controller.go, getPodsForJob.
        """
        # The garbage collector deletes its pods; adopted ones would be deleted with them.
        if is_being_deleted(seen.job):
            return seen
        orphans = self.pods.by_index(ORPHANS, seen.job.metadata.namespace)
        return replace(seen, pods=await self.actions.claim(seen.job, (*seen.pods, *orphans)))

    async def _act(self, job: Job, work: Work, group: str | None) -> Outcome:
        match work:
            case ScaleUp(members):
                # While the group of its earlier pods is terminating; the end of that group enqueues the Job.
                return Outcome() if group is None else await self.actions.create(job, members, group)
            case ScaleDown(pods):
                return await self.actions.remove(job, pods)
            case Terminate(pods):
                return await self.actions.delete(job, pods)
            case Hold():
                return Outcome()

    async def _write_status(self, job: Job, status: JobStatus, state: JobState) -> Job:
        written = await self.actions.write_status(job, status)
        if written is not job:
            state.wrote(written)
            self.metrics.recorded(job.status, written)
        return written

    def _measure(self, plan: Plan, untracked: frozenset[str], state: JobState) -> None:
        """Record how long ago the pods ended that are counted now: those that lost their finalizer in this pass."""
        ended = (*plan.counts.newly_succeeded, *plan.counts.newly_failed)
        last = self.memory.fleet.counted((pod for pod in ended if pod.metadata.uid in untracked), self.clock.now())
        if last is not None and (state.last_end is None or last > state.last_end):
            state.last_end = last

    def _finish(self, job: Job, state: JobState) -> None:
        """Record events and metrics of the end, once the terminal condition is written."""
        self.metrics.finished(job)
        self.memory.fleet.forget(job.key)
        self.queue.cancel_after(job.key)
        if state.last_end is not None:
            self.memory.fleet.finished(state.last_end, self.clock.now())
        failed = find_condition(job.status.conditions, FAILED)
        if failed is not None and failed.status == "True":
            self.actions.event(job, "Warning", failed.reason, failed.message)
            if self.digests is not None:
                self.digests.record(job)
            return
        completions = job.spec.completions
        if completions is not None and job.status.succeeded > completions:
            message = "Too many succeeded pods running after completion count reached"
            self.actions.event(job, "Warning", "TooManySucceededPods", message)
        self.actions.event(job, "Normal", "Completed", "Job completed")
