"""The obstacles of Jobs and Deployments: states, explanations of `kcr explain`, and last warnings.

The status of a Job says that pods are active, whether they run or wait endlessly for a node, a volume or an image. So a
state combines the status and the pods; `kcr explain` and the events have the obstacle of the Job.
"""

from collections.abc import Iterable, Iterator, Mapping

from kcr.api.apps import Deployment, DeploymentCondition, ReplicaSet
from kcr.api.batch import Job
from kcr.api.core import Event, Pod
from kcr.api.explanation import Code, Explanation
from kcr.api.meta import OwnerReference, Resource, controller_of
from kcr.client.explainers import last_seen
from kcr.controller.gates import is_paused
from kcr.controllers.job.commands.job_progress import ENDED, INTERIM, view_of
from kcr_devcluster.dev.cluster_state import DeploymentOverview, WarningOverview

# The states of Jobs that may be a problem; of all others the reason is in the spec.
UNSETTLED = ("Running", "Waiting", "Terminating")


def job_state(job: Job, is_running: bool, code: Code | None = None) -> str:
    """Return the state of a Job in a word or two, as `JobOverview` lists them.

    Args:
        job: The Job.
        is_running: Whether one of its pods runs.
        code: That of its explanation; None when it is not explained.
    """
    state = view_of(job).state
    if state in ENDED:
        return state
    if job.metadata.deletion_timestamp is not None or state in INTERIM:
        return "Terminating"
    if is_paused(job):
        return "Paused"
    if code is Code.MANAGED_BY_ANOTHER:
        return "Left alone"
    return state if state != "Running" or is_running else "Waiting"


def running_owners(pods: Iterable[Pod]) -> set[str]:
    """Return the uids of the controllers of pods with a container that runs.

    A pod is in the phase Running between its container's crashes, too.
    """
    owners = ((controller_of(pod.metadata), pod.status.container_statuses) for pod in pods)
    return {owner.uid for owner, reports in owners if owner and any(one.state.running for one in reports)}


def is_in_question(job: Job) -> bool:
    """Return whether the status of a Job leaves open why it is where it is."""
    view = view_of(job)
    if view.has_ended:
        return False
    if job_state(job, is_running=True) != "Running":
        return view.state != "Suspended"
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    left = parallelism if view.wanted is None else view.wanted - view.succeeded
    return not view.ready >= min(parallelism, left)


def is_available(deployment: Deployment) -> bool:
    """Return whether all pods of a Deployment are available, and of the present template."""
    spec, status = deployment.spec, deployment.status
    wanted = 1 if spec.replicas is None else spec.replicas
    is_observed = status.observed_generation >= (deployment.metadata.generation or 0)
    return is_observed and status.available_replicas == status.updated_replicas == status.replicas == wanted


class Workloads:
    """Jobs and Deployments with their dependents."""

    def __init__(
        self,
        pods: Iterable[Pod],
        replica_sets: Iterable[ReplicaSet],
        events: Iterable[Event],
        explanations: Mapping[str, Explanation],
    ) -> None:
        """Index the objects by owner.

        Args:
            pods: All pods.
            replica_sets: All ReplicaSets.
            events: All events.
            explanations: The headline of `kcr explain` for an object, by its uid.
        """
        self._explanations = explanations
        # The uids of the dependents that objects control, by their own uid.
        self._controlled: dict[str, list[str]] = {}
        # The Deployments of ReplicaSets.
        self._deployments: dict[str, str] = {}
        self._warnings: dict[str, Event] = {}
        for one in replica_sets:
            owner = self._add(one)
            if owner is not None and owner.kind == "Deployment":
                self._deployments[one.metadata.uid] = owner.name
        found = tuple(pods)
        self._running = running_owners(found)
        for pod in found:
            self._add(pod)
        for event in events:
            uid = event.involved_object.uid
            if event.type == "Warning" and (
                uid not in self._warnings or last_seen(self._warnings[uid]) <= last_seen(event)
            ):
                self._warnings[uid] = event

    def _add(self, obj: Resource) -> OwnerReference | None:
        owner = controller_of(obj.metadata)
        if owner is not None:
            self._controlled.setdefault(owner.uid, []).append(obj.metadata.uid)
        return owner

    def job_state(self, job: Job) -> str:
        """Return the state of a Job in a word or two."""
        explanation = self._explanations.get(job.metadata.uid)
        return job_state(job, job.metadata.uid in self._running, None if explanation is None else explanation.code)

    def deployment_of(self, pod: Pod) -> str:
        """Return the name of the Deployment that a pod belongs to; empty without one."""
        owner = controller_of(pod.metadata)
        return self._deployments.get(owner.uid, "") if owner is not None else ""

    def why(self, obj: Resource) -> str:
        """Return the headline of the explanation of an object; empty when there is none."""
        explanation = self._explanations.get(obj.metadata.uid)
        return "" if explanation is None else explanation.headline

    def has_remedy(self, obj: Resource) -> bool:
        """Return whether there is something that a user can do about an object."""
        explanation = self._explanations.get(obj.metadata.uid)
        return explanation is not None and bool(explanation.remedies)

    def last_warning(self, obj: Resource) -> WarningOverview | None:
        """Return the last warning about an object and its dependents; None without one."""
        found = [self._warnings[uid] for uid in self._tree(obj.metadata.uid) if uid in self._warnings]
        if not found:
            return None
        last, about = max(found, key=last_seen), ""
        if last.involved_object.uid != obj.metadata.uid:
            about = f"{last.involved_object.kind.lower()}/{last.involved_object.name}"
        return WarningOverview(
            about=about,
            reason=last.reason,
            message=" ".join(last.message.split()),
            count=last.times,
            last_seen=last_seen(last),
        )

    def _tree(self, uid: str) -> Iterator[str]:
        yield uid
        for one in self._controlled.get(uid, ()):
            yield from self._tree(one)

    def deployment(self, deployment: Deployment) -> DeploymentOverview:
        """Return the view of a Deployment."""
        metadata, spec, status = deployment.metadata, deployment.spec, deployment.status
        assert metadata.creation_timestamp is not None, "the server sets it"
        is_fine = is_available(deployment)
        warning = None if is_fine else self.last_warning(deployment)
        state = "Available" if is_fine else "Waiting"
        if metadata.deletion_timestamp is not None:
            state = "Terminating"
        elif is_paused(deployment):
            state = "Paused"
        return DeploymentOverview(
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            state=state,
            why="" if is_fine else self.why(deployment),
            is_troubled=warning is not None or (not is_fine and any(map(_is_trouble, status.conditions))),
            warning=warning,
            replicas=1 if spec.replicas is None else spec.replicas,
            ready=status.ready_replicas,
            updated=status.updated_replicas,
            created_at=metadata.creation_timestamp,
        )


def _is_trouble(condition: DeploymentCondition) -> bool:
    """Return whether a roll-out has failed or pods are refused. That too few are available is no trouble by itself."""
    return (condition.type, condition.status) in (("Progressing", "False"), ("ReplicaFailure", "True"))
