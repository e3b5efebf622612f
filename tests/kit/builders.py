"""Jobs and pods for tests, as the API server would hand them out."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from kcr.api.batch import (
    COMPLETION_INDEX,
    Job,
    JobSpec,
    JobStatus,
    OnExitCodes,
    PodConditionPattern,
    PodFailurePolicy,
    PodFailurePolicyRule,
)
from kcr.api.core import ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodSpec, PodStatus
from kcr.api.meta import Condition
from kcr.controllers.job.decisions.failures import Backoff
from kcr.controllers.job.decisions.plan import Limits, Snapshot
from kcr.controllers.job.decisions.pods import (
    FAILURE_COUNT,
    IGNORED_FAILURE_COUNT,
    TRACKING_FINALIZER,
)
from kcr.testing import build

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def job(*, spec: JobSpec | None = None, status: JobStatus | None = None, deleted: bool = False, **fields: Any) -> Job:
    """The Job `pi`, of one pod unless the fields of its spec say otherwise."""
    made = build.job("pi", generation=1, deletion_timestamp=NOW if deleted else None)
    changed = msgspec.structs.replace(spec or made.spec, **fields)
    return msgspec.structs.replace(made, spec=changed, status=status or JobStatus(start_time=ago(60)))


def indexed(completions: int, *, status: JobStatus | None = None, **fields: Any) -> Job:
    """An Indexed Job with as many pods at once as it has indexes, unless the fields of its spec say otherwise."""
    parallelism = fields.pop("parallelism", completions)
    return job(status=status, completion_mode="Indexed", completions=completions, parallelism=parallelism, **fields)


def exits(action: str, *codes: int, operator: str = "In", container: str | None = None) -> PodFailurePolicyRule:
    """A rule about exit codes."""
    pattern = OnExitCodes(operator=operator, values=codes, container_name=container)
    return PodFailurePolicyRule(action=action, on_exit_codes=pattern)


def has(action: str, *types: str) -> PodFailurePolicyRule:
    """A rule about conditions that are True."""
    patterns = tuple(PodConditionPattern(type=kind, status="True") for kind in types)
    return PodFailurePolicyRule(action=action, on_pod_conditions=patterns)


def policy(*rules: PodFailurePolicyRule) -> PodFailurePolicy:
    return PodFailurePolicy(rules=rules)


def template(restart_policy: str) -> msgspec.Raw:
    return msgspec.Raw(
        msgspec.json.encode(
            {"metadata": {"labels": {"app": "pi"}}, "spec": {"restartPolicy": restart_policy, "containers": []}}
        )
    )


def pod(
    name: str = "pi-1",
    phase: str = "Running",
    *,
    owner: Job | None = None,
    tracked: bool = True,
    ready_since: datetime | None = None,
    restarts: int = 0,
    finished: datetime | None = None,
    deleted: datetime | None = None,
    created: datetime | None = None,
    node: str = "n1",
    index: int | str | None = None,
    failures: tuple[int, int] | None = None,
    exit_code: int = 0,
    conditions: tuple[str, ...] = (),
) -> Pod:
    """A pod of one container; its uid is `uid-` and its name.

    `failures` are those of its index before it, counted and ignored; `conditions` are types that are True.
    """
    over = ContainerStateTerminated(finished_at=finished, exit_code=exit_code)
    state = ContainerState(terminated=over) if finished or exit_code else ContainerState()
    annotations = {COMPLETION_INDEX: str(index)} if index is not None else {}
    if failures is not None:
        annotations |= {FAILURE_COUNT: str(failures[0]), IGNORED_FAILURE_COUNT: str(failures[1])}
    ready = Condition(type="Ready", status="True", last_transition_time=ready_since)
    return Pod(
        metadata=build.metadata(
            name,
            owner=owner or job(),
            resource_version="5",
            labels={"app": "pi"},
            annotations=annotations,
            finalizers=(TRACKING_FINALIZER,) if tracked else (),
            deletion_timestamp=deleted,
            creation_timestamp=created or ago(120),
        ),
        spec=PodSpec(node_name=node),
        status=PodStatus(
            phase=phase,
            conditions=(
                *((ready,) if ready_since else ()),
                *(Condition(type=kind, status="True") for kind in conditions),
            ),
            container_statuses=(ContainerStatus(name="c", restart_count=restarts, state=state),),
        ),
    )


def snapshot(job: Job, *pods: Pod, **fields: object) -> Snapshot:
    """What a reconcile sees when nothing is outstanding."""
    seen = Snapshot(
        job=job, pods=pods, untracked=frozenset(), expectations_met=True, backoff=Backoff(), limits=Limits(), now=NOW
    )
    return msgspec.structs.replace(seen, **fields)
