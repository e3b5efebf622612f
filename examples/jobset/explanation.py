"""The explanation of a JobSet: why it is where it is, from the decision of its controller."""

from collections.abc import Sequence
from datetime import datetime

import kcr
from examples.jobset.api import JobSet, JobSetStatus
from examples.jobset.decisions import JOBSET, attempt_of, decide, is_started
from kcr.api.batch import FAILED, Job
from kcr.api.core import Event
from kcr.api.explanation import counted
from kcr.api.meta import is_controlled_by


async def explain_jobset(client: kcr.Client, jobset: JobSet, _: Sequence[Event], now: datetime) -> kcr.Explanation:
    """Explain a JobSet from the API server alone."""
    jobs = await client.list(Job, jobset.metadata.namespace, labels=f"{JOBSET}={jobset.metadata.name}")
    return explain(jobset, [job for job in jobs if is_controlled_by(job, jobset)], now)


def explain(jobset: JobSet, jobs: Sequence[Job], now: datetime) -> kcr.Explanation:
    """Return the explanation of a JobSet with these Jobs."""
    plan = decide(jobset, jobs, now)
    parts = (f"{one.name} {one.ready} ready, {one.succeeded} succeeded" for one in plan.status.replicated_jobs_status)
    return kcr.Explanation(
        *situation(jobset, plan.status, jobs),
        steps=() if plan.expires_in is None else (kcr.Step("is deleted", at=now + plan.expires_in),),
        reasons=tuple(one.message for one in reversed(plan.status.conditions) if one.status == "True"),
        wanted=f"{sum(one.replicas for one in jobset.spec.replicated_jobs)} Jobs",
        present=f"attempt {plan.status.restarts}: {'; '.join(parts)}",
    )


def situation(jobset: JobSet, status: JobSetStatus, jobs: Sequence[Job]) -> tuple[kcr.Code, str]:
    """Return the code and the headline."""
    if status.terminal_state:
        code = kcr.Code.FAILED if status.terminal_state == FAILED else kcr.Code.FINISHED
        return code, f"has {status.terminal_state.lower()}"
    if jobset.spec.suspend:
        return kcr.Code.WAITING, "is suspended"
    if old := sum(attempt_of(job) < status.restarts for job in jobs):
        return kcr.Code.WAITING, f"is restarted when {counted(old, 'old Job')} and the pods are deleted"
    for one in jobset.spec.replicated_jobs:
        if not is_started(one, status):
            return kcr.Code.WAITING, f"waits until all Jobs of {one.name} are ready"
    return kcr.Code.RUNNING, "runs"
