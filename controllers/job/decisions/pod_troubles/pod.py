"""Why a pod is where it is: its node, its containers, its probes, its volumes."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from kcr.api.conditions import find_condition
from kcr.api.core import ContainerStatus
from kcr.api.durations import human_duration
from kcr.api.explanation import Code, Explanation, ago, counted, deletion_case, owner_text
from kcr.api.meta import ObjectMeta, controller_of
from kcr.api.pods import is_ready, is_terminal
from kcr.controllers.job.decisions.pod_troubles.failures import failed_container
from kcr.controllers.job.decisions.pod_troubles.problems import (
    PATIENCE,
    DetailedPod,
    PodContext,
    PodProblem,
    exit_text,
    joined,
    problem_of,
    statuses_of,
    trouble_of,
)

Rule = Callable[[DetailedPod, PodContext, datetime], Explanation | None]


def explain_pod(pod: DetailedPod, context: PodContext, now: datetime) -> Explanation:
    """Return why a pod is where it is.

    Args:
        pod: The pod.
        context: Warnings about it, its node, and the nodes that take no new pods.
        now: The moment to judge at.
    """
    case = next(found for rule in _RULES if (found := rule(pod, context, now)) is not None)
    owner = owner_text(pod.metadata)
    return replace(
        case, reasons=tuple(dict.fromkeys((*case.reasons, *owner))), wanted=_wanted(pod), present=_present(pod)
    )


def _deleted(pod: DetailedPod, context: PodContext, now: datetime) -> Explanation | None:
    """It was deleted: within its grace period, stuck on its node, or held by finalizers."""
    deadline = pod.metadata.deletion_timestamp
    if deadline is None:
        return None
    if is_terminal(pod) or now <= deadline + PATIENCE:
        return deletion_case(pod.resource, pod.metadata, now)
    late = human_duration(now - deadline)
    lost = problem_of(pod, context, now)
    node = pod.spec.node_name
    who = f"its node {node}" if node else "no node"
    facts = [f"its grace period has been over for {late}, and {who} has not reported its end"]
    facts += [_of_itself(lost)] if lost is not None and node else []
    force = f"kubectl -n {pod.metadata.namespace} delete pod {pod.metadata.name} --force --grace-period=0"
    remedies = [f"see whether its node is ready: kcr explain node/{node}"] if node else []
    remedies.append(f"if it runs no more for certain: {force}")
    return Explanation(Code.TERMINATING, "is stuck terminating", reasons=tuple(facts), remedies=tuple(remedies))


def _ended(pod: DetailedPod, context: PodContext, now: datetime) -> Explanation | None:
    if pod.status.phase == "Succeeded":
        return Explanation(Code.FINISHED, "has succeeded", reasons=tuple(_ends(pod, now)))
    if pod.status.phase != "Failed":
        return None
    facts = [joined(pod.status.reason, pod.status.message), *reversed([*_ends(pod, now, failed=True)])]
    headline, *reasons = [*filter(None, facts)] or ["no container says why"]
    remedies = []
    if (container := failed_container(pod)) is not None:
        remedies.append(
            f"see its output: kubectl -n {pod.metadata.namespace} logs {pod.metadata.name} -c {container.name}"
        )
    if pod.status.reason == "Evicted":
        remedies.append(f"see what its node lacks: kcr explain node/{pod.spec.node_name}")
    return Explanation(Code.PODS_NOT_READY, f"has failed: {headline}", (), tuple(reasons), tuple(remedies))


def _ends(pod: DetailedPod, now: datetime, *, failed: bool = False) -> Iterator[str]:
    for status in statuses_of(pod):
        end = status.state.terminated
        if end is not None and (end.exit_code or not failed):
            yield f"container {status.name} ended {ago(end.finished_at, now)} with {exit_text(end)}"


def _obstructed(pod: DetailedPod, context: PodContext, now: datetime) -> Explanation | None:
    problem = trouble_of(pod, context, now)
    if problem is None:
        return None
    clause = problem.symptom.clause
    return Explanation(
        Code.PODS_NOT_READY if clause else Code.RUNNING,
        problem.symptom.statement if clause else "starts",
        reasons=(_of_itself(problem),),
        remedies=problem.remedies,
    )


def _of_itself(problem: PodProblem) -> str:
    """Return the fact without the pod's name, which the headline has."""
    name = f"pod {problem.pod.metadata.name}"
    return problem.text.removeprefix(f"{name}: ").replace(f"{name} ", "it ", 1)


def _runs(pod: DetailedPod, context: PodContext, now: datetime) -> Explanation:
    ready = find_condition(pod.status.conditions, "Ready")
    since = ready.last_transition_time if ready is not None and is_ready(pod) else None
    if since is not None:
        age = human_duration(max(now - since, timedelta()))
        return Explanation(Code.RUNNING, f"runs, and has been ready for {age}")
    return Explanation(Code.RUNNING, f"is in phase {pod.status.phase or 'unknown'}")


# The first to hold is the headline; the last one always holds.
_RULES: tuple[Rule, ...] = (_deleted, _ended, _obstructed, _runs)


def change_of(metadata: ObjectMeta) -> str:
    """Return how a user gets a different pod, up to the change itself: a pod's own spec cannot be changed."""
    owner = controller_of(metadata)
    if owner is None:
        return "create the pod anew with"
    if owner.kind == "Job":
        return "create its Job anew with"
    template = metadata.labels.get("pod-template-hash", "")
    if owner.kind == "ReplicaSet" and template and owner.name.endswith(f"-{template}"):
        return f"change deployment/{owner.name.removesuffix(f'-{template}')} to"
    return f"change {owner.kind.lower()}/{owner.name} to"


def _wanted(pod: DetailedPod) -> str:
    containers = [f"{one.name} ({one.image})" for one in pod.spec.containers]
    policy = [f"restartPolicy {pod.spec.restart_policy}"] if pod.spec.restart_policy else []
    noun = "container" if len(containers) == 1 else "containers"
    return ", ".join([f"{noun} {', '.join(containers)}", *policy])


def _present(pod: DetailedPod) -> str:
    statuses: Sequence[ContainerStatus] = pod.status.container_statuses
    parts = [pod.status.phase or "no phase", f"on node {pod.spec.node_name}" if pod.spec.node_name else "on no node"]
    ready = sum(one.ready for one in statuses)
    parts.append(f"{ready} of {counted(len(pod.spec.containers), 'container')} ready")
    restarts = sum(one.restart_count for one in statuses_of(pod))
    return ", ".join([*parts, *([counted(restarts, "restart")] if restarts else [])])
