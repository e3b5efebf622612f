"""The webhooks of JobSets: a defaulter and a validator; `setup` adds them to the controller.

Run controller and webhooks on the cluster of your kubeconfig: `python -m examples.jobset.webhook`
"""

from typing import Any

import msgspec
from msgspec.structs import replace

import kcr
from examples.jobset import controller
from examples.jobset.api import JobSet, JobSetSpec, ReplicatedJob
from examples.jobset.decisions import job_name
from examples.jobset.explanation import explain_jobset
from kcr.api import codec

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
        names = [one.name for one in obj.spec.replicated_jobs]
        for number, one in enumerate(obj.spec.replicated_jobs):
            field, longest = f"spec.replicatedJobs[{number}]", job_name(obj, one, max(one.replicas - 1, 0))
            if len(longest) > LONGEST_NAME:
                raise kcr.Denied(f"the Job {longest} would have more than {LONGEST_NAME} characters", field=field)
            if "ttlSecondsAfterFinished" in _spec_of(one):
                why = "a deleted Job would be created again: use spec.ttlSecondsAfterFinished"
                raise kcr.Denied(why, field=f"{field}.template.spec.ttlSecondsAfterFinished")
        rules = obj.spec.failure_policy.rules if obj.spec.failure_policy else ()
        targets = [obj.spec.success_policy.target_replicated_jobs, *(rule.target_replicated_jobs for rule in rules)]
        for target in (target for some in targets for target in some if target not in names):
            raise kcr.Denied(f"no replicated Job is called {target}", field="spec")

    def validate_update(self, old: JobSet, new: JobSet, request: kcr.WebhookRequest) -> None:
        """Refuse changes of all that Jobs were created for: `suspend` and the time to live may change."""
        ttl = new.spec.ttl_seconds_after_finished
        steered = replace(old.spec, suspend=new.spec.suspend, ttl_seconds_after_finished=ttl)
        if new.metadata.deletion_timestamp is None and _plain(steered) != _plain(new.spec):
            raise kcr.Denied("only suspend and ttlSecondsAfterFinished may change", field="spec")


def _plain(spec: JobSetSpec) -> Any:
    """Return a spec that can be compared: the order of fields in the templates means nothing."""
    return msgspec.json.decode(codec.encode(spec))


def _spec_of(one: ReplicatedJob) -> dict[str, Any]:
    spec: dict[str, Any] = msgspec.json.decode(one.template.spec)
    return spec


def _completed(one: ReplicatedJob) -> ReplicatedJob:
    spec = {"completionMode": "Indexed", **_spec_of(one)}
    pod = spec.setdefault("template", {}).setdefault("spec", {})
    pod.setdefault("restartPolicy", "OnFailure")
    return replace(one, template=replace(one.template, spec=msgspec.Raw(msgspec.json.encode(spec))))


@kcr.explains(JobSet, explain_jobset)
def setup(manager: kcr.Manager) -> None:
    """Attach the controller and the webhooks to a manager."""
    controller.setup(manager)
    manager.add_webhook(JobSet, JobSetWebhook(), timeout_seconds=5)


if __name__ == "__main__":
    kcr.run(setup)
