"""The controller of JobSets: starts, ends and restarts groups of Jobs.

Run it on the cluster of your kubeconfig: `kcr run --controllers examples.jobset.controller:setup`
"""

from msgspec.structs import replace

import kcr
from examples.jobset.api import JobSet, ReplicatedJob
from examples.jobset.decisions import ATTEMPT, INDEX, JOBSET, REPLICATED_JOB, RESTARTED, Plan, decide, job_name
from examples.jobset.explanation import explain_jobset
from examples.jobset.webhook import JobSetWebhook
from kcr.api.batch import FAILED, Job

# A Job to create, with all fields of its template.
NewJob = kcr.unstructured("batch/v1", "Job", plural="jobs")


class JobSetReconciler:
    """Brings the Jobs of one JobSet closer to its spec; level-triggered and idempotent."""

    def __init__(self, manager: kcr.Manager, own_writes: kcr.OwnWrites) -> None:
        self._client, self._clock, self._own_writes = manager.client, manager.clock, own_writes
        self._jobsets, self._jobs = manager.store(JobSet), manager.store(Job)
        self._recorder = manager.recorder("jobset-controller")
        self._control = kcr.DependentControl(
            manager.client, self._recorder, Job, store=self._jobs, own_writes=own_writes, random=manager.random
        )

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        """Write the status of a JobSet, then delete, create, suspend and resume its Jobs."""
        jobset = self._jobsets.get(key)
        if jobset is None:
            self._own_writes.forget(key)
        if jobset is None or jobset.metadata.deletion_timestamp is not None:
            return kcr.Result()
        plan = decide(jobset, self._jobs.by_index("owner", jobset.metadata.uid), self._clock.now())
        if plan.expires_in is not None and plan.expires_in.total_seconds() <= 0:
            await self._client.delete(jobset, propagation="Foreground")
            return kcr.Result()
        # Its resourceVersion is a precondition, so that no failure is counted twice.
        written = await self._client.patch_status(jobset, replace(jobset, status=plan.status))
        self._own_writes.wrote(key, self._jobsets, written)
        for condition in plan.status.conditions:
            if condition not in jobset.status.conditions:
                kind = "Warning" if condition.type in (FAILED, RESTARTED) else "Normal"
                self._recorder.event(jobset, kind, condition.reason, condition.message)
        await self._change_jobs(written, plan)
        return kcr.Result(requeue_after=plan.expires_in)

    async def _change_jobs(self, jobset: JobSet, plan: Plan) -> None:
        # Its name is free when its pods are gone: those of two attempts never run at the same time.
        deletions = await self._control.delete(jobset, plan.delete, propagation="Foreground")
        for job in plan.toggle:
            changed = replace(job, spec=replace(job.spec, suspend=jobset.spec.suspend))
            self._own_writes.wrote(jobset.key, self._jobs, await self._client.patch(job, changed))
        creations = await self._control.create(jobset, lambda n: new_job(jobset, *plan.create[n]), len(plan.create))
        if (error := deletions.error or creations.error) is not None:
            raise error


def new_job(jobset: JobSet, one: ReplicatedJob, index: int) -> kcr.Unstructured:
    """Return the Job of an index, for the present attempt."""
    labels = {
        JOBSET: jobset.metadata.name, REPLICATED_JOB: one.name, INDEX: str(index), ATTEMPT: str(jobset.status.restarts)
    }  # fmt: skip
    name, given = job_name(jobset, one, index), one.template.metadata
    metadata = kcr.ObjectMeta(name=name, labels={**given.labels, **labels}, annotations=given.annotations)
    spec, pod = one.template.spec, one.template.spec.get("template", {})
    of_pod = pod.get("metadata", {})
    pod = {**pod, "metadata": {**of_pod, "labels": {**of_pod.get("labels", {}), **labels}}}
    return NewJob(metadata=metadata).changed(spec={**spec, "suspend": jobset.spec.suspend, "template": pod})


@kcr.explains(JobSet, explain_jobset)
def setup(manager: kcr.Manager) -> None:
    """Attach the controller and the webhooks to a manager."""
    own_writes = kcr.OwnWrites()
    manager.add_controller(
        "jobset",
        JobSetReconciler(manager, own_writes),
        # Not for the status that it writes itself.
        watches=[kcr.watch(JobSet, predicate=kcr.generation_changed), kcr.owned(Job, by=JobSet)],
        own_writes=own_writes,
        workers=10,
        rights=kcr.rights(JobSet, "delete")
        | kcr.rights(JobSet, "patch", subresource="status")
        # Where owner references are checked (OwnerReferencesPermissionEnforcement).
        | kcr.rights(JobSet, "update", subresource="finalizers")
        | kcr.rights(Job, "get", "create", "patch", "delete"),
    )
    manager.add_webhook(JobSet, JobSetWebhook(), timeout_seconds=5)
