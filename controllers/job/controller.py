"""The Job controller's front door: its options, what it watches, and which keys that wakes."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Annotated

import msgspec
import structlog
from msgspec import Meta

from controllers.job import indexes
from controllers.job.actions import Actions
from controllers.job.adoption import selects
from controllers.job.conditions import is_finished
from controllers.job.gangs import Gangs
from controllers.job.memory import Memory
from controllers.job.metrics import EndedPods, ExternalJobs, JobMetrics
from controllers.job.orphans import OrphanReconciler, owning_job
from controllers.job.plan import Identity, Limits, identity
from controllers.job.pods import is_tracked
from controllers.job.reconciler import JobReconciler, Services
from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.meta import Key, controller_of
from kcr.api.scheduling import PodGroup, Workload
from kcr.controller import Parking
from kcr.errors import KcrError
from kcr.events import EventRecorder
from kcr.expectations import Expectations
from kcr.gates import WORKLOAD_WITH_JOB, read_gates
from kcr.informer import Handler, Store
from kcr.manager import Manager
from kcr.workqueue import ItemExponential, WorkQueue

KCR = "kcr.dev/job-controller"
RESERVED = "kubernetes.io/job-controller"
COMPONENT = "job-controller"

# Errors of the API: wait a second, then twice as long each time.
RETRY_BASE_SECONDS, RETRY_MAX_SECONDS = 1.0, 60.0
# Told to stop, the process is gone within a second: what is cut off here is made up for by the next one.
GRACE_SECONDS = 0.3


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The tunables. Each is also read from the environment as `KCR_` and its name in capitals.

    Attributes:
        workers: How many Jobs are worked on at the same time.
        take_over: Whether to look after all Jobs, in place of the cluster's own controller; else only those
            with `spec.managedBy: kcr.dev/job-controller`.
        job_pod_failure_backoff: Seconds before the first replacement of a failed pod; doubles each time.
        max_job_pod_failure_backoff: The most seconds between two replacements.
        sync_job_batch_period: Seconds between two looks at a Job that is busy; 0 for no limit.
        max_uncounted_pods: How many ended pods one status write may list.
        max_pod_create_delete_per_sync: How many pods one look creates or deletes at most.
        feature_gates: Alpha features to turn on or off, such as `GenericWorkload=true,WorkloadWithJob=true`, which
            lets the pods of an Indexed Job be scheduled all or none.
    """

    workers: Annotated[int, Meta(ge=1)] = 5
    take_over: bool = False
    job_pod_failure_backoff: Annotated[float, Meta(ge=0)] = 10.0
    max_job_pod_failure_backoff: Annotated[float, Meta(ge=0)] = 600.0
    sync_job_batch_period: Annotated[float, Meta(ge=0)] = 1.0
    max_uncounted_pods: Annotated[int, Meta(ge=1)] = 500
    max_pod_create_delete_per_sync: Annotated[int, Meta(ge=1)] = 500
    feature_gates: str = ""

    def __post_init__(self) -> None:
        """Refuse gates that do not exist."""
        read_gates(self.feature_gates)


def setup(manager: Manager, options: Options) -> None:
    """Attach the Job controller to a manager."""
    take_over = options.take_over or manager.embedded
    jobs, pods = manager.store(Job), manager.store(Pod)
    pods.add_index(indexes.UNSETTLED, indexes.unsettled)
    pods.add_index(indexes.ORPHANS, indexes.orphans)
    expectations: Expectations[Identity] = Expectations(manager.clock)
    metrics = JobMetrics(manager.metrics.registry)
    parking = Parking(lambda late: metrics.stale((Job if late is jobs else Pod).resource))

    def forgotten(gone: Identity) -> None:
        expectations.forget(gone)
        parking.forget(gone.key)

    memory = Memory(options.sync_job_batch_period, forgotten)
    recorder = manager.recorder(COMPONENT)
    services = Services(
        client=manager.client,
        jobs=jobs,
        pods=pods,
        memory=memory,
        parking=parking,
        expectations=expectations,
        actions=Actions(manager.client, recorder, manager.random, expectations),
        gangs=_gangs(manager, parking, recorder) if WORKLOAD_WITH_JOB in read_gates(options.feature_gates) else None,
        recorder=recorder,
        clock=manager.clock,
        limits=Limits(
            options.job_pod_failure_backoff,
            options.max_job_pod_failure_backoff,
            options.max_uncounted_pods,
            options.max_pod_create_delete_per_sync,
        ),
        is_ours=lambda job: is_ours(job, take_over=take_over),
        metrics=metrics,
        wake=lambda key, seconds: controller.queue.add_after(key, seconds),  # noqa: PLW0108 - it is made below
    )
    controller = manager.add_controller(
        "job",
        JobReconciler(services),
        parking=parking,
        workers=options.workers,
        limiter=ItemExponential(RETRY_BASE_SECONDS, RETRY_MAX_SECONDS),
        grace_seconds=GRACE_SECONDS,
    )
    orphans = manager.add_controller(
        "job_orphan_pod",
        OrphanReconciler(manager.client, jobs, pods, services.is_ours),
        workers=options.workers,
        limiter=ItemExponential(RETRY_BASE_SECONDS, RETRY_MAX_SECONDS),
        grace_seconds=GRACE_SECONDS,
    )
    keys = Keys(controller.queue, orphans.queue, memory, expectations, services.is_ours)
    manager.informer(Job).add_handler(JobEvents(keys, pods))
    manager.informer(Pod).add_handler(PodEvents(keys, jobs))
    manager.informer(Job).add_handler(ExternalJobs(metrics, ours=(RESERVED, KCR)))
    manager.informer(Pod).add_handler(EndedPods(metrics))
    manager.add(Census(jobs, services.is_ours))


def _gangs(manager: Manager, parking: Parking, recorder: EventRecorder) -> Gangs:
    return Gangs(manager.client, manager.store(Workload), manager.store(PodGroup), parking, recorder)


def is_ours(job: Job, *, take_over: bool) -> bool:
    """Return whether this controller looks after a Job (`spec.managedBy`).

    The field exists for this purpose: the cluster's own controller skips a Job that names another.
    """
    named = job.spec.managed_by
    return named in (None, RESERVED, KCR) if take_over else named == KCR


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

        Those that were its own and have no owner any more are found by its selector.
        """
        if self._is_ours(job):
            asked = self._memory.of(job).untracked
            unowned = pods.by_index(indexes.ORPHANS, job.metadata.namespace)
            for pod in (*pods.by_index(indexes.UNSETTLED, job.metadata.uid), *unowned):
                if pod.metadata.uid not in asked and is_tracked(pod) and _may_be_of(job, pod):
                    self.orphaned(pod)
        self._memory.forget(job.key)


def _may_be_of(job: Job, pod: Pod) -> bool:
    return controller_of(pod.metadata) is not None or _selects(job, pod)


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


class Census:
    """Says once, when the stores are there, how many Jobs are left alone, and why."""

    name = "job census"

    def __init__(self, jobs: Store[Job], ours: Callable[[Job], bool]) -> None:
        self._jobs = jobs
        self._ours = ours

    async def run(self) -> None:
        """Count once."""
        left = sum(not self._ours(job) for job in self._jobs.list())
        if left:
            reason = f"their spec.managedBy is not {KCR}; --take-over looks after all of them"
            structlog.get_logger().info("jobs left alone", count=left, reason=reason)
