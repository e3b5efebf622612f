"""Jobs, CronJobs, Deployments and pods for the page of `kcr dev`: a pure function of the cluster's objects.

Those in trouble come first where there are more than fit: a reader wants to see running and failed ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import NamedTuple

from kcr.api.apps import Deployment, ReplicaSet
from kcr.api.batch import CronJob, Job, is_indexed
from kcr.api.conditions import find_condition
from kcr.api.core import ContainerStateTerminated, ContainerStatus, Event, Pod
from kcr.api.crontab import CronError, UnknownZoneError, load_zone, parse
from kcr.api.explanation import Explanation
from kcr.api.meta import Key, Resource, controller_of
from kcr.api.pods import completion_index, is_terminal, is_terminating, sidecars
from kcr.controllers.job.commands.job_progress import JobView, view_of
from kcr_devcluster.dev.cluster_state import (
    ClusterOverview,
    ConditionOverview,
    CronJobOverview,
    JobOverview,
    PodOverview,
)
from kcr_devcluster.dev.display.views import cronjob_view, pod_view
from kcr_devcluster.dev.display.workloads import UNSETTLED, Workloads, is_in_question

# How many are shown.
MAX_JOBS = 500
MAX_PODS = 200
_NEVER = "no time fits its schedule"


class ClusterObjects(NamedTuple):
    """The objects of a cluster, each kind in any order.

    Attributes:
        explanations: The headline of `kcr explain` for an object, by its uid, where that is known.
    """

    jobs: Sequence[Job]
    cronjobs: Sequence[CronJob]
    pods: Sequence[Pod]
    deployments: Sequence[Deployment] = ()
    replica_sets: Sequence[ReplicaSet] = ()
    events: Sequence[Event] = ()
    explanations: Mapping[str, Explanation] = {}


def cluster_overview(objects: ClusterObjects, now: datetime, zone: tzinfo, job: Key | None = None) -> ClusterOverview:
    """Return the overview of a cluster.

    Args:
        objects: The objects of the cluster.
        now: The moment at which it was read.
        zone: The zone of schedules that name none.
        job: The Job whose pods are shown; None for the pods that belong to no Job.
    """
    workloads = Workloads(objects.pods, objects.replica_sets, objects.events, objects.explanations)
    jobs = sorted(((one, view_of(one)) for one in objects.jobs), key=_job_rank)
    pods = sorted((pod for pod in objects.pods if _job_of(pod) == job), key=_pod_rank)
    shown = pods[:MAX_PODS]
    if job is not None:
        shown.sort(key=_pod_place)
    asked = next((one.metadata.uid for one in objects.jobs if one.key == job), "")
    return ClusterOverview(
        now=now,
        jobs=tuple(_job(one, view, workloads) for one, view in jobs[:MAX_JOBS]),
        jobs_left_out=max(len(jobs) - MAX_JOBS, 0),
        cron_jobs=tuple(_cronjob(one, now, zone) for one in sorted(objects.cronjobs, key=lambda one: one.key)),
        deployments=tuple(map(workloads.deployment, sorted(objects.deployments, key=lambda one: one.key))),
        pods=tuple(_pod(pod, workloads) for pod in shown),
        pods_left_out=len(pods) - len(shown),
        explanation=objects.explanations.get(asked),
    )


def _job_rank(shown: tuple[Job, JobView]) -> tuple[bool, float]:
    """Return the place of a Job: those that have not ended first, then the newest."""
    job, view = shown
    return view.has_ended, -_created(job)


def _pod_rank(pod: Pod) -> tuple[int, float]:
    """Return the place of a pod: those that have not ended first, then those that failed, then the newest."""
    ended = is_terminal(pod)
    return ended + (ended and pod.status.phase != "Failed"), -_created(pod)


def _pod_place(pod: Pod) -> tuple[bool, int, float, str]:
    """Return the place of a pod among those of its Job: by index, those without one last, then by creation."""
    index = completion_index(pod)
    return index is None, index or 0, _created(pod), pod.metadata.name


def _created(obj: Resource) -> float:
    created = obj.metadata.creation_timestamp
    return created.timestamp() if created is not None else 0.0


def _owner(obj: Resource, kind: type[Resource]) -> str:
    """Return the name of the object of a kind that controls an object; empty without one."""
    owner = controller_of(obj.metadata)
    wanted = kind.resource
    is_it = owner is not None and owner.kind == wanted.kind and owner.api_version == wanted.api_version
    return owner.name if owner is not None and is_it else ""


def _job_of(pod: Pod) -> Key | None:
    name = _owner(pod, Job)
    return Key(pod.metadata.namespace, name) if name else None


def _job(job: Job, view: JobView, workloads: Workloads) -> JobOverview:
    parallelism = job.spec.parallelism
    state, is_open = workloads.job_state(job), is_in_question(job)
    return JobOverview(
        namespace=view.key.namespace,
        name=view.key.name,
        uid=job.metadata.uid,
        state=state,
        why=workloads.why(job) if is_open else "",
        is_troubled=is_open and state in UNSETTLED and workloads.has_remedy(job),
        warning=None if view.has_ended else workloads.last_warning(job),
        completions=view.wanted,
        parallelism=1 if parallelism is None else parallelism,
        active=view.active,
        ready=view.ready,
        succeeded=view.succeeded,
        failed=view.failed,
        created_at=_created_at(job),
        started_at=view.started,
        ended_at=view.ended,
        conditions=_conditions(job),
        owner=_owner(job, CronJob),
        indexed=is_indexed(job),
    )


def _created_at(obj: Resource) -> datetime:
    created = obj.metadata.creation_timestamp
    assert created is not None, "the server sets it"
    return created


def _conditions(job: Job) -> tuple[ConditionOverview, ...]:
    true = [one for one in job.status.conditions if one.status == "True"]
    true.sort(key=lambda one: one.last_transition_time.timestamp() if one.last_transition_time else 0.0)
    return tuple(ConditionOverview(type=one.type, reason=one.reason, message=one.message) for one in true)


def _cronjob(cronjob: CronJob, now: datetime, zone: tzinfo) -> CronJobOverview:
    view = cronjob_view(cronjob, zone)
    error = _schedule_error(cronjob)
    following = None if error else view.next_run(now)
    if following is None and not view.suspended:
        error = error or _NEVER
    return CronJobOverview(
        namespace=view.key.namespace,
        name=view.key.name,
        uid=cronjob.metadata.uid,
        schedule=view.schedule,
        time_zone=cronjob.spec.time_zone or "",
        suspended=view.suspended,
        active=view.active,
        last_schedule=view.last,
        last_success=cronjob.status.last_successful_time,
        next_schedule=following,
        error=error,
    )


def _schedule_error(cronjob: CronJob) -> str:
    try:
        parse(cronjob.spec.schedule)
        load_zone(cronjob.spec.time_zone or "")
    except (CronError, UnknownZoneError) as error:
        return str(error)
    return ""


def _pod(pod: Pod, workloads: Workloads) -> PodOverview:
    view = pod_view(pod)
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return PodOverview(
        namespace=view.key.namespace,
        name=view.key.name,
        job=_owner(pod, Job),
        deployment=workloads.deployment_of(pod),
        index=completion_index(pod),
        phase="Terminating" if is_terminating(pod) else pod.status.phase or "Pending",
        reason=_pod_reason(pod, statuses),
        exit_code=_exit_code(pod, statuses),
        restarts=view.restarts,
        node=pod.spec.node_name,
        created_at=_created_at(pod),
        started_at=_started(statuses),
        ended_at=view.ended,
        containers=tuple(one.name for one in (*pod.spec.init_containers, *pod.spec.containers)),
    )


def _pod_reason(pod: Pod, statuses: Iterable[ContainerStatus]) -> str:
    """Return why a pod waits or has failed: the pod's own reason, else that of its first container with one."""
    if pod.status.reason:
        return pod.status.reason
    if failure := _failure(pod, statuses):
        return failure.reason
    waiting = next((one.state.waiting.reason for one in statuses if one.state.waiting and one.state.waiting.reason), "")
    unscheduled = find_condition(pod.status.conditions, "PodScheduled")
    if not waiting and unscheduled is not None and unscheduled.status == "False":
        return unscheduled.reason
    return waiting


def _failure(pod: Pod, statuses: Iterable[ContainerStatus]) -> ContainerStateTerminated | None:
    """Return the end of the first failed container. Sidecars are stopped, so their exit codes are ignored."""
    beside = sidecars(pod)
    ends = (one.state.terminated for one in statuses if one not in beside)
    return next((end for end in ends if end is not None and end.exit_code), None)


def _exit_code(pod: Pod, statuses: Iterable[ContainerStatus]) -> int | None:
    if failure := _failure(pod, statuses):
        return failure.exit_code
    mains = pod.status.container_statuses
    return 0 if mains and all(one.state.terminated is not None for one in mains) else None


def _started(statuses: Iterable[ContainerStatus]) -> datetime | None:
    states = (one.state.running or one.state.terminated for one in statuses)
    return min((state.started_at for state in states if state is not None and state.started_at), default=None)
