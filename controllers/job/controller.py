"""The setup of the Job controller: its options, its watches and handlers."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.scheduling import PodGroup, Workload
from kcr.client.explainers import explains
from kcr.controller import Batching, OwnWrites, rights
from kcr.controllers.job.actions import Actions, FailedPodHistory
from kcr.controllers.job.decisions.lifecycle import KCR, RESERVED, is_ours
from kcr.controllers.job.decisions.plan import Limits
from kcr.controllers.job.decisions.pods import (
    ORPHANS,
    UNSETTLED,
    UNTRACKED_FAILURES,
    index_orphans,
    index_unsettled,
    index_untracked_failures,
    selects,
)
from kcr.controllers.job.explanation import DigestEvents, ManagedJob, explain_job
from kcr.controllers.job.fleet import Fleet
from kcr.controllers.job.gangs import Gangs
from kcr.controllers.job.handlers import JobEvents, Keys, OrphanReconciler, PodEvents
from kcr.controllers.job.memory import Memory
from kcr.controllers.job.metrics import EndedPods, ExternalJobs, JobMetrics
from kcr.controllers.job.pod_context import explains_pods
from kcr.controllers.job.reconciler import JobReconciler
from kcr.dependents import DependentControl
from kcr.feature_gates import WORKLOAD_WITH_JOB, read_gates
from kcr.informer import Store
from kcr.log import get_logger
from kcr.manager import Manager
from kcr.workqueue import ItemExponential

COMPONENT = "job-controller"

# Errors of the API: wait a second, then twice as long each time.
RETRY_BASE_SECONDS, RETRY_MAX_SECONDS = 1.0, 60.0
# After SIGTERM the next process completes what is cut off here.
GRACE_SECONDS = 0.2

RIGHTS = (
    rights(Job, "get")
    | rights(Job, "patch", subresource="status")
    # The admission plugin OwnerReferencesPermissionEnforcement asks for it.
    | rights(Job, "update", subresource="finalizers")
    | rights(Pod, "get", "create", "patch", "delete")
)

# Which Jobs are reconciled, by `take_over`, the only setting that decides it.
_RULES: Mapping[bool, str] = {
    True: "take_over is set: all Jobs are reconciled but those whose spec.managedBy names another controller",
    False: f"take_over is not set: only Jobs with spec.managedBy {KCR} are reconciled; kcr run --take-over does all",
}

GANG_VERBS = ("get", "list", "watch", "create", "patch")

# Up to a year: beyond that lie "inf" and slips of the finger.
_Seconds = Annotated[float, Meta(ge=0, le=31_536_000)]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the Job controller, each also a variable: `KCR_` and its name in capitals."""

    workers: Annotated[int, Meta(ge=1), "Jobs reconciled at the same time."] = 5
    take_over: Annotated[
        bool,
        "Reconcile all Jobs, in place of the cluster's own controller; else only those with `spec.managedBy: "
        "kcr.dev/job-controller`.",
    ] = False
    job_pod_failure_backoff: Annotated[
        _Seconds, "Seconds before the first replacement of a failed pod; doubles with each failure."
    ] = 10.0
    max_job_pod_failure_backoff: Annotated[_Seconds, "Most seconds between two replacements of failed pods."] = 600.0
    sync_job_batch_period: Annotated[
        _Seconds, "Seconds during which changes of a busy Job are batched; 0 disables batching."
    ] = 1.0
    max_uncounted_pods: Annotated[int, Meta(ge=1), "Most finished pods in one status write."] = 500
    max_pod_create_delete_per_sync: Annotated[int, Meta(ge=1), "Most pods created or deleted in one sync."] = 500
    max_metric_namespaces: Annotated[
        int, Meta(ge=0), "Most namespaces with series of their own in the metric kcr_jobs."
    ] = 250
    failure_digest: Annotated[
        bool, "When a Job fails, record an event with its failed pods by exit code, reason and index."
    ] = False
    feature_gates: Annotated[
        frozenset[str],
        read_gates,
        "Alpha features to turn on: `GenericWorkload=true,WorkloadWithJob=true` schedules the pods of a Job together, "
        "by its `spec.scheduling` where the server has `scheduling.k8s.io/v1beta1`.",
    ] = frozenset()


