"""Disruption controller: writes into the status of each PodDisruptionBudget how many of its pods may be disrupted.

The eviction subresource counts `disruptionsAllowed` down and lists the pod in `disruptedPods`. Such a pod does not
count as healthy from then on, until it is deleted, or for two minutes when it is not.

Two duties of upstream's controller are left out: to reset the condition DisruptionTarget of pods that are not deleted
after all, and the event `UnmanagedPods`.

Source: kubernetes/pkg/controller/disruption/disruption.go; component-helpers/apps/poddisruptionbudget/helpers.go.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from msgspec.structs import replace

from kcr.api.apps import ReplicaSet
from kcr.api.conditions import is_condition_true, set_condition
from kcr.api.core import Pod
from kcr.api.durations import parse_int
from kcr.api.full.policy_v1 import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from kcr.api.meta import Condition, Key, OwnerReference, controller_of
from kcr.api.selectors import matches
from kcr.api.unstructured import unstructured
from kcr.client.discovery import served_kinds
from kcr.controller import Result, watch
from kcr.errors import KcrError, NotFoundError
from kcr.informer import Store
from kcr.manager import Manager

CONDITION = "DisruptionAllowed"
# How long an evicted pod may stay before it counts as healthy again. Source: disruption.go, DeletionTimeout.
DELETION_TIMEOUT = timedelta(minutes=2)


class UnknownScaleError(KcrError):
    """How many pods the controllers of pods want cannot be found out; the message says why, in upstream's words."""


