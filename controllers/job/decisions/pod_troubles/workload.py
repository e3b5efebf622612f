"""Why a Deployment, ReplicaSet, StatefulSet or DaemonSet is where it is: through to the pod that is the cause."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from msgspec.structs import replace

from kcr.api.conditions import conditions_of, find_condition
from kcr.api.core import Event
from kcr.api.durations import human_duration
from kcr.api.explanation import Code, Explanation, Step, ago, counted, deletion_case, owner_text
from kcr.api.meta import Condition
from kcr.api.pods import is_active, is_ready, is_terminating
from kcr.api.unstructured import Unstructured
from kcr.controllers.job.decisions.pod_troubles.problems import (
    PATIENCE,
    DetailedPod,
    PodContext,
    PodProblem,
    alike,
    text_of,
    trouble_of,
)
from kcr.refusals import refusal_of

# So many pods are named; of the others the counts say enough.
_NAMED = 2


class ObservedWorkload(NamedTuple):
    """A workload and its pods.

    Attributes:
        obj: The workload.
        pods: The pods that it controls, those of its ReplicaSets included.
        tries: Events about created and refused pods, of it and of its latest ReplicaSet, the latest last.
        context: The state beside the pods.
        now: The moment to judge at.
    """

    obj: Unstructured
    pods: tuple[DetailedPod, ...]
    tries: tuple[Event, ...]
    context: PodContext
    now: datetime

    @property
    def kind(self) -> str:
        """Its kind in lower case, as commands name it."""
        return self.obj.resource.kind.lower()

    @property
    def spec(self) -> dict[str, Any]:
        """Its spec as plain values."""
        found = self.obj.get("spec")
        return found if isinstance(found, dict) else {}

    @property
    def status(self) -> dict[str, Any]:
        """Its status as plain values."""
        found = self.obj.get("status")
        return found if isinstance(found, dict) else {}

    @property
    def wanted(self) -> int:
        """How many pods are wanted; of a DaemonSet, on how many nodes one is to run."""
        if self.kind == "daemonset":
            return int(self.status.get("desiredNumberScheduled") or 0)
        replicas = self.spec.get("replicas")
        return replicas if isinstance(replicas, int) else 1

    @property
    def active(self) -> tuple[DetailedPod, ...]:
        """Its active pods, by name."""
        return tuple(sorted(filter(is_active, self.pods), key=lambda pod: pod.metadata.name))

    def find(self, kind: str) -> Condition | None:
        """Return a condition of its status."""
        return find_condition(conditions_of(self.obj), kind)


Rule = Callable[[ObservedWorkload], Explanation | None]


def explain_workload(seen: ObservedWorkload) -> Explanation:
    """Return why a workload is where it is."""
    case = next(found for rule in _RULES if (found := rule(seen)) is not None)
    return replace(
        case,
        reasons=tuple(dict.fromkeys((*case.reasons, *_stuck_rollout(seen), *owner_text(seen.obj.metadata)))),
        wanted=_wanted(seen),
        present=_present(seen),
    )


def _deleted(seen: ObservedWorkload) -> Explanation | None:
    return deletion_case(seen.obj.resource, seen.obj.metadata, seen.now)


def _unobserved(seen: ObservedWorkload) -> Explanation | None:
    metadata, observed = seen.obj.metadata, seen.status.get("observedGeneration")
    if isinstance(observed, int) and observed >= (metadata.generation or 0):
        return None
    age = seen.now - (metadata.creation_timestamp or seen.now)
    remedies = [f"see whether a controller of {seen.kind}s runs: kube-controller-manager has one"]
    if seen.kind in ("statefulset", "daemonset"):
        remedies.append("kcr dev runs none of this kind: it is kept, and makes no pods")
    if observed is None:
        fact = f"it was created {human_duration(age)} ago, and its status has no observedGeneration"
        code = Code.NO_CONTROLLER if age >= PATIENCE else Code.WAITING
        return Explanation(code, "no controller has taken it up", reasons=(fact,), remedies=tuple(remedies))
    fact = f"status.observedGeneration is {observed}: the status is that of an earlier spec"
    headline = f"waits for its controller, which has not observed generation {metadata.generation}"
    return Explanation(Code.NO_CONTROLLER, headline, reasons=(fact,), remedies=tuple(remedies[:1]))


def _refused(seen: ObservedWorkload) -> Explanation | None:
    if len(seen.active) >= seen.wanted or not seen.tries or seen.tries[-1].reason != "FailedCreate":
        return None
    last = seen.tries[-1]
    namespace, name = seen.obj.metadata.namespace, seen.obj.metadata.name
    change = f"change {seen.kind}/{name} to a template"
    refusal = refusal_of(last.message, namespace=namespace, resource="pods", change=change)
    fact = f"{ago(last.last_seen, seen.now)}: {last.message}"
    step = Step("its controller tries again by itself, each time after a longer wait")
    return Explanation(
        Code.REFUSED, f"cannot create pods: {refusal.cause}", steps=(step,), reasons=(fact,),
        remedies=(refusal.remedy,), webhook=refusal.webhook,
    )  # fmt: skip


def _with_problem(seen: ObservedWorkload) -> Explanation | None:
    """Some of its pods do not start, crash, or do not become ready."""
    groups = alike(problem for pod in seen.active if (problem := trouble_of(pod, seen.context, seen.now)) is not None)
    main = next((group for group in groups if group[0].symptom.clause), None)
    if main is None:
        return None
    count, first = len(main), main[0]
    total = max(seen.wanted, len(seen.active))
    headline = f"has {'1 pod' if total == 1 else f'{count} of {total} pods'} {first.symptom.clause}"
    facts = [text_of(group) for group in groups[:_NAMED]]
    remedies = list(dict.fromkeys(remedy for one, *_ in groups[:_NAMED] for remedy in one.remedies))
    where = f"-n {first.pod.metadata.namespace} pod/{first.pod.metadata.name}"
    return Explanation(
        Code.PODS_NOT_READY,
        headline,
        steps=tuple(_next_of(seen, first)),
        reasons=tuple(facts),
        remedies=(*remedies, f"see the pod: kcr explain {where}"),
    )


def _next_of(seen: ObservedWorkload, problem: PodProblem) -> list[Step]:
    """Return the steps that wait for a pod with a problem: an ordered StatefulSet creates its other pods later."""
    if seen.kind == "statefulset" and seen.spec.get("podManagementPolicy") != "Parallel":
        left = seen.wanted - len(seen.active)
        return [Step(f"creates {left} more when {problem.pod.metadata.name} is ready")] if left > 0 else []
    return []


def _paused(seen: ObservedWorkload) -> Explanation | None:
    updated = seen.status.get("updatedReplicas") or 0
    if not seen.spec.get("paused") or updated >= seen.wanted:
        return None
    namespace, name = seen.obj.metadata.namespace, seen.obj.metadata.name
    fact = f"spec.paused is true, and {updated} of {counted(seen.wanted, 'pod')} have the latest template"
    command = f"kubectl -n {namespace} rollout resume deployment/{name}"
    return Explanation(Code.WAITING, "its roll-out is paused", reasons=(fact,), remedies=(f"to resume it: {command}",))


def _empty(seen: ObservedWorkload) -> Explanation | None:
    if seen.wanted or seen.active:
        return None
    if seen.kind == "daemonset":
        return Explanation(Code.WAITING, "has nothing to do: no node fits its pods")
    namespace, name = seen.obj.metadata.namespace, seen.obj.metadata.name
    command = f"kubectl -n {namespace} scale {seen.kind}/{name} --replicas=1"
    return Explanation(
        Code.HEALTHY, "has nothing to do: it wants 0 pods", remedies=(f"to have it run a pod: {command}",)
    )


def _waits(seen: ObservedWorkload) -> Explanation | None:
    ready = sum(map(is_ready, seen.active))
    if ready >= seen.wanted and len(seen.active) <= seen.wanted:
        return None
    if len(seen.active) > seen.wanted:
        surplus = counted(len(seen.active) - seen.wanted, "pod")
        return Explanation(Code.WAITING, f"is being rolled out or scaled down: {surplus} more than wanted")
    step = Step("is available when all its pods are ready")
    return Explanation(Code.RUNNING, f"waits for {counted(seen.wanted - ready, 'pod')} to become ready", steps=(step,))


def _runs(seen: ObservedWorkload) -> Explanation:
    return Explanation(Code.HEALTHY, f"is available: {seen.wanted} of {counted(seen.wanted, 'pod')} ready")


# The first to hold is the headline; the last one always holds.
_RULES: tuple[Rule, ...] = (_deleted, _refused, _with_problem, _unobserved, _paused, _empty, _waits, _runs)


def _wanted(seen: ObservedWorkload) -> str:
    generation = seen.obj.metadata.generation
    return ", ".join([counted(seen.wanted, "pod"), *([f"generation {generation}"] if generation else [])])


def _present(seen: ObservedWorkload) -> str:
    ready = sum(map(is_ready, seen.active))
    parts = [f"{counted(len(seen.active), 'pod')}, {ready} ready"]
    ending: Sequence[DetailedPod] = tuple(filter(is_terminating, seen.pods))
    return ", ".join([*parts, *([f"{len(ending)} terminating"] if ending else [])])


def _stuck_rollout(seen: ObservedWorkload) -> Iterable[str]:
    """Yield that a roll-out has made no progress within its deadline."""
    found = seen.find("Progressing")
    if found is not None and found.status == "False":
        yield f"its roll-out is stuck, {ago(found.last_transition_time, seen.now)}: {found.reason}: {found.message}"
