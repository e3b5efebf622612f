"""Deployment controller: a ReplicaSet for each pod template, and pods moved from the old ones to the new one.

One reconcile takes one step: it creates the new ReplicaSet, or changes sizes, or cleans up; and writes the status once.

Source: kubernetes/pkg/controller/deployment, deployment_controller.go, sync.go, rolling.go, recreate.go.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import timedelta

from msgspec.structs import replace

from kcr.api.apps import Deployment, DeploymentStatus, ReplicaSet
from kcr.api.core import Pod
from kcr.api.meta import Key, controller_of, is_controlled_by
from kcr.api.pods import is_terminal
from kcr.api.selectors import LabelSelector
from kcr.controller import OwnWrites, Result, owned, watch
from kcr.dependents import adopters, claim_selected, is_namespace_ending
from kcr.errors import AlreadyExistsError, ApiError, NotFoundError
from kcr.manager import Manager
from kcr_devcluster.cluster.workloads.progress import (
    is_complete,
    observed_status,
    progress_time_left,
    rollout_status,
    with_pause,
    with_progress,
)
from kcr_devcluster.cluster.workloads.replicasets import replicas_of
from kcr_devcluster.cluster.workloads.revisions import (
    REVISION,
    History,
    history_of,
    new_replica_set,
    same_template,
    surplus_history,
    with_revision,
    with_size,
)
from kcr_devcluster.cluster.workloads.rollout import (
    Resize,
    desired,
    is_recreate,
    is_scaled,
    max_surge,
    new_size,
    resize_all_to_zero,
    resize_in_proportion,
    resize_new,
    resize_old,
)

WORKERS = 5
# After a deadline, so that it has passed for certain when it is checked.
DEADLINE_SLACK = timedelta(seconds=1)


class DeploymentReconciler:
    """Reconciles Deployments; level-triggered and idempotent."""

    def __init__(self, manager: Manager, own_writes: OwnWrites) -> None:
        self._client, self._clock = manager.client, manager.clock
        self._deployments, self._replica_sets = manager.store(Deployment), manager.store(ReplicaSet)
        self._pods = manager.store(Pod)
        self._events = manager.recorder("deployment-controller")
        self._own_writes = own_writes

    async def reconcile(self, key: Key) -> Result:
        """Take the next step of the rollout of one Deployment, and write its status."""
        found = self._deployments.get(key)
        if found is None:
            self._own_writes.forget(key)
            return Result()
        with suppress(NotFoundError):  # it or a ReplicaSet was deleted meanwhile: a watch event follows
            return await self._sync(found)
        return Result()

    async def _sync(self, found: Deployment) -> Result:
        selector = found.spec.selector or LabelSelector()
        claimed = await claim_selected(self._client, found, selector, self._replica_sets, self._own_writes)
        history, now = history_of(found, claimed), self._clock.now()
        if found.metadata.deletion_timestamp is not None:
            await self._write(found, found, observed_status(found, history, now))
            return Result()
        deployment = with_pause(found, now)
        if deployment.spec.paused or is_scaled(deployment, history):
            deployment, history = await self._sync_revision(deployment, history, create=False)
            history = await self._resize(deployment, history, resize_in_proportion(deployment, history))
            status = observed_status(deployment, history, now)
        else:
            deployment, history = await self._roll_out(found, deployment, history)
            status = rollout_status(deployment, history, now)
        await self._clean_up(deployment, history, status)
        await self._write(found, deployment, status)
        left = progress_time_left(deployment, status, now)
        return Result(requeue_after=None if left is None else left + DEADLINE_SLACK)

    async def _roll_out(
        self, found: Deployment, deployment: Deployment, history: History
    ) -> tuple[Deployment, History]:
        """Take one step towards pods of the present template alone."""
        if is_recreate(deployment):
            old = resize_all_to_zero(history.old)
            if old or self._has_pods(history.old):
                deployment, history = await self._sync_revision(deployment, history, create=False)
                return deployment, await self._resize(deployment, history, old)
        try:
            deployment, history = await self._sync_revision(deployment, history, create=True)
        except ApiError as error:
            if is_namespace_ending(error):
                return deployment, history
            await self._write_create_error(found, deployment, history, error)
            raise
        steps = resize_new(deployment, history) or resize_old(deployment, history)
        return deployment, await self._resize(deployment, history, steps)

    def _has_pods(self, replica_sets: Iterable[ReplicaSet]) -> bool:
        """Return whether a pod of these ReplicaSets may still run, terminating ones included."""
        pods = (pod for one in replica_sets for pod in self._pods.by_index("owner", one.metadata.uid))
        return any(not is_terminal(pod) for pod in pods)

    async def _sync_revision(
        self, deployment: Deployment, history: History, *, create: bool
    ) -> tuple[Deployment, History]:
        """Number the new ReplicaSet and annotate both, and create it if there is none.

        Args:
            deployment: The Deployment.
            history: Its ReplicaSets.
            create: Whether to create a new ReplicaSet.
        """
        now, new = self._clock.now(), history.new
        if new is not None:
            new = await self._patch(deployment, new, with_revision(new, deployment, history))
            if not any(one.type == "Progressing" for one in deployment.status.conditions):
                words = ("FoundNewReplicaSet", f'Found new replica set "{new.metadata.name}"')
                deployment = with_progress(deployment, "True", words, now)
        elif create:
            new = await self._create(deployment, history)
            words = ("NewReplicaSetCreated", f'Created new replica set "{new.metadata.name}"')
            deployment = with_progress(deployment, "True", words, now)
        if new is None:
            return deployment, history
        annotations = {**deployment.metadata.annotations, REVISION: new.metadata.annotations.get(REVISION, "")}
        metadata = replace(deployment.metadata, annotations=annotations)
        return replace(deployment, metadata=metadata), history._replace(new=new)

    async def _create(self, deployment: Deployment, history: History) -> ReplicaSet:
        """Create the new ReplicaSet; its name follows from the template, so a retry finds it.

        Raises:
            AlreadyExistsError: Another object has the name.
        """
        size = new_size(deployment, history)
        wanted = with_size(new_replica_set(deployment, history), size, desired(deployment), _most(deployment))
        try:
            made = await self._client.create(wanted)
        except AlreadyExistsError:
            made = await self._client.get(ReplicaSet, wanted.key)
            if not is_controlled_by(made, deployment) or not same_template(made.spec.template, wanted.spec.template):
                raise
        else:
            if size:
                self._record_scaling(deployment, made.metadata.name, 0, size)
        self._own_writes.wrote(deployment.key, self._replica_sets, made)
        return made

    async def _write_create_error(
        self, found: Deployment, deployment: Deployment, history: History, error: ApiError
    ) -> None:
        """Write that the new ReplicaSet cannot be created; where its name is taken, the next try uses another one."""
        status = deployment.status
        if isinstance(error, AlreadyExistsError):
            status = replace(status, collision_count=(status.collision_count or 0) + 1)
        else:
            name = new_replica_set(deployment, history).metadata.name
            words = ("ReplicaSetCreateError", f'Failed to create new replica set "{name}": {error}')
            status = with_progress(deployment, "False", words, self._clock.now()).status
        await self._write(found, found, status)

    async def _resize(self, deployment: Deployment, history: History, resizes: Iterable[Resize]) -> History:
        """Give ReplicaSets other sizes, and return the history with them."""
        for replica_set, replicas in resizes:
            before = replicas_of(replica_set)
            # By uid: its annotations may have changed since the resize was planned.
            present = next(one for one in history.all if one.metadata.uid == replica_set.metadata.uid)
            wanted = with_size(present, replicas, desired(deployment), _most(deployment))
            history = history.with_changed(await self._patch(deployment, present, wanted))
            if replicas != before:
                self._record_scaling(deployment, replica_set.metadata.name, before, replicas)
        return history

    def _record_scaling(self, deployment: Deployment, name: str, before: int, after: int) -> None:
        verb = "up" if after > before else "down"
        message = f"Scaled {verb} replica set {name} from {before} to {after}"
        self._events.event(deployment, "Normal", "ScalingReplicaSet", message)

    async def _patch(self, deployment: Deployment, old: ReplicaSet, new: ReplicaSet) -> ReplicaSet:
        written = await self._client.patch(old, new)
        if written is not old:
            self._own_writes.wrote(deployment.key, self._replica_sets, written)
        return written

    async def _clean_up(self, deployment: Deployment, history: History, status: DeploymentStatus) -> None:
        """Delete the oldest ReplicaSets beyond the limit, while no rollout is under way."""
        if not deployment.spec.paused and not is_complete(deployment, status):
            return
        for replica_set in surplus_history(deployment, history):
            with suppress(NotFoundError):
                await self._client.delete(ReplicaSet, replica_set.key, uid=replica_set.metadata.uid)
            self._own_writes.of(deployment).expect_deletion(self._replica_sets, replica_set)

    async def _write(self, found: Deployment, deployment: Deployment, status: DeploymentStatus) -> None:
        """Write the revision into the annotations, where it is another one, and the status."""
        annotated = replace(found, metadata=deployment.metadata)
        written = await self._client.patch(found, annotated)
        written = await self._client.patch_status(written, replace(written, status=status))
        if written is not found:
            self._own_writes.wrote(found.key, self._deployments, written)


def _most(deployment: Deployment) -> int:
    return desired(deployment) + max_surge(deployment)


def _is_gone(_: Pod | None, new: Pod | None) -> bool:
    return new is None or is_terminal(new)


def setup(manager: Manager) -> None:
    """Add the controller to a manager."""
    own_writes = OwnWrites()
    replica_sets = manager.store(ReplicaSet)
    may_adopt = adopters(manager.store(Deployment), lambda found: found.spec.selector)

    def deployment_of(pod: Pod) -> Iterator[Key]:
        """Yield the Deployment that waits for the deletion of an old ReplicaSet's last pod."""
        owner = controller_of(pod.metadata)
        if owner is None or owner.kind != "ReplicaSet":
            return
        replica_set = replica_sets.get(Key(pod.metadata.namespace, owner.name))
        above = controller_of(replica_set.metadata) if replica_set is not None else None
        if above is not None and above.kind == "Deployment":
            yield Key(pod.metadata.namespace, above.name)

    manager.add_controller(
        "deployment",
        DeploymentReconciler(manager, own_writes),
        watches=[
            watch(Deployment),
            owned(ReplicaSet, by=Deployment),
            watch(ReplicaSet, map_to=may_adopt),
            watch(Pod, map_to=deployment_of, predicate=_is_gone),
        ],
        own_writes=own_writes,
        workers=WORKERS,
    )
