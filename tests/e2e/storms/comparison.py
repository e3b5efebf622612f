"""A Job's status beside its pods, and beside what the pods wrote down themselves."""

from collections.abc import Iterator, Mapping

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.pods import completion_index
from tests.e2e.storms.storm import Histories
from tests.e2e.storms.workload import LOST, PlannedJob


def wrongs_of(planned: PlannedJob, seen: Histories) -> Iterator[str]:
    """Say what of a Job that has ended is not as it has to be."""
    job = seen.last(planned)
    assert job is not None
    pods = seen.pods.last[job.metadata.uid]
    most, allowed = seen.pods.most_active[job.metadata.uid], job.spec.parallelism or 1
    if most > allowed:
        yield f"{most} pods were active at once, of at most {allowed}"
    yield from planned.wrongs(job)
    yield from _counts(job, pods, seen)
    yield from _record(planned, pods)


def _counts(job: Job, pods: Mapping[str, Pod], seen: Histories) -> Iterator[str]:
    """Each pod that ended is counted once, as what it was."""
    good, bad = (
        {uid for uid, pod in pods.items() if pod.status.phase == phase and not _is_ignored(job, pod)}
        for phase in ("Succeeded", "Failed")
    )
    if job.spec.completion_mode == "Indexed":
        indexes = [completion_index(pods[uid]) for uid in good]
        if len(indexes) != len(set(indexes)) or len(indexes) != job.status.succeeded:
            yield f"{job.status.succeeded} indexes have succeeded, pods of {sorted(map(str, indexes))} have"
    elif seen.jobs.listed[job.metadata.uid, "succeeded"] != good or job.status.succeeded != len(good):
        yield f"{job.status.succeeded} are counted as succeeded, and {len(good)} pods have"
    if seen.jobs.listed[job.metadata.uid, "failed"] != bad or job.status.failed != len(bad):
        yield f"{job.status.failed} are counted as failed, and {len(bad)} pods have"


def _is_ignored(job: Job, pod: Pod) -> bool:
    policy = job.spec.pod_failure_policy
    return policy is not None and LOST in exit_codes(pod)


def exit_codes(pod: Pod) -> list[int]:
    """How the containers of a pod ended."""
    ends = [status.state.terminated for status in pod.status.container_statuses]
    return [end.exit_code for end in ends if end is not None]


def _record(planned: PlannedJob, pods: Mapping[str, Pod]) -> Iterator[str]:
    """A pod that counts as succeeded said so itself before it ended; one that counts as failed, too, or was lost."""
    said = planned.said()
    names = [pod.metadata.name for pod in pods.values()]
    if len(names) != len(set(names)):
        yield "two pods had the same name"
    if not {name for name, _ in said} <= set(names):
        yield "pods ran that were never seen"
    for pod in pods.values():
        name = pod.metadata.name
        if pod.status.phase == "Succeeded" and not said[name, "good"]:
            yield f"pod {name} has succeeded and never said so"
        if pod.status.phase == "Failed" and LOST not in exit_codes(pod) and not (said[name, "bad"] or _was_told(pod)):
            yield f"pod {name} has failed with {exit_codes(pod)} and never said so"


def _was_told(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None
