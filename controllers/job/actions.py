"""Creating pods, deleting them, removing their finalizer: the writes of a reconcile, and what came of them."""

import asyncio
from collections.abc import Sequence, Set
from typing import NamedTuple

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.pods import is_terminal
from kcr.client import Client
from kcr.controller import OwnWrites
from kcr.controllers.job.plan import Outcome
from kcr.controllers.job.pod_template import IndexedPod, build_pod_template, for_index
from kcr.controllers.job.pods import TRACKING_FINALIZER, is_tracked
from kcr.dependents import Attempts, DependentControl, UnconfirmedCreateError, is_namespace_ending
from kcr.errors import ConflictError, KcrError, NotFoundError
from kcr.informer import Store

# How often the removal of a finalizer is tried at once: who else writes to the pod rarely does so more than once.
CONFLICT_TRIES = 3

UNTRACK = {"metadata": {"$deleteFromPrimitiveList/finalizers": [TRACKING_FINALIZER]}}


class Actions:
    """Does the work of a plan. Errors are part of the outcome, never raised."""

    def __init__(self, client: Client, pods: Store[Pod], control: DependentControl[Pod], own_writes: OwnWrites) -> None:
        self._client = client
        self._pods = pods
        self._control = control
        self._own_writes = own_writes

    async def create(self, job: Job, members: Sequence[IndexedPod], group: str = "") -> Outcome:
        """Create the pods of these members, with slow start.

        Args:
            job: Whose pods they are.
            members: What tells them apart.
            group: The PodGroup they join; empty for none.

        Source: kubernetes/pkg/controller/job/job_controller.go, manageJob.
        """
        pod = build_pod_template(job, group)
        attempts = await self._control.create(job, lambda number: for_index(job, pod, members[number]), len(members))
        errors = [failure.error for failure in attempts.failures]
        refused = [error for error in errors if not isinstance(error, UnconfirmedCreateError)]
        lasting = [error for error in refused if not is_namespace_ending(error)]
        unconfirmed = len(errors) - len(refused)
        return Outcome(
            created=len(attempts.done) + unconfirmed,
            refused=len(lasting),
            unconfirmed=unconfirmed,
            error=lasting[0] if lasting else errors[0] if unconfirmed else None,
        )

    async def resolve(self, job: Job, *, wanted: bool) -> Outcome:
        """Learn what became of creates that had no answer.

        Args:
            job: Whose pods they are.
            wanted: Whether to send the creates again; else the pods are only looked for.

        Raises:
            KcrError: There is still no answer; the reconcile is to be tried again.
        """
        attempts = await self._control.resolve(job, wanted=wanted)
        return Outcome(created=len(attempts.done), refused=len(attempts.failures))

    async def remove(self, job: Job, pods: Sequence[Pod]) -> Outcome:
        """Delete pods that shall count neither as failed nor as succeeded: their finalizer is removed first.

        A pod that has ended unseen is none too many: it keeps its finalizer, and is counted. No pod waits for another.
        """
        errors: list[KcrError] = []

        async def is_free(pod: Pod) -> bool:
            removal = await self._untrack_one(job, pod, require_version=True) if is_tracked(pod) else _FREE
            if removal.error is not None:
                errors.append(removal.error)
            return removal.is_free

        outcome = _deleted(pods, await self._control.delete(job, pods, before=is_free))
        return outcome if not errors else Outcome(deleted=outcome.deleted, error=errors[0])

    async def delete(self, job: Job, pods: Sequence[Pod]) -> Outcome:
        """Delete pods because the Job ends. They keep their finalizer until they are counted."""
        return _deleted(pods, await self._control.delete(job, pods))

    async def untrack(self, job: Job, pods: Sequence[Pod], *, require_version: Set[str]) -> Outcome:
        """Remove the tracking finalizer of pods; one that is gone has none.

        Args:
            job: Whose pods they are.
            pods: The pods.
            require_version: UIDs of those that keep it if they have ended since they were seen: they are to go
                uncounted. Unlike upstream, which would lose a pod that has ended unseen.
        """
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._untrack_one(job, pod, require_version=pod.metadata.uid in require_version))
                for pod in pods
            ]
        removals = [task.result() for task in tasks]
        free = (pod.metadata.uid for pod, removal in zip(pods, removals, strict=True) if removal.is_free)
        errors = (removal.error for removal in removals if removal.error is not None)
        return Outcome(untracked=frozenset(free), error=next(errors, None))

    async def _untrack_one(self, job: Job, pod: Pod, *, require_version: bool) -> "_Removal":
        """Remove the finalizer of one pod, and note that it is removed."""
        removal = await self._remove_finalizer(pod, require_version=require_version)
        if removal.is_free:
            self._own_writes.of(job).expect_release(self._pods, pod, TRACKING_FINALIZER)
        if removal.live is not None and removal.is_free:
            self._own_writes.wrote(job.key, self._pods, removal.live)
        elif removal.live is not None:
            # Another client's write: what it shows is to be counted.
            self._own_writes.require_version(job.key, self._pods, removal.live.metadata.resource_version)
        return removal

    async def _remove_finalizer(self, pod: Pod, *, require_version: bool) -> "_Removal":
        """Remove the finalizer of one pod.

        Args:
            pod: The pod.
            require_version: Whether it keeps the finalizer if it has ended since it was seen. Its resourceVersion is
                a precondition then, and after a conflict the live pod decides: another client that deletes the pod
                in the same moment must not leave it with a finalizer that nothing else removes.
        """
        conflict: KcrError | None = None
        try:
            for _ in range(CONFLICT_TRIES):
                seen = {"resourceVersion": pod.metadata.resource_version} if require_version else {}
                patch = {"metadata": {**UNTRACK["metadata"], **seen}}
                try:
                    return _Removal(True, await self._client.strategic_patch(Pod, pod.key, patch))
                except ConflictError as error:
                    conflict = error
                live = await self._client.get(Pod, pod.key)
                if live.metadata.uid != pod.metadata.uid or not is_tracked(live):
                    return _FREE
                if require_version and is_terminal(live):
                    return _Removal(False, live)
                pod = live
        except NotFoundError:
            return _FREE
        except KcrError as error:
            return _Removal(False, error=error)
        return _Removal(False, error=conflict)


class _Removal(NamedTuple):
    """What became of the removal of a pod's finalizer.

    Attributes:
        is_free: Whether the pod does not have it any more.
        live: The pod as the server has it, as far as that was told; the store has to show it before the next reconcile.
        error: Why it failed; None also when the pod has ended, and is to be counted first.
    """

    is_free: bool
    live: Pod | None = None
    error: KcrError | None = None


_FREE = _Removal(True)


def _deleted(pods: Sequence[Pod], attempts: Attempts[Pod]) -> Outcome:
    """What is gone already counts as deleted, without an event."""
    gone = (pods[failure.number] for failure in attempts.failures if isinstance(failure.error, NotFoundError))
    errors = (failure.error for failure in attempts.failures if not isinstance(failure.error, NotFoundError))
    return Outcome(deleted=(*attempts.done, *gone), error=next(errors, None))