def selects(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """Return whether a budget is for a pod: without a selector it is for none, with an empty one for all."""
    if budget.spec.selector is None or budget.metadata.namespace != pod.metadata.namespace:
        return False
    return matches(budget.spec.selector, pod.metadata.labels)


def needs_scale(spec: PodDisruptionBudgetSpec) -> bool:
    """Return whether a budget depends on the replicas that the pods' controllers want."""
    return spec.max_unavailable is not None or isinstance(spec.min_available, str)


def expected_and_desired(spec: PodDisruptionBudgetSpec, pods: int, scale: int) -> tuple[int, int]:
    """Return how many pods a budget expects, and how many of them have to be healthy.

    Args:
        spec: The budget's.
        pods: How many pods it selects.
        scale: How many replicas their controllers want.

    Source: disruption.go, getExpectedPodCount.
    """
    if spec.max_unavailable is not None:
        return scale, max(0, scale - _rounded_up(spec.max_unavailable, scale))
    if spec.min_available is None:
        return 0, 0
    expected = scale if needs_scale(spec) else pods
    return expected, _rounded_up(spec.min_available, expected)


def _rounded_up(given: int | str, total: int) -> int:
    # A share was at most 100 % when it was stored.
    return -(-(parse_int(given.removesuffix("%")) or 0) * total // 100) if isinstance(given, str) else given


def still_disrupted(disrupted: Mapping[str, datetime], pods: Iterable[Pod], now: datetime) -> dict[str, datetime]:
    """Return the evicted pods that are still to be deleted.

    Source: disruption.go, buildDisruptedPodMap.
    """
    return {
        pod.metadata.name: disrupted[pod.metadata.name]
        for pod in pods
        if pod.metadata.deletion_timestamp is None
        and pod.metadata.name in disrupted
        and disrupted[pod.metadata.name] + DELETION_TIMEOUT >= now
    }


def compute_status(
    budget: PodDisruptionBudget, pods: Iterable[Pod], counts: tuple[int, int], now: datetime
) -> PodDisruptionBudgetStatus:
    """Return the status of a budget.

    Args:
        budget: The budget.
        pods: The pods that it selects.
        counts: How many pods are expected, and how many have to be healthy.
        now: The time.

    Source: disruption.go, countHealthyPods, updatePdbStatus; helpers.go, UpdateDisruptionAllowedCondition.
    """
    pods, (expected, desired) = tuple(pods), counts
    disrupted = still_disrupted(budget.status.disrupted_pods, pods, now)
    healthy = sum(_is_ready(pod) and pod.metadata.name not in disrupted for pod in pods)
    # A budget that expects no pods allows none: the first ones may have come meanwhile.
    allowed = max(0, healthy - desired) if expected > 0 else 0
    status, reason = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    generation = budget.metadata.generation
    condition = Condition(type=CONDITION, status=status, reason=reason, observed_generation=generation)
    return PodDisruptionBudgetStatus(
        current_healthy=healthy,
        desired_healthy=desired,
        expected_pods=expected,
        disruptions_allowed=allowed,
        disrupted_pods=disrupted,
        observed_generation=generation,
        conditions=set_condition(budget.status.conditions, condition, now),
    )


def failed_status(status: PodDisruptionBudgetStatus, why: str, now: datetime) -> PodDisruptionBudgetStatus:
    """Return the status of a budget that cannot be computed: it allows no disruption.

    Source: disruption.go, failSafe.
    """
    observed = status.observed_generation
    condition = Condition(
        type=CONDITION, status="False", reason="SyncFailed", message=why, observed_generation=observed
    )
    return replace(status, disruptions_allowed=0, conditions=set_condition(status.conditions, condition, now))


def _is_ready(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is None and is_condition_true(pod.status.conditions, "Ready")


class DisruptionReconciler:
    """Reconciles one PodDisruptionBudget; level-triggered and idempotent."""

    def __init__(self, manager: Manager) -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._events = manager.recorder("controllermanager")
        self._budgets = manager.store(PodDisruptionBudget)
        self._pods = manager.store(Pod)

    def keys(self, pod: Pod) -> list[Key]:
        """Return the keys of the budgets that are for a pod."""
        return [budget.key for budget in self._budgets.snapshot() if selects(budget, pod)]

    async def reconcile(self, key: Key) -> Result:
        """Write the status of a budget, and return when the first evicted pod counts again."""
        budget = self._budgets.get(key)
        if budget is None:
            return Result()
        pods = [pod for pod in self._pods.by_index("namespace", key.namespace) if selects(budget, pod)]
        if not pods:
            self._events.event(budget, "Normal", "NoPods", "No matching pods found")
        now = self._clock.now()
        try:
            scale = await self._scale(pods) if needs_scale(budget.spec) else 0
        except UnknownScaleError as error:
            why = f"Failed to calculate the number of expected pods: {error}"
            self._events.event(budget, "Warning", "CalculateExpectedPodCountFailed", why)
            status = failed_status(budget.status, str(error), now)
        else:
            status = compute_status(budget, pods, expected_and_desired(budget.spec, len(pods), scale), now)
        await self._client.patch_status(budget, replace(budget, status=status))
        first = min(status.disrupted_pods.values(), default=None)
        # A second later: times are stored in whole seconds, and the pod counts only when its time is over.
        rest = None if first is None else (first + DELETION_TIMEOUT - now).total_seconds() + 1
        return Result(requeue_after=rest)

    async def _scale(self, pods: Iterable[Pod]) -> int:
        """Return how many replicas the controllers of pods want together; pods without a controller do not count.

        Raises:
            UnknownScaleError: The controller of a pod does not exist any more, or its kind has no scale.

        Source: disruption.go, getExpectedScale.
        """
        scales: dict[str, int] = {}
        seen: set[str] = set()
        for pod in pods:
            owner = controller_of(pod.metadata)
            if owner is None or owner.uid in seen:
                continue
            seen.add(owner.uid)
            owner = await self._top(owner, pod.metadata.namespace)
            if owner.uid not in scales:
                scales[owner.uid] = await self._replicas(owner, pod.key)
        return sum(scales.values())

    async def _top(self, owner: OwnerReference, namespace: str) -> OwnerReference:
        """Return the Deployment of a ReplicaSet, if it has one; of all else the owner itself.

        Source: disruption.go, getPodReplicaSet and getPodDeployment.
        """
        if (owner.kind, owner.api_version) != ("ReplicaSet", "apps/v1"):
            return owner
        try:
            found = await self._client.get(ReplicaSet, Key(namespace, owner.name))
        except NotFoundError:
            return owner
        if found.metadata.uid != owner.uid:
            # Another one of the same name.
            return owner
        above = controller_of(found.metadata)
        return above if above is not None and above.kind == "Deployment" else owner

    async def _replicas(self, owner: OwnerReference, pod: Key) -> int:
        kind = (await served_kinds(self._client, owner.api_version)).get(owner.kind)
        if kind is None:
            raise UnknownScaleError(f'found no controllers for pod "{pod.name}"')
        owners = unstructured(owner.api_version, owner.kind, plural=kind.plural, namespaced=kind.namespaced)
        key = Key(pod.namespace if kind.namespaced else "", owner.name)
        try:
            found = await self._client.get(owners, key)
        except NotFoundError:
            found = None
        if found is None or found.metadata.uid != owner.uid:
            raise UnknownScaleError(f'found no controllers for pod "{pod.name}"')
        try:
            return (await self._client.scale(owners, key)).spec.replicas
        except NotFoundError:
            raise UnknownScaleError(f"{kind.display} does not implement the scale subresource") from None


def _pod_changed(old: Pod | None, new: Pod | None) -> bool:
    """Let pass events that matter to budgets: creation, deletion, changes of labels, readiness and owner references."""
    if old is None or new is None:
        return True
    return old.metadata.labels != new.metadata.labels or _is_ready(old) != _is_ready(new) or (
        old.metadata.owner_references != new.metadata.owner_references
    )  # fmt: skip


def setup(manager: Manager) -> Store[PodDisruptionBudget]:
    """Add the controller, and return the store of all budgets."""
    reconciler = DisruptionReconciler(manager)
    pods = watch(Pod, map_to=reconciler.keys, predicate=_pod_changed)
    manager.add_controller("disruption", reconciler, watches=[watch(PodDisruptionBudget), pods])
    return manager.store(PodDisruptionBudget)
