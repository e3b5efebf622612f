"""The setup of the CronJob controller: its options, its watches and handlers."""

import os
from collections.abc import Iterable
from datetime import timedelta, tzinfo
from functools import partial
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace
from prometheus_client import Histogram

from kcr.api.batch import CronJob, CronJobStatus, Job
from kcr.api.crontab import CronError, UnknownZoneError, load_zone
from kcr.api.meta import Key, controller_of
from kcr.client.explainers import explains
from kcr.clock import Clock
from kcr.controller import OwnWrites, resource_version_changed, rights, watch
from kcr.controller.gates import is_resumed
from kcr.controllers import require_take_over
from kcr.controllers.cronjob.actions import Actions
from kcr.controllers.cronjob.decisions.jobs import BY_CONTROLLER, controller_names
from kcr.controllers.cronjob.decisions.schedule import requeue_delay, timetable_of
from kcr.controllers.cronjob.explanation import explain_cronjob
from kcr.controllers.cronjob.memory import Memory
from kcr.controllers.cronjob.metrics import CronJobMetrics
from kcr.controllers.cronjob.reconciler import CronJobReconciler
from kcr.controllers.cronjob.wall_clock import ClockWatch, local_zone
from kcr.events import EventRecorder
from kcr.informer import Handler, Store, Trigger
from kcr.manager import Manager
from kcr.workqueue import WorkQueue

COMPONENT = "cronjob-controller"
# Source: kubernetes/pkg/controller/cronjob/metrics/metrics.go.
SKEW_BUCKETS = tuple(2.0**power for power in range(10))


RIGHTS = (
    rights(CronJob, "get")
    | rights(CronJob, "patch", subresource="status")
    # The admission plugin OwnerReferencesPermissionEnforcement asks for it.
    | rights(CronJob, "update", subresource="finalizers")
    | rights(Job, "get", "create", "delete")
)