@explains_pods
@explains(ManagedJob, explain_job)
def setup(manager: Manager, options: Options) -> None:
    """Attach the Job controller to a manager."""
    jobs, pods, ours = manager.store(Job), manager.store(Pod), partial(is_ours, take_over=options.take_over)
    pods.add_index(UNSETTLED, index_unsettled)
    pods.add_index(UNTRACKED_FAILURES, index_untracked_failures)
    pods.add_index(ORPHANS, index_orphans)
    metrics = JobMetrics(manager.metrics.registry)

    def count_stale(late: Store[Any]) -> None:
        resource = (Job if late is jobs else Pod).resource
        metrics.stale(resource.group, resource.plural).inc()

    def leading_since() -> int:
        return manager.leading_since

    own_writes = OwnWrites(count_stale, leading_since)
    queue = manager.queue("job", ItemExponential(RETRY_BASE_SECONDS, RETRY_MAX_SECONDS), fair_by="namespace")
    # A leader that has lost knows it after so long at the latest.
    election = manager.elector or manager.shards
    patience = election.config.renew_deadline if election is not None else 0.0
    fleet = Fleet(manager.metrics.registry, options.max_metric_namespaces)
    memory = Memory(own_writes, Batching(queue, options.sync_job_batch_period), fleet, patience)
    recorder = manager.recorder(COMPONENT)
    control = DependentControl(
        manager.client, recorder, Pod, store=pods, own_writes=own_writes, random=manager.random, selects=selects
    )
    gangs, wanted = None, RIGHTS
    if WORKLOAD_WITH_JOB in options.feature_gates:
        # Its informers are opened once it is known which version is served.
        wanted |= rights(Workload, *GANG_VERBS) | rights(PodGroup, *GANG_VERBS, "delete")
        gangs = Gangs(manager, queue, own_writes, recorder)
    digests = DigestEvents(pods, recorder) if options.failure_digest else None
    limits = Limits(
        options.job_pod_failure_backoff,
        options.max_job_pod_failure_backoff,
        options.max_uncounted_pods,
        options.max_pod_create_delete_per_sync,
        options.take_over,
    )
    reconciler = JobReconciler(
        jobs=jobs,
        pods=pods,
        memory=memory,
        actions=Actions(manager.client, recorder, jobs, control, own_writes, gangs),
        queue=queue,
        clock=manager.clock,
        limits=limits,
        metrics=metrics,
        history=FailedPodHistory(manager.client, pods),
        digests=digests,
    )
    controller = manager.add_controller(
        "job",
        reconciler,
        queue=queue,
        own_writes=own_writes,
        retry_on_event="always",
        workers=options.workers,
        graceful_shutdown_timeout=GRACE_SECONDS,
        recorder=recorder,
        rights=wanted,
    )
    orphans = manager.add_controller(
        "job_orphan_pod",
        OrphanReconciler(manager.client, jobs, pods, ours, leading_since, sees_all=manager.shards is None),
        workers=options.workers,
        limiter=ItemExponential(RETRY_BASE_SECONDS, RETRY_MAX_SECONDS),
        retry_on_event="always",
        graceful_shutdown_timeout=GRACE_SECONDS,
    )
    # Their keys come from handlers of their own.
    controller.declare(manager.informer(Job), Job, manager.informer(Pod))
    orphans.declare(manager.informer(Pod), Pod, keys_are_dependents=True)
    keys = Keys(queue, orphans.queue, memory, ours)
    manager.informer(Job).add_handler(JobEvents(keys, pods))
    manager.informer(Pod).add_handler(PodEvents(keys, jobs))
    manager.informer(Job).add_handler(ExternalJobs(metrics, ours=(RESERVED, KCR)))
    manager.informer(Pod).add_handler(EndedPods(metrics, manager.metrics.registry, manager.clock))
    manager.add(UnmanagedJobs(jobs, take_over=options.take_over))


class UnmanagedJobs:
    """Logs once, when the stores are synced, by which rule Jobs are reconciled, and how many are left alone."""

    name = "unmanaged jobs"

    def __init__(self, jobs: Store[Job], *, take_over: bool) -> None:
        self._jobs = jobs
        self._take_over = take_over

    async def run(self) -> None:
        """Count once."""
        left = sum(not is_ours(job, take_over=self._take_over) for job in self._jobs.list())
        reason = _RULES[self._take_over]
        get_logger().info("ignoring jobs of other controllers", count=left, reason=reason)
