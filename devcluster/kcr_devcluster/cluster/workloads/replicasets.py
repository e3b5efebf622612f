"""ReplicaSet controller: keeps N pods of a template, adopts and releases pods by their labels, writes the status.

There is one node, so surplus pods are not spread by node when some are deleted.

Source: kubernetes/pkg/controller/replicaset, replica_set.go and replica_set_utils.go.
"""

from contextlib import suppress

from msgspec.structs import replace

from kcr.api.apps import ReplicaSet, ReplicaSetStatus
from kcr.api.core import Pod
from kcr.api.meta import Key
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
from kcr.manager import Manager

WORKERS = 5


class ReplicaSetReconciler:
    """Reconciles ReplicaSets; level-triggered and idempotent."""

    def __init__(self, manager: Manager, own_writes: OwnWrites) -> None:
        self._client, self._clock = manager.client, manager.clock
        self._replica_sets, self._pods = manager.store(ReplicaSet), manager.store(Pod)
        self._own_writes = own_writes
        self._control = DependentControl(
            manager.client, manager.recorder("replicaset-controller"), Pod,
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

    async def _sync(self, found: ReplicaSet) -> Result:
        pods = await claim_selected(
            self._client, found, found.spec.selector or LabelSelector(), self._pods, self._own_writes,
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
            terminating_replicas=counts.terminating,
            observed_generation=found.metadata.generation or 0,
            conditions=set_replica_failure(found.status.conditions, scaling, error, now),
        )
        written = await self._client.patch_status(found, replace(found, status=status))
        if written is not found:
            self._own_writes.wrote(found.key, self._replica_sets, written)
        if error is not None:
            raise error
        return Result(requeue_after=counts.next_available)


def picks(replica_set: ReplicaSet, pod: Pod) -> bool:
    """Return whether a ReplicaSet's selector picks a pod."""
    return matches(replica_set.spec.selector or LabelSelector(), pod.metadata.labels)


def replicas_of(replica_set: ReplicaSet) -> int:
    """Return how many pods a ReplicaSet is to have; one where it does not say."""
    return 1 if replica_set.spec.replicas is None else replica_set.spec.replicas


def _fully_labeled(replica_set: ReplicaSet, pods: tuple[Pod, ...]) -> int:
    """Return how many active pods have all labels of the template."""
    wanted = pod_from_template(replica_set.spec.template).metadata.labels.items()
    return sum(is_active(pod) and wanted <= pod.metadata.labels.items() for pod in pods)


def setup(manager: Manager) -> None:
    """Add the controller to a manager."""
    own_writes = OwnWrites()
    may_adopt = adopters(manager.store(ReplicaSet), lambda found: found.spec.selector)
    manager.add_controller(
        "replicaset",
        ReplicaSetReconciler(manager, own_writes),
        watches=[watch(ReplicaSet), owned(Pod, by=ReplicaSet), watch(Pod, map_to=may_adopt)],
        own_writes=own_writes,
        workers=WORKERS,
    )
