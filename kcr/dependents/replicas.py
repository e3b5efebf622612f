"""Objects of a label selector: claims, and the creation or deletion of pods up to a number.

Source: kubernetes/pkg/controller/replicaset/replica_set.go, claimPods, manageReplicas, getPodReplicaSets.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import NamedTuple, TypeVar

import msgspec

from kcr.api.conditions import find_condition, remove_condition, set_condition
from kcr.api.core import Pod
from kcr.api.meta import Condition, Key, Resource, controller_of
from kcr.api.pods import is_active, pod_from_template, ranked
from kcr.api.selectors import LabelSelector, matches
from kcr.arguments import checked, checked_on_failure
from kcr.client import Client
from kcr.controller.own_writes import OwnWrites
from kcr.dependents.claim import claim
from kcr.dependents.control import DependentControl
from kcr.errors import KcrError
from kcr.informer import Store

R = TypeVar("R", bound=Resource)
OwnerT = TypeVar("OwnerT", bound=Resource)

# The most pods that one reconcile creates or deletes.
BURST_REPLICAS = 500
REPLICA_FAILURE = "ReplicaFailure"


@checked
async def claim_selected(
    client: Client,
    owner: Resource,
    selector: LabelSelector,
    store: Store[R],
    own_writes: OwnWrites,
    *,
    among: Callable[[R], bool] = lambda obj: True,
) -> tuple[R, ...]:
    """Adopt the objects without a controller that a selector picks, release those that it no longer picks.

    Objects that were deleted by this process are left out, though the store still shows them.

    Args:
        client: Writes the references.
        owner: Whose objects are claimed.
        selector: Picks them.
        store: The objects.
        own_writes: The controller's; adoptions are noted in it.
        among: Which objects come into question, such as pods that are not terminal.

    Returns:
        The objects that belong to the owner now.

    Raises:
        KcrError: The first write that failed; the others were tried all the same.
    """
    deleted = own_writes.of(owner).deleted
    # The built-in index: the objects that it controls, and those of its namespace that have no controller.
    candidates = (
        *store.by_index("owner", owner.metadata.uid),
        *store.by_index("owner", f"{owner.metadata.namespace}/"),
    )
    claimed = await claim(
        client,
        owner,
        [obj for obj in candidates if among(obj) and obj.metadata.uid not in deleted],
        lambda obj: matches(selector, obj.metadata.labels),
    )
    for obj in claimed.adopted:
        own_writes.wrote(owner.key, store, obj)
    if claimed.errors:
        raise claimed.errors[0]
    return claimed.mine


@checked
def adopters(
    owners: Store[OwnerT], selector_of: Callable[[OwnerT], LabelSelector | None]
) -> Callable[[Resource], Iterator[Key]]:
    """Return the mapping function of a watch that enqueues the owners that may adopt an object without a controller.

    ```python
    kcr.watch(Pod, map_to=adopters(manager.store(ReplicaSet), lambda owner: owner.spec.selector))
    ```

    Args:
        owners: The owners.
        selector_of: Returns an owner's selector; None picks nothing.
    """

    def keys(obj: Resource) -> Iterator[Key]:
        if controller_of(obj.metadata) is not None:
            return
        for owner in owners.list(obj.metadata.namespace):
            selector = selector_of(owner)
            if selector is not None and matches(selector, obj.metadata.labels):
                yield owner.key

    return keys


class Scaling(NamedTuple):
    """How many pods to create, and which to delete; never both."""

    create: int = 0
    delete: tuple[Pod, ...] = ()


@checked_on_failure
def plan_scaling(owner: Resource, pods: Iterable[Pod], replicas: int) -> Scaling:
    """Compare the active pods of an owner with the number that is wanted.

    Args:
        owner: One that is being deleted makes and deletes nothing: its pods are garbage collected.
        pods: Its pods; those that are terminal or terminating are not counted.
        replicas: How many are wanted.
    """
    if owner.metadata.deletion_timestamp is not None:
        return Scaling()
    active = [pod for pod in pods if is_active(pod)]
    surplus = len(active) - replicas
    if surplus > 0:
        return Scaling(delete=tuple(ranked(active, by_cost=True))[: min(surplus, BURST_REPLICAS)])
    return Scaling(create=min(-surplus, BURST_REPLICAS))


@checked_on_failure
async def scale_pods(
    control: DependentControl[Pod], owner: Resource, template: msgspec.Raw, scaling: Scaling
) -> KcrError | None:
    """Create or delete pods as planned, and return the first error.

    A pod that does not exist any more is no error, nor is a terminating namespace.

    Args:
        control: Creates and deletes.
        owner: Becomes the controller of new pods.
        template: Their pod template, such as `spec.template` of a ReplicaSet.
        scaling: From `plan_scaling`.
    """
    if scaling.create:
        attempts = await control.create(owner, pod_from_template(template), scaling.create)
    else:
        attempts = await control.delete(owner, scaling.delete)
    return attempts.error


@checked_on_failure
def set_replica_failure(
    conditions: tuple[Condition, ...], scaling: Scaling, error: KcrError | None, now: datetime
) -> tuple[Condition, ...]:
    """Return the conditions with `ReplicaFailure` while pods cannot be created or deleted, and without it otherwise.

    A failure that lasts keeps its first message: each retry names another pod, and a status that changes with every
    retry would enqueue the owner at once, whatever its backoff.

    Args:
        conditions: As the status has them.
        scaling: The plan.
        error: From `scale_pods`; None after a success.
        now: The moment of a transition.

    Source: kubernetes/pkg/controller/replicaset/replica_set_utils.go, calculateStatus.
    """
    if error is None:
        return remove_condition(conditions, REPLICA_FAILURE)
    reason = "FailedCreate" if scaling.create else "FailedDelete"
    known = find_condition(conditions, REPLICA_FAILURE)
    if known is not None and known.reason == reason:
        return conditions
    failure = Condition(type=REPLICA_FAILURE, status="True", reason=reason, message=str(error))
    return set_condition(conditions, failure, now)
