"""A ReplicaSet controller: keeps a number of alike pods running, adopts and releases pods by their labels.

Run it on `kcr dev --no-controllers`, or on a cluster whose kube-controller-manager has
`--controllers=*,-replicaset-controller`:
`python -m examples.replicaset.controller --kubeconfig FILE`
"""

from msgspec.structs import replace

import kcr
from kcr.api.apps import ReplicaSet, ReplicaSetStatus
from kcr.api.core import Pod
from kcr.api.pods import count_replicas, is_terminal
from kcr.api.selectors import LabelSelector
from kcr.dependents import (
    DependentControl,
    adopters,
    claim_selected,
    plan_scaling,
    scale_pods,
    set_replica_failure,
)


class ReplicaSetReconciler:
    """Reconciles ReplicaSets; level-triggered and idempotent."""

    def __init__(self, manager: kcr.Manager, own_writes: kcr.OwnWrites) -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._owners = manager.store(ReplicaSet)
        self._pods = manager.store(Pod)
        self._own_writes = own_writes
        self._control = DependentControl(
            manager.client, manager.recorder("replicaset-controller"), Pod,
            store=self._pods, own_writes=own_writes, random=manager.random,
        )  # fmt: skip

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        """Bring the pods of one ReplicaSet closer to what it asks for, and write its status."""
        owner = self._owners.get(key)
        if owner is None:
            self._own_writes.forget(key)
            return kcr.Result()
        pods = await claim_selected(
            self._client, owner, owner.spec.selector or LabelSelector(), self._pods, self._own_writes,
            among=lambda pod: not is_terminal(pod),
        )  # fmt: skip
        scaling = plan_scaling(owner, pods, 1 if owner.spec.replicas is None else owner.spec.replicas)
        error = await scale_pods(self._control, owner, owner.spec.template, scaling)
        now = self._clock.now()
        counts = count_replicas(pods, owner.spec.min_ready_seconds, now)
        status = ReplicaSetStatus(
            replicas=counts.active,
            ready_replicas=counts.ready,
            available_replicas=counts.available,
            observed_generation=owner.metadata.generation or 0,
            conditions=set_replica_failure(owner.status.conditions, scaling, error, now),
        )
        written = await self._client.patch_status(owner, replace(owner, status=status))
        if written is not owner:
            self._own_writes.wrote(key, self._owners, written)
        if error is not None:
            raise error
        return kcr.Result(requeue_after=counts.next_available)


def setup(manager: kcr.Manager) -> None:
    """Attach the controller to a manager."""
    may_adopt = adopters(manager.store(ReplicaSet), lambda owner: owner.spec.selector)
    own_writes = kcr.OwnWrites()
    manager.add_controller(
        "replicaset",
        ReplicaSetReconciler(manager, own_writes),
        watches=[kcr.watch(ReplicaSet), kcr.owned(Pod, by=ReplicaSet), kcr.watch(Pod, map_to=may_adopt)],
        own_writes=own_writes,
        workers=5,
    )


if __name__ == "__main__":
    kcr.run(setup)
