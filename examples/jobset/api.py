"""The kind JobSet: a group of Jobs that start, succeed, fail and are restarted together."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

import kcr


class JobTemplate(kcr.Object):
    """Labels and annotations of Jobs, and their spec, which the API server checks when a Job is created."""

    metadata: kcr.ObjectMeta = kcr.ObjectMeta()
    spec: Mapping[str, Any]


class ReplicatedJob(kcr.Object):
    """A number of Jobs from one template."""

    name: Annotated[str, msgspec.Meta(pattern="^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length=50)]
    replicas: Annotated[int, msgspec.Meta(ge=0)] = 1
    template: JobTemplate


class StartupPolicy(kcr.Object):
    """With `InOrder`, replicated Jobs start when all Jobs of the one before are ready or have ended."""

    startup_policy_order: Literal["AnyOrder", "InOrder"] = "AnyOrder"


class SuccessPolicy(kcr.Object):
    """Complete when `All` or `Any` of the Jobs of the targets are; no targets stand for all replicated Jobs."""

    operator: Literal["All", "Any"] = "All"
    target_replicated_jobs: tuple[str, ...] = ()


class FailurePolicyRule(kcr.Object):
    """The action for a failed Job: of one of the targets, with one of the reasons of its condition; empty for any."""

    name: str = ""
    action: Literal["FailJobSet", "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts"]
    target_replicated_jobs: tuple[str, ...] = ()
    on_job_failure_reasons: tuple[str, ...] = ()


class FailurePolicy(kcr.Object):
    """What follows a failed Job: the first rule that matches, or else `RestartJobSet`.

    Attributes:
        max_restarts: How often `RestartJobSet` restarts; the next failure is final.
        rules: The rules, in order.
        restart_strategy: Whether each Job is recreated when its old one is deleted, or when all old ones are.
    """

    max_restarts: Annotated[int, msgspec.Meta(ge=0)] = 0
    rules: tuple[FailurePolicyRule, ...] = ()
    restart_strategy: Literal["Recreate", "BlockingRecreate"] = "Recreate"


class JobSetSpec(kcr.Object):
    """The Jobs, and when they start and end. Without a failure policy the first failed Job is final."""

    replicated_jobs: Annotated[tuple[ReplicatedJob, ...], kcr.ListType("map", keys=("name",))] = ()
    startup_policy: StartupPolicy = StartupPolicy()
    success_policy: SuccessPolicy = SuccessPolicy()
    failure_policy: FailurePolicy | None = None
    suspend: bool = False
    ttl_seconds_after_finished: Annotated[int, msgspec.Meta(ge=0)] | None = None


class ReplicatedJobStatus(kcr.Object):
    """How many Jobs of one replicated Job are ready, and how many have ended; none that are being deleted."""

    name: str
    ready: int = 0
    succeeded: int = 0
    failed: int = 0


class JobSetStatus(kcr.Object):
    """The attempt, which is the number of restarts; and `Completed` or `Failed`, once it has ended."""

    conditions: tuple[kcr.Condition, ...] = ()
    restarts: int = 0
    restarts_count_towards_max: int = 0
    terminal_state: str = ""
    replicated_jobs_status: Annotated[tuple[ReplicatedJobStatus, ...], kcr.ListType("map", keys=("name",))] = ()


class JobSet(
    kcr.Resource,
    api_version="example.dev/v1",
    plural="jobsets",
    categories=("all",),
    columns=(
        kcr.PrinterColumn("TerminalState", ".status.terminalState"),
        kcr.PrinterColumn("Restarts", ".status.restarts"),
        kcr.PrinterColumn("Suspended", ".spec.suspend"),
        kcr.PrinterColumn("Age", ".metadata.creationTimestamp", type="date"),
    ),
):
    """A group of Jobs that start, succeed, fail and are restarted together."""

    spec: JobSetSpec
    status: JobSetStatus = JobSetStatus()
