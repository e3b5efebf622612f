"""The Jobs, CronJobs, Deployments and pods of `kcr dev`, as `/debug/kcr/cluster` shows them: values, camelCase in JSON.

Times are moments, as the API server wrote them; `ClusterOverview.now` is the moment at which they were read, so that
a reader whose clock disagrees draws the right lengths.
"""

from datetime import datetime

import msgspec

from kcr.api.explanation import Explanation


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of the overview."""


class ConditionOverview(_Part, frozen=True, kw_only=True):
    """A condition that is true.

    Attributes:
        type: `Complete`, `Failed`, `Suspended`, `FailureTarget`, …
        reason: Why, as one word; may be empty.
        message: Why, as a sentence; may be empty.
    """

    type: str
    reason: str
    message: str


class WarningOverview(_Part, frozen=True, kw_only=True):
    """A warning: an event of the type `Warning`.

    Attributes:
        about: The pod that it is about, such as `pod/pi-x2k4f`; empty for the object itself.
        reason: Why, as one word: `FailedScheduling`.
        message: Why, as a sentence.
        count: How often it was seen.
        last_seen: When it was seen last.
    """

    about: str
    reason: str
    message: str
    count: int
    last_seen: datetime


class JobOverview(_Part, frozen=True, kw_only=True):
    """A Job.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        uid: Its uid.
        state: `Complete`, `Failed`; `Terminating` when it is being deleted, or its end is decided and pods are still
            terminating; `Paused` by the annotation; `Left alone` when its `spec.managedBy` names another controller;
            `Suspended`; `Running` when a container of its pods runs, else `Waiting`.
        why: The headline of `kcr explain`; empty when the state says it all, or it is not known yet.
        is_troubled: Whether there is something that a user can do about it.
        warning: The last warning about it or its pods; None without one, and once it has ended.
        completions: How many pods have to succeed; None when one that succeeds ends the Job.
        parallelism: How many pods run at a time.
        active: Pods that are pending or running.
        ready: Of those, the ready ones.
        succeeded: Pods that have succeeded.
        failed: Pods that have failed.
        created_at: When it was created.
        started_at: When it started, or was resumed last; None before that.
        ended_at: When it became Complete or Failed; None before that.
        conditions: Its conditions that are true, the newest last.
        owner: The name of the CronJob that made it; empty without one.
        indexed: Whether its pods have completion indexes.
    """

    namespace: str
    name: str
    uid: str
    state: str
    why: str
    is_troubled: bool
    warning: WarningOverview | None
    completions: int | None
    parallelism: int
    active: int
    ready: int
    succeeded: int
    failed: int
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    conditions: tuple[ConditionOverview, ...]
    owner: str
    indexed: bool


class DeploymentOverview(_Part, frozen=True, kw_only=True):
    """A Deployment.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        uid: Its uid.
        state: `Terminating` when it is being deleted; `Paused` by the annotation; `Available` when all its pods are,
            and have the present template; else `Waiting`.
        why: The headline of `kcr explain`; empty when the state says it all, or it is not known yet.
        is_troubled: Whether it has a bad condition or a warning.
        warning: The last warning about it, its ReplicaSets or its pods; None without one, and while it is available.
        replicas: How many pods are wanted.
        ready: How many are ready.
        updated: How many have the present template.
        created_at: When it was created.
    """

    namespace: str
    name: str
    uid: str
    state: str
    why: str
    is_troubled: bool
    warning: WarningOverview | None
    replicas: int
    ready: int
    updated: int
    created_at: datetime


class CronJobOverview(_Part, frozen=True, kw_only=True):
    """A CronJob.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        uid: Its uid.
        schedule: Its schedule.
        time_zone: The zone of its schedule; empty for the controller's own.
        suspended: Whether it is suspended.
        active: How many of its Jobs run.
        last_schedule: When it was scheduled last; None before the first time.
        last_success: When one of its Jobs completed last; None before the first time.
        next_schedule: When it is scheduled next; None when it is suspended or its schedule is wrong.
        error: Why it is not scheduled: `unknown time zone "Mars"`; empty when it is.
    """

    namespace: str
    name: str
    uid: str
    schedule: str
    time_zone: str
    suspended: bool
    active: int
    last_schedule: datetime | None
    last_success: datetime | None
    next_schedule: datetime | None
    error: str


class PodOverview(_Part, frozen=True, kw_only=True):
    """A pod.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        job: The name of the Job that controls it; empty without one.
        deployment: The name of the Deployment whose ReplicaSet controls it; empty without one.
        index: Its completion index; None without one.
        phase: `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`; `Terminating` when it is being deleted.
        reason: Why it waits or has failed: `ImagePullBackOff`, `Error`, `DeadlineExceeded`; else empty.
        exit_code: Of the first container that failed, else 0 once all have ended; None before that.
        restarts: How often its containers were started again.
        node: Its node; empty before it is scheduled.
        created_at: When it was created.
        started_at: When its first container started; None before that.
        ended_at: When its last container ended; None before that.
        containers: The names of its containers, init containers first.
    """

    namespace: str
    name: str
    job: str
    deployment: str
    index: int | None
    phase: str
    reason: str
    exit_code: int | None
    restarts: int
    node: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    containers: tuple[str, ...]


class ClusterOverview(_Part, frozen=True, kw_only=True):
    """Jobs, CronJobs, Deployments and pods. `?job=NAMESPACE/NAME` asks for the pods of one Job alone.

    Attributes:
        now: When all this was read.
        jobs: The Jobs, those that have not ended first, then the newest; at most 500.
        jobs_left_out: How many more there are.
        cron_jobs: The CronJobs, by namespace and name.
        deployments: The Deployments, by namespace and name.
        pods: The pods: those of `job` by index and time of creation, at most 200. Without `job`, those that belong to
            no Job, those that have not ended first, then the newest, at most 200.
        pods_left_out: How many more there are.
        explanation: The headline of `kcr explain` for `job`; None without `job`, and when that is not known.
    """

    now: datetime
    jobs: tuple[JobOverview, ...]
    jobs_left_out: int
    cron_jobs: tuple[CronJobOverview, ...]
    deployments: tuple[DeploymentOverview, ...]
    pods: tuple[PodOverview, ...]
    pods_left_out: int
    explanation: Explanation | None
