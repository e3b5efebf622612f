"""Controller of ReplicaSets and ReplicationControllers, the older kind of the same.

Keeps N pods of a template, adopts and releases pods by their labels, writes the status. There is one node, so surplus
pods are not spread by node when some are deleted.

Source: kubernetes/pkg/controller/replicaset, replica_set.go and replica_set_utils.go; replication, conversion.go.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Generic, Self, TypeVar

import msgspec
from msgspec.structs import replace

from kcr.api.apps import ReplicaSet, ReplicaSetStatus
from kcr.api.core import Pod
from kcr.api.meta import FullResource, Key, Object
from kcr.api.pods import count_replicas, is_active, is_terminal, pod_from_template
from kcr.api.selectors import LabelSelector, matches
from kcr.controller import OwnWrites, Result, owned, watch
from kcr.dependents import (
    DependentControl,
    adopters,
    claim_selected,
    plan_scaling,
    scale_pods,
    set_replica_failure,
)
from kcr.errors import NotFoundError
from kcr.informer import Store
from kcr.manager import Manager

WORKERS = 5


class ReplicationControllerSpec(Object):
    """As that of a ReplicaSet, with a map of labels as selector."""

    replicas: int | None = None
    min_ready_seconds: int = 0
    selector: Mapping[str, str] = {}
    template: msgspec.Raw = msgspec.Raw(b"{}")


class ReplicationController(FullResource, api_version="v1", plural="replicationcontrollers"):
    """Keeps a number of alike pods running."""

    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()

    def detached(self) -> Self:
        """Return the object with a template of its own, so that the page it came in can be freed (ST-7)."""
        return replace(self, spec=replace(self.spec, template=self.spec.template.copy()))


PodSetT = TypeVar("PodSetT", ReplicaSet, ReplicationController)


class PodSetReconciler(Generic[PodSetT]):
    """Reconciles one of the two kinds; level-triggered and idempotent."""

    def __init__(self, manager: Manager, kind: type[PodSetT], component: str, own_writes: OwnWrites) -> None:
        """Make a reconciler.

        Args:
            manager: The manager.
            kind: The kind.
            component: The source of its events.
            own_writes: The controller's.
        """
        self._client, self._clock = manager.client, manager.clock
        self._replica_sets: Store[PodSetT] = manager.store(kind)
        self._pods = manager.store(Pod)
        self._own_writes = own_writes
        # The older kind has no such field in its status.
        self._counts_terminating = kind is ReplicaSet
        self._control = DependentControl(
            manager.client, manager.recorder(component), Pod,
            store=self._pods, own_writes=own_writes, random=manager.random, selects=picks,
        )  # fmt: skip

    async def reconcile(self, key: Key) -> Result:
        """Create or delete pods until there are as many as the spec says, and write the status."""
        found = self._replica_sets.get(key)
        if found is None:
            self._own_writes.forget(key)
            return Result()
        with suppress(NotFoundError):  # deleted meanwhile: a watch event follows
            return await self._sync(found)
        return Result()

    async def _sync(self, found: PodSetT) -> Result:
        pods = await claim_selected(
            self._client, found, selector_of(found), self._pods, self._own_writes,
            among=lambda pod: not is_terminal(pod),
        )  # fmt: skip
        scaling = plan_scaling(found, pods, replicas_of(found))
        error = await scale_pods(self._control, found, found.spec.template, scaling)
        now = self._clock.now()
        counts = count_replicas(pods, found.spec.min_ready_seconds, now)
        status = ReplicaSetStatus(
            replicas=counts.active,
            fully_labeled_replicas=_fully_labeled(found, pods),
            ready_replicas=counts.ready,
            available_replicas=counts.available,
            terminating_replicas=counts.terminating if self._counts_terminating else None,
            observed_generation=found.metadata.generation or 0,
            conditions=set_replica_failure(found.status.conditions, scaling, error, now),
        )
        written = await self._client.patch_status(found, replace(found, status=status))
        if written is not found:
            self._own_writes.wrote(found.key, self._replica_sets, written)
        if error is not None:
            raise error
        return Result(requeue_after=counts.next_available)


def selector_of(owner: ReplicaSet | ReplicationController) -> LabelSelector:
    """Return the selector of an object of either kind."""
    if isinstance(owner, ReplicationController):
        return LabelSelector(match_labels=owner.spec.selector)
    return owner.spec.selector or LabelSelector()


def picks(owner: ReplicaSet | ReplicationController, pod: Pod) -> bool:
    """Return whether the selector of an object of either kind picks a pod."""
    return matches(selector_of(owner), pod.metadata.labels)


def replicas_of(owner: ReplicaSet | ReplicationController) -> int:
    """Return how many pods an object of either kind is to have; one where it does not say."""
    return 1 if owner.spec.replicas is None else owner.spec.replicas


def _fully_labeled(owner: ReplicaSet | ReplicationController, pods: tuple[Pod, ...]) -> int:
    """Return how many active pods have all labels of the template."""
    wanted = pod_from_template(owner.spec.template).metadata.labels.items()
    return sum(is_active(pod) and wanted <= pod.metadata.labels.items() for pod in pods)


def setup(manager: Manager) -> None:
    """Add the controller of ReplicaSets to a manager."""
    _add(manager, ReplicaSet, "replicaset")


def setup_replication_controllers(manager: Manager) -> None:
    """Add the controller of ReplicationControllers to a manager."""
    _add(manager, ReplicationController, "replication")


def _add(manager: Manager, kind: type[PodSetT], name: str) -> None:
    own_writes = OwnWrites()
    manager.add_controller(
        name,
        PodSetReconciler(manager, kind, f"{name}-controller", own_writes),
        watches=[watch(kind), owned(Pod, by=kind), watch(Pod, map_to=adopters(manager.store(kind), selector_of))],
        own_writes=own_writes,
        workers=WORKERS,
    )