def _zone(name: str) -> tzinfo:
    try:
        return load_zone(name)
    except UnknownZoneError as error:
        raise ValueError(f"{error}; write a name such as Europe/Berlin") from error


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the CronJob controller, each also a variable: `KCR_` and its name in capitals."""

    workers: Annotated[int, Meta(ge=1), "CronJobs reconciled at the same time."] = 5
    take_over: Annotated[bool, "Whether the cluster's own controller is off: CronJobs cannot choose."] = False
    max_metric_cronjobs: Annotated[
        int, Meta(ge=0), "Most CronJobs with series of their own in the metric kcr_cronjob_next_schedule_seconds."
    ] = 1000
    cronjob_time_zone: Annotated[
        tzinfo | None, _zone, "Zone of schedules that name none; empty for the zone of the process."
    ] = None


@explains(CronJob, explain_cronjob)
def setup(manager: Manager, options: Options) -> None:
    """Attach the CronJob controller to a manager.

    Raises:
        ConfigError: It would run beside the cluster's own.
    """
    require_take_over("cronjob", instead_of="cronjob-controller", take_over=options.take_over)
    local = options.cronjob_time_zone or local_zone(os.environ)
    crons, jobs = manager.store(CronJob), manager.store(Job)
    jobs.add_index(BY_CONTROLLER, controller_names)
    recorder = manager.recorder(COMPONENT)
    skew = Histogram(
        "cronjob_controller_job_creation_skew_duration_seconds",
        "Time between when a cronjob is scheduled to be run, and when the corresponding job is created.",
        buckets=SKEW_BUCKETS, registry=manager.metrics.registry,
    )  # fmt: skip
    own_writes, queue = OwnWrites(leading_since=lambda: manager.leading_since), manager.queue("cronjob")
    reconciler = CronJobReconciler(
        client=manager.client,
        crons=crons,
        jobs=jobs,
        memory=Memory(),
        own_writes=own_writes,
        actions=Actions(manager.client, recorder, crons, jobs, own_writes, skew.observe),
        recorder=recorder,
        clock=manager.clock,
        local=local,
        queue=queue,
        metrics=CronJobMetrics(manager.metrics.registry, options.max_metric_cronjobs),
    )
    owner = partial(owning_cronjob, crons)
    changed_jobs = watch(Job, map_to=owner, predicate=resource_version_changed, with_owner=True)
    controller = manager.add_controller(
        "cronjob",
        reconciler,
        watches=[changed_jobs],
        queue=queue,
        retry_on_event="always",
        workers=options.workers,
        own_writes=own_writes,
        recorder=recorder,
        rights=RIGHTS,
    )
    controller.declare(manager.informer(CronJob), CronJob)
    manager.informer(CronJob).add_handler(CronJobEvents(queue, own_writes, recorder, manager.clock, local))
    # On every replica, for each has keys of its own under sharding.
    manager.add(ClockWatch(manager.clock, lambda: enqueue_all(queue, crons)), needs_leader_election=False)


def enqueue_all(queue: WorkQueue[Key], crons: Store[CronJob]) -> None:
    """Enqueue all CronJobs."""
    for cron in crons.list():
        queue.add(cron.key)


class CronJobEvents(Handler[CronJob]):
    """Handles the events of CronJobs.

    Source: kubernetes/pkg/controller/cronjob/cronjob_controllerv2.go, NewControllerV2, updateCronJob.
    """

    def __init__(
        self, queue: WorkQueue[Key], own_writes: OwnWrites, recorder: EventRecorder, clock: Clock, local: tzinfo
    ) -> None:
        self._queue = queue
        self._own_writes = own_writes
        self._recorder = recorder
        self._clock = clock
        self._local = local

    def on_add(self, obj: CronJob, initial: bool) -> None:
        """Enqueue a new CronJob, without the backoff of an older one of its name."""
        # Another CronJob may have had the name, and have failed often.
        self._queue.forget(obj.key)
        self._queue.add(obj.key, *Trigger.added(obj, initial))

    def on_update(self, old: CronJob, new: CronJob) -> None:
        """Enqueue a changed CronJob: at once, or after a change of its schedule alone when the next run is due.

        The echo of our own status write needs no reconcile: the one that wrote it has decided by the new status.
        """
        if _without_status(old) == _without_status(new):
            enqueue = partial(self._queue.add, new.key, *Trigger.updated(old, new))
            self._own_writes.enqueue_unless_echo(new.key, new.metadata.resource_version, enqueue)
            return
        before, after = old.spec, new.spec
        if (before.schedule, before.time_zone) == (after.schedule, after.time_zone) or is_resumed(old, new):
            # Changes of its Jobs during a pause do not wait for the next run.
            self._queue.add(new.key, *Trigger.updated(old, new))
            return
        try:
            timetable = timetable_of(new, self._local)
        except CronError:
            message = f"unparseable schedule for cronjob: {after.schedule}"
            self._recorder.event(new, "Warning", "UnParseableCronJobSchedule", message)
            return
        # A reconcile that the old schedule has requested stays enqueued: it reads the new schedule.
        delay = requeue_delay(new, timetable, self._clock.now()) or timedelta()
        self._queue.add_after(new.key, delay.total_seconds(), *Trigger.updated(old, new))

    def on_delete(self, obj: CronJob, final_state_unknown: bool) -> None:
        """Enqueue a deleted CronJob, so that its state is dropped."""
        # The next run of its schedule is not due any more; one that is added again asks for its own.
        self._queue.cancel_after(obj.key)
        self._queue.add(obj.key, *Trigger.deleted(obj))


def _without_status(cron: CronJob) -> CronJob:
    metadata = replace(cron.metadata, resource_version="")
    return replace(cron, metadata=metadata, status=CronJobStatus())


def owning_cronjob(crons: Store[CronJob], job: Job) -> Iterable[Key]:
    """Return the key of the CronJob that controls a Job, if the store has that very one.

    Source: kubernetes/pkg/controller/cronjob/cronjob_controllerv2.go, addJob, updateJob, deleteJob.
    """
    owner = controller_of(job.metadata)
    if owner is None or owner.kind != CronJob.resource.kind:
        return ()
    cron = crons.get(Key(job.metadata.namespace, owner.name))
    return (cron.key,) if cron is not None and cron.metadata.uid == owner.uid else ()
