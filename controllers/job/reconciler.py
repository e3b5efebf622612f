"""One pass over one Job: observe, claim, decide, act, settle, record, untrack, close, record."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import msgspec
from msgspec.structs import replace

from controllers.job import deadline
from controllers.job.actions import Actions
from controllers.job.adoption import selects
from controllers.job.conditions import FAILED, is_being_deleted, is_finished
from controllers.job.decide import decide
from controllers.job.gangs import Gangs
from controllers.job.indexes import ORPHANS, UNSETTLED
from controllers.job.memory import Memory, Remembered
from controllers.job.metrics import JobMetrics, Sync, action_of, creation_reason
from controllers.job.plan import (
    Hold,
    Identity,
    Ledger,
    Limits,
    Outcome,
    Plan,
    ScaleDown,
    ScaleUp,
    Snapshot,
    Terminate,
    Work,
    identity,
)
from controllers.job.pods import TRACKING_FINALIZER, is_tracked
from controllers.job.rivals import pods_now
from controllers.job.settle import close, settle
from kcr.api.batch import Job, JobStatus
from kcr.api.conditions import find
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.client import Client
from kcr.clock import Clock
from kcr.controller import Parking, Result
from kcr.dependents import claim
from kcr.errors import KcrError, ServerError, TransportError
from kcr.events import EventRecorder
from kcr.expectations import Expectations
from kcr.informer import Store


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """What the reconciler works with.

    Attributes:
        client: Talks to the server.
        jobs: The store of Jobs.
        pods: The store of pods, with the index `UNSETTLED`.
        memory: What is remembered of each Job.
        parking: Holds Jobs back until the stores show what was written for them.
        expectations: Creations and deletions not yet seen.
        actions: The writes to pods.
        gangs: The groups in which pods are scheduled all or none; None unless that is wanted.
        recorder: Events about Jobs.
        clock: Wall time.
        limits: The tunables of a decision.
        is_ours: Whether this controller looks after a Job.
        metrics: What is counted.
        wake: Puts a key into the queue, after so many seconds.
    """

    client: Client
    jobs: Store[Job]
    pods: Store[Pod]
    memory: Memory
    parking: Parking
    expectations: Expectations[Identity]
    actions: Actions
    gangs: Gangs | None
    recorder: EventRecorder
    clock: Clock
    limits: Limits
    is_ours: Callable[[Job], bool]
    metrics: JobMetrics
    wake: Callable[[Key, float], None]


class JobReconciler:
    """Brings Jobs and their pods together."""

    def __init__(self, services: Services) -> None:
        self._use = services

    async def reconcile(self, key: Key) -> Result:
        """Bring one Job a step further."""
        job = self._use.jobs.get(key)
        if job is None or is_finished(job):
            self._use.memory.forget(key)
            return Result()
        if not self._use.is_ours(job):
            return Result()
        mine = self._use.memory.of(job)
        if mine.finished:
            # The store does not show it yet.
            return Result()
        if job.spec.completion_mode not in (None, "NonIndexed", "Indexed"):
            message = "Skipped Job sync because completion mode is unknown"
            self._use.recorder.event(job, "Warning", "UnknownCompletionMode", message)
            return Result()
        if mine.unsure:
            return await self._look_up(job, mine)
        # The stores show all that we wrote, or this Job would be parked.
        mine.echoes.clear()
        if mine.doubtful and self._use.expectations.expectations_met(identity(job)):
            self._let_doubts_rest(job, mine)
        with self._use.metrics.sync(job) as sync, self._use.memory.in_use(mine, key):
            if not mine.doubtful:
                return await self._pass_over(job, mine, sync)
            try:
                return await self._resolve(job, mine)
            except KcrError:
                # What has ended is counted all the same.
                await self._pass_over(job, mine, sync)
                raise

    async def _look_up(self, job: Job, mine: Remembered) -> Result:
        """Rest until the store shows the Job as it is: a write of its status had no answer, and may have happened.

        A pod that was counted by it, and that somebody has taken away since, would be made once more.
        """
        live = await self._use.client.get(Job, job.metadata.name, job.metadata.namespace)
        self._use.parking.wrote(job.key, self._use.jobs, live.metadata.resource_version)
        mine.unsure = False
        return Result(requeue_after=timedelta())

    async def _resolve(self, job: Job, mine: Remembered) -> Result:
        """Learn what became of a creation that went without an answer."""
        outcome = await self._use.actions.resolve(job, mine.doubtful[0], wanted=self._wants_pods(job))
        self._absorb(job, mine, outcome)
        mine.doubtful.pop(0)
        self._count(job, outcome)
        # That took time: what was read before it is no longer the present.
        return Result(requeue_after=timedelta())

    def _let_doubts_rest(self, job: Job, mine: Remembered) -> None:
        """Believe what has been seen, or waited for as long as anybody waits.

        Sent again, a pod that has come and gone would be one too many: nobody expects it any more.
        """
        there = [pod.metadata.name for pod in mine.doubtful if self._use.pods.get(pod.key) is not None]
        mine.doubtful.clear()
        self._count(job, self._use.actions.seen(job, there))

    def _count(self, job: Job, outcome: Outcome) -> None:
        reason = creation_reason(job, job.status.failed, job.status.terminating or 0)
        self._use.metrics.created(reason, outcome)

    def _wants_pods(self, job: Job) -> bool:
        left = deadline.time_left(job, self._use.clock.now())
        return not job.spec.suspend and not is_being_deleted(job) and (left is None or left > timedelta())

    async def _pass_over(self, job: Job, mine: Remembered, sync: Sync) -> Result:
        seen = await self._claim(await self._caught_up(self._observe(job, mine), mine), mine)
        group = await self._use.gangs.group_of(seen) if self._use.gangs is not None else ""
        plan = decide(seen)
        sync.action = action_of(job, plan)
        # At once: whether the status write below succeeds or its reply is lost, these failures have happened.
        mine.backoff = plan.backoff
        # Before the first write: one that fails must not cost the Job its deadline.
        self._wake_after(job, plan.requeue_after)
        if isinstance(plan.work, Terminate) and seen.expectations_met:
            outcome, ledger, recorded = await self._end(seen, plan, mine)
        else:
            outcome = await self._act(job, plan.work, group)
            self._absorb(job, mine, outcome)
            self._use.metrics.created(creation_reason(job, plan.tally.failed, plan.tally.terminating), outcome)
            # What is expected may come and go unseen; then only time can tell.
            self._wake_after(job, self._use.expectations.time_left(identity(job)))
            ledger = settle(seen, plan, outcome)
            recorded = await self._record(job, ledger.status, mine)
        self._use.metrics.handled(ledger.handled)
        self._announce(recorded, ledger)
        released = await self._untrack(job, ledger, mine)
        final = close(ledger, recorded, released.untracked, self._use.clock.now())
        closed = await self._record(recorded, final, mine)
        if closed is not job or ledger.untrack or not isinstance(plan.work, Hold):
            # Only a pass that wrote something costs a token.
            mine.bucket.spend(self._now())
        if is_finished(closed):
            self._finish(closed, mine)
        if (first := outcome.error or released.error) is not None:
            # What failed comes again with the rest, and later each time.
            raise first
        if ledger.again and not is_finished(closed):
            self._use.wake(job.key, mine.bucket.delay(self._now()))
        return Result()

    async def _end(self, seen: Snapshot, plan: Plan, mine: Remembered) -> tuple[Outcome, Ledger, Job]:
        """Put the Job's end on record, and only then tell its pods to go.

        Upstream deletes first. If it dies in between, it finds pods that go, takes them for failures, and may fail a
        Job that has met its success policy, or give another reason than the one it had.
        """
        ledger = settle(seen, plan, Outcome(deleted=plan.tally.active))
        recorded = await self._record(seen.job, ledger.status, mine)
        outcome = await self._act(seen.job, plan.work, "")
        self._absorb(seen.job, mine, outcome)
        stay = {pod.metadata.uid for pod in plan.tally.active} - {pod.metadata.uid for pod in outcome.deleted}
        untrack = tuple(pod for pod in ledger.untrack if pod.metadata.uid not in stay)
        return outcome, replace(ledger, untrack=untrack), recorded

    def _wake_after(self, job: Job, left: timedelta | None) -> None:
        if left:
            self._use.wake(job.key, left.total_seconds())

    def _observe(self, job: Job, mine: Remembered) -> Snapshot:
        """Read everything at one moment; nothing may come between."""
        pods = self._use.pods.by_index(UNSETTLED, job.metadata.uid)
        # What the store shows without the finalizer need not be remembered.
        mine.untracked &= {pod.metadata.uid for pod in pods if is_tracked(pod)}
        met = self._use.expectations.expectations_met(identity(job))
        mine.held_back = not met
        return Snapshot(
            job=job,
            pods=pods,
            untracked=frozenset(mine.untracked),
            expectations_met=met,
            backoff=mine.backoff,
            limits=self._use.limits,
            now=self._use.clock.now(),
        )

    async def _caught_up(self, seen: Snapshot, mine: Remembered) -> Snapshot:
        """Look at the pods themselves, if the store may be older than what somebody else has written about them."""
        if not mine.is_ahead(seen.job, self._use.pods.resource_version):
            return seen
        return replace(seen, pods=await pods_now(self._use.client, seen.job))

    async def _claim(self, seen: Snapshot, mine: Remembered) -> Snapshot:
        """Release pods that the selector no longer fits, and adopt those without a controller that it fits.

        A Job that is being deleted does neither, and lets all go that are its own; upstream forgets those that its
        selector does not fit, and they would hold it up for ever.

        Raises:
            KcrError: One of them could not be; nothing is counted before all are.

        Source: kubernetes/pkg/controller/job/job_controller.go, getPodsForJob.
        """
        job, use = seen.job, self._use
        if is_being_deleted(job):
            return seen
        candidates = (*seen.pods, *use.pods.by_index(ORPHANS, job.metadata.namespace))
        claimed = await claim(use.client, job, candidates, lambda pod: selects(job, pod), finalizer=TRACKING_FINALIZER)
        self._absorb(job, mine, Outcome(versions=tuple(pod.metadata.resource_version for pod in claimed.adopted)))
        if claimed.errors:
            raise claimed.errors[0]
        return replace(seen, pods=claimed.mine)

    async def _act(self, job: Job, work: Work, group: str) -> Outcome:
        match work:
            case ScaleUp(members):
                return await self._use.actions.create(job, members, group)
            case ScaleDown(pods):
                return await self._use.actions.remove(job, pods)
            case Terminate(pods):
                return await self._use.actions.delete(job, pods)
            case Hold():
                return Outcome()

    async def _untrack(self, job: Job, ledger: Ledger, mine: Remembered) -> Outcome:
        """Let pods go that are on record. From now on their finalizer does not count, whatever the store shows."""
        asked = {pod.metadata.uid for pod in ledger.untrack}
        mine.untracked |= asked
        outcome = await self._use.actions.untrack(ledger.untrack, as_seen=ledger.as_seen)
        mine.untracked -= asked - outcome.untracked
        self._absorb(job, mine, outcome)
        return outcome

    async def _record(self, job: Job, status: JobStatus, mine: Remembered) -> Job:
        """Write the status if it differs; the Job that comes back carries the version to go on with."""
        try:
            written = await self._use.client.patch(job, replace(job, status=status), subresource="status")
        except (TransportError, ServerError):
            mine.unsure = True
            raise
        if written is not job:
            mine.wrote(written)
            self._use.parking.wrote(job.key, self._use.jobs, written.metadata.resource_version)
            self._use.metrics.recorded(job.status, written)
        return written

    def _absorb(self, job: Job, mine: Remembered, outcome: Outcome) -> None:
        """Note what was written to the Job's pods."""
        mine.absorb(outcome)
        for version in outcome.versions:
            self._use.parking.wrote(job.key, self._use.pods, version)

    def _announce(self, job: Job, ledger: Ledger) -> None:
        for reason, message in ledger.announcements:
            self._use.recorder.event(job, "Normal", reason, message)

    def _finish(self, job: Job, mine: Remembered) -> None:
        """Tell how it ended, once the terminal condition is written."""
        mine.finished = True
        self._use.parking.forget(job.key)
        self._use.metrics.finished(job)
        failed = find(job.status.conditions, FAILED)
        if failed is not None and failed.status == "True":
            self._use.recorder.event(job, "Warning", failed.reason, failed.message)
            return
        completions = job.spec.completions
        if completions is not None and job.status.succeeded > completions:
            message = "Too many succeeded pods running after completion count reached"
            self._use.recorder.event(job, "Warning", "TooManySucceededPods", message)
        self._use.recorder.event(job, "Normal", "Completed", "Job completed")

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
