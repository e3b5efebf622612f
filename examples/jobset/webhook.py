"""The webhooks of JobSets: a defaulter and a validator."""

from msgspec.structs import replace

import kcr
from examples.jobset.api import JobSet, ReplicatedJob
from examples.jobset.decisions import job_name

# The name of a Job is a label of its pods, and their names have an index and five letters more.
LONGEST_NAME = 52


class JobSetWebhook:
    """Completes and checks JobSets before they are stored."""

    def default(self, obj: JobSet, request: kcr.WebhookRequest) -> JobSet:
        """Make Jobs Indexed, and let containers restart on failure, where the templates do not say."""
        jobs = tuple(_completed(one) for one in obj.spec.replicated_jobs)
        return replace(obj, spec=replace(obj.spec, replicated_jobs=jobs))

    def validate_create(self, obj: JobSet, request: kcr.WebhookRequest) -> None:
        """Refuse names that are too long or unknown, and Jobs that delete themselves."""
        for number, one in enumerate(obj.spec.replicated_jobs):
            field, longest = f"spec.replicatedJobs[{number}]", job_name(obj, one, max(one.replicas - 1, 0))
            if len(longest) > LONGEST_NAME:
                raise kcr.Denied(f"the Job {longest} would have more than {LONGEST_NAME} characters", field=field)
            if "ttlSecondsAfterFinished" in one.template.spec:
                why = "a deleted Job would be created again: use spec.ttlSecondsAfterFinished"
                raise kcr.Denied(why, field=f"{field}.template.spec.ttlSecondsAfterFinished")
        names = {one.name for one in obj.spec.replicated_jobs}
        rules = obj.spec.failure_policy.rules if obj.spec.failure_policy else ()
        targets = [obj.spec.success_policy.target_replicated_jobs, *(rule.target_replicated_jobs for rule in rules)]
        for target in (target for some in targets for target in some if target not in names):
            raise kcr.Denied(f"no replicated Job is called {target}", field="spec")

    def validate_update(self, old: JobSet, new: JobSet, request: kcr.WebhookRequest) -> None:
        """Refuse changes of all that Jobs were created for."""
        ttl = new.spec.ttl_seconds_after_finished
        if replace(old.spec, suspend=new.spec.suspend, ttl_seconds_after_finished=ttl) != new.spec:
            raise kcr.Denied("only suspend and ttlSecondsAfterFinished may change", field="spec")


def _completed(one: ReplicatedJob) -> ReplicatedJob:
    template = one.template.spec.get("template", {})
    pod_spec = {"restartPolicy": "OnFailure", **template.get("spec", {})}
    spec = {"completionMode": "Indexed", **one.template.spec, "template": {**template, "spec": pod_spec}}
    return replace(one, template=replace(one.template, spec=spec))
