"""A ReplicaSet controller: keeps a number of alike pods running, adopts and releases pods by their labels.

Run it on `kcr dev`, or on a cluster whose kube-controller-manager has `--controllers=*,-replicaset-controller`:
`python -m examples.replicaset.controller --kubeconfig FILE`
"""

from collections.abc import Iterator

from msgspec.structs import replace

import kcr
from examples.replicaset.api import ReplicaSet
from examples.replicaset.decide import Plan, compute_status, failed, next_availability, plan
from kcr.api.core import Pod
from kcr.api.meta import controller_of
from kcr.api.pods import is_terminal, pod_from_template
from kcr.api.selectors import matches
from kcr.dependents import DependentControl, claim


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
        pods = await self._claim(owner)
        todo = plan(owner, pods)
        error = await self._scale(owner, todo)
        now = self._clock.now()
        status = compute_status(owner, pods, failed(todo, error), now)
        written = await self._client.patch_status(owner, replace(owner, status=status))
        if written is not owner:
            self._own_writes.wrote(key, self._owners, written)
        if error is not None:
            raise error
        return kcr.Result(requeue_after=next_availability(owner, pods, now))

    async def _claim(self, owner: ReplicaSet) -> tuple[Pod, ...]:
        """Adopt the pods without a controller that match, release those that no longer match; return what is left."""
        # The built-in index: the pods that it controls, and those of its namespace that have no controller.
        candidates = (
            *self._pods.by_index("owner", owner.metadata.uid),
            *self._pods.by_index("owner", f"{owner.metadata.namespace}/"),
        )
        # Deleted here, though the store does not show it yet.
        deleted = self._own_writes.of(owner).deleted
        claimed = await claim(
            self._client,
            owner,
            [pod for pod in candidates if not is_terminal(pod) and pod.metadata.uid not in deleted],
            lambda pod: matches(owner.spec.selector, pod.metadata.labels),
        )
        for pod in claimed.adopted:
            self._own_writes.wrote(owner.key, self._pods, pod)
        if claimed.errors:
            raise claimed.errors[0]
        return claimed.mine

    async def _scale(self, owner: ReplicaSet, todo: Plan) -> kcr.KcrError | None:
        """Create or delete pods, and return the first error."""
        if todo.create:
            attempts = await self._control.create(owner, pod_from_template(owner.spec.template), todo.create)
        else:
            attempts = await self._control.delete(owner, todo.delete)
        errors = (failure.error for failure in attempts.failures)
        return next((error for error in errors if not isinstance(error, kcr.NotFoundError)), None)


def setup(manager: kcr.Manager) -> None:
    """Attach the controller to a manager."""
    owners = manager.store(ReplicaSet)

    def adopters(pod: Pod) -> Iterator[kcr.Key]:
        """Yield the ReplicaSets that may adopt a pod without a controller."""
        if controller_of(pod.metadata) is None:
            for owner in owners.list(pod.metadata.namespace):
                if matches(owner.spec.selector, pod.metadata.labels):
                    yield owner.key

    own_writes = kcr.OwnWrites()
    manager.add_controller(
        "replicaset",
        ReplicaSetReconciler(manager, own_writes),
        watches=[kcr.watch(ReplicaSet), kcr.owned(Pod, by=ReplicaSet), kcr.watch(Pod, map_to=adopters)],
        own_writes=own_writes,
        workers=5,
    )


if __name__ == "__main__":
    kcr.run(setup)
