"""The explanation of a JobSet: why it is where it is, from the decision of its controller."""

from collections.abc import Sequence
from datetime import datetime

import kcr
from examples.jobset.api import JobSet
from examples.jobset.decisions import JOBSET, attempt_of, decide, is_started
from kcr.api.batch import FAILED, Job
from kcr.api.core import Event
from kcr.api.explanation import counted


async def explain_jobset(client: kcr.Client, jobset: JobSet, _: Sequence[Event], now: datetime) -> kcr.Explanation:
    """Explain a JobSet from the API server alone."""
    jobs = await client.list(Job, jobset.metadata.namespace, labels=f"{JOBSET}={jobset.metadata.name}")
    return explain(jobset, [job for job in jobs if kcr.is_controlled_by(job, jobset)], now)


def explain(jobset: JobSet, jobs: Sequence[Job], now: datetime) -> kcr.Explanation:
    """Return the explanation of a JobSet with these Jobs."""
    plan = decide(jobset, jobs, now)
    status, wanted = plan.status, sum(one.replicas for one in jobset.spec.replicated_jobs)
    parts = (f"{one.name} {one.ready} ready, {one.succeeded} succeeded" for one in status.replicated_jobs_status)
    present = f"attempt {status.restarts}: {'; '.join(parts)}"
    if status.terminal_state:
        ended = kcr.find_condition(status.conditions, status.terminal_state)
        code = kcr.Code.FAILED if status.terminal_state == FAILED else kcr.Code.FINISHED
        reasons = () if ended is None else (ended.message,)
        steps = () if plan.expires_in is None else (kcr.Step("is deleted", at=now + plan.expires_in),)
        return kcr.Explanation(code, f"has {status.terminal_state.lower()}", steps, reasons, present=present)
    old = [job.metadata.name for job in jobs if attempt_of(job) < status.restarts]
    waiting = next((one.name for one in jobset.spec.replicated_jobs if not is_started(one, status)), "")
    if jobset.spec.suspend:
        code, headline = kcr.Code.WAITING, "is suspended"
    elif old:
        code, headline = kcr.Code.WAITING, f"is restarted when {counted(len(old), 'old Job')} and the pods are deleted"
    elif waiting:
        code, headline = kcr.Code.WAITING, f"waits until all Jobs of {waiting} are ready"
    else:
        code, headline = kcr.Code.RUNNING, "runs"
    return kcr.Explanation(code, headline, wanted=f"{wanted} Jobs", present=present)
