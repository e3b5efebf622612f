"""The writes of a reconcile and their results: pods, finalizers, the status, the pod group."""

import asyncio
from collections.abc import Iterable, Sequence, Set
from typing import Literal, NamedTuple

from msgspec.structs import replace

from kcr.api.batch import Job, JobStatus
from kcr.api.core import Pod
from kcr.api.meta import is_controlled_by
from kcr.api.pods import is_terminal
from kcr.api.selectors import text
from kcr.client import Client
from kcr.controller import OwnWrites
from kcr.controllers.job.decisions.directives import directives_of
from kcr.controllers.job.decisions.failures import concerns
from kcr.controllers.job.decisions.plan import Outcome, Snapshot
from kcr.controllers.job.decisions.pod_template import IndexedPod, build_pod_template, for_index
from kcr.controllers.job.decisions.pods import (
    TRACKING_FINALIZER,
    UNTRACKED_FAILURES,
    is_tracked,
    selects,
    surplus_failures,
)
from kcr.controllers.job.gangs import Gangs
from kcr.dependents import (
    AlteredObjectError,
    Attempts,
    DependentControl,
    QuotaExceededError,
    UnconfirmedCreateError,
    claim,
    is_namespace_ending,
)
from kcr.errors import ConflictError, KcrError, NotFoundError, ServerError, TransportError
from kcr.events import EventRecorder
from kcr.informer import Store

# How often the removal of a finalizer is tried at once: who else writes to the pod rarely does so more than once.
CONFLICT_TRIES = 3

UNTRACK = {"metadata": {"$deleteFromPrimitiveList/finalizers": [TRACKING_FINALIZER]}}


class Actions:
    """The reads and writes of a Job's reconcile; records every write in `own_writes`.

    The work of a plan has errors in its outcome, never raised; all else raises `KcrError`.
    """

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        jobs: Store[Job],
        control: DependentControl[Pod],
        own_writes: OwnWrites,
        gangs: Gangs | None = None,
    ) -> None:
        """Make the actions.

        Args:
            client: Talks to the server.
            recorder: Writes events about Jobs.
            jobs: The store of Jobs.
            control: Creates and deletes pods.
            own_writes: The writes that were not observed yet.
            gangs: The groups in which pods are scheduled all or none; None unless that is wanted.
        """
        self._client = client
        self._recorder = recorder
        self._jobs = jobs
        self._control = control
        self._pods = control.store
        self._own_writes = own_writes
        self._gangs = gangs

    def event(self, job: Job, kind: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Record an event about a Job."""
        self._recorder.event(job, kind, reason, message)

    async def verify(self, job: Job) -> None:
        """Read the Job live, and defer it until the store shows it so."""
        await self._own_writes.verify(self._client, job, self._jobs)

    async def write_status(self, job: Job, status: JobStatus) -> Job:
        """Write the status if it differs; the returned Job has the version for the next write."""
        try:
            written = await self._client.patch_status(job, replace(job, status=status))
        except (TransportError, ServerError):
            self._own_writes.of(job).unconfirmed_status = True
            raise
        if written is not job:
            self._own_writes.wrote(job.key, self._jobs, written)
        return written

    async def list_pods(self, job: Job) -> tuple[Pod, ...]:
        """Return the pods that concern the Job as the server has them, for when the store may not have caught up.

        Jobs and pods come over two watches. The one may show that another controller has counted a pod, while the other
        still shows this pod as it was before: it would be counted once more, and might even be the failure too many.
        Nor need a new leader's show the pods that the leader before it created. Upstream has no such care: it relies on
        its lease, and a new leader lists everything first.
        """
        labels = text(job.spec.selector) if job.spec.selector is not None else ""
        pods = await self._client.list(Pod, job.metadata.namespace, labels=labels)
        return tuple(pod for pod in pods if is_controlled_by(pod, job) and concerns(job, pod))

    async def claim(self, job: Job, pods: Sequence[Pod]) -> tuple[Pod, ...]:
        """Adopt and release pods, and return the Job's.

        Raises:
            KcrError: One of them could not be written; nothing is counted before all are.
        """
        claimed = await claim(self._client, job, pods, lambda pod: selects(job, pod), finalizer=TRACKING_FINALIZER)
        # Noted before an error is raised: the next reconcile must see the adopted pods, or it adopts once more.
        for pod in claimed.adopted:
            self._own_writes.wrote(job.key, self._pods, pod)
        if claimed.errors:
            raise claimed.errors[0]
        return claimed.mine

    async def group_of(self, seen: Snapshot) -> str | None:
        """Return the name of the PodGroup that new pods are to join; empty for none, None while they have to wait."""
        return await self._gangs.group_of(seen) if self._gangs is not None else ""

    def gang_text(self, job: Job, pods: Sequence[Pod]) -> str:
        """Return the state of the Job's gang, from the store; empty for none."""
        return self._gangs.text(job, pods) if self._gangs is not None else ""

    def confirm(self, job: Job) -> Outcome:
        """Confirm the creates without an answer whose pod the store shows."""
        return Outcome(created=len(self._control.confirm(job)))

    async def create(self, job: Job, members: Sequence[IndexedPod], group: str = "") -> Outcome:
        """Create the pods of these members, with slow start.

        Args:
            job: Whose pods they are.
            members: Their distinguishing fields.
            group: The PodGroup they join; empty for none.

        Source: kubernetes/pkg/controller/job/job_controller.go, manageJob.
        """
        pod = build_pod_template(job, group)
        attempts = await self._control.create(job, lambda number: for_index(job, pod, members[number]), len(members))
        # A create without an answer is no failure: it counts as created, so that no other pod takes its place.
        errors = [failure.error for failure in attempts.failures]
        refused = [error for error in errors if not isinstance(error, UnconfirmedCreateError)]
        lasting = [error for error in refused if not is_namespace_ending(error)]
        unconfirmed = len(errors) - len(refused)
        return Outcome(
            created=len(attempts.done) + unconfirmed,
            refused=sum(not _is_repeated(error) for error in lasting),
            unconfirmed=unconfirmed,
            error=lasting[0] if lasting else errors[0] if unconfirmed else None,
        )

    async def resolve(self, job: Job, *, wanted: bool) -> Outcome:
        """Query the results of unconfirmed creates.

        Args:
            job: Whose pods they are.
            wanted: Whether to send the creates again; otherwise the pods are only searched.

        Raises:
            KcrError: There is still no answer; the reconcile is to be tried again.
        """
        attempts = await self._control.resolve(job, wanted=wanted)
        return Outcome(created=len(attempts.done), refused=len(attempts.failures))

    async def remove(self, job: Job, pods: Sequence[Pod]) -> Outcome:
        """Delete pods that count neither as failed nor as succeeded: their finalizer is removed first.

        A pod that has ended unseen is none too many: it keeps its finalizer, and is counted. No pod waits for another.
        """
        errors: list[KcrError] = []

        async def is_free(pod: Pod) -> bool:
            removal = await self._untrack_one(job, pod, require_version=True) if is_tracked(pod) else _FREE
            if removal.error is not None:
                errors.append(removal.error)
            return removal.is_free

        # The finalizer first: a pod that is deleted with it counts as failed, and one that has ended has to be counted.
        outcome = _deleted(pods, await self._control.delete(job, pods, before=is_free))
        return outcome if not errors else Outcome(deleted=outcome.deleted, error=errors[0])

    async def delete(self, job: Job, pods: Sequence[Pod]) -> Outcome:
        """Delete pods because the Job ends. They keep their finalizer until they are counted."""
        return _deleted(pods, await self._control.delete(job, pods))

    async def untrack(self, job: Job, pods: Sequence[Pod], *, require_version: Set[str]) -> Outcome:
        """Remove the tracking finalizer of pods; deleted pods have none.

        Args:
            job: Whose pods they are.
            pods: The pods.
            require_version: UIDs of those that keep it if they have ended since they were seen: they are to go
                uncounted. Unlike upstream, which would lose a pod that has ended unseen.
        """
        # No child raises: a failed patch must not cancel the others in the middle of their requests.
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
        removal = await self._remove_finalizer(pod, require_version=require_version)
        if removal.is_free:
            self._own_writes.of(job).expect_release(self._pods, removal.live or pod, TRACKING_FINALIZER)
        if removal.live is not None and removal.is_free:
            self._own_writes.wrote(job.key, self._pods, removal.live)
        elif removal.live is not None:
            # Another client's write: its state is to be counted.
            self._own_writes.require_version(job.key, self._pods, removal.live)
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
                # Without the precondition the patch wins over any other write: the pod is on record, and must be let
                # go.
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
                    # It has ended in between: it keeps the finalizer, and the next reconcile counts it.
                    return _Removal(False, live)
                pod = live
        except NotFoundError:
            return _FREE
        except KcrError as error:
            return _Removal(False, error=error)
        return _Removal(False, error=conflict)


class _Removal(NamedTuple):
    """The result of removing a pod's finalizer.

    Attributes:
        is_free: Whether the pod does not have it any more.
        live: The pod as the server has it, if an answer says so; the store has to show it before the next reconcile.
        error: Why it failed; None also when the pod has ended, and is to be counted first.
    """

    is_free: bool
    live: Pod | None = None
    error: KcrError | None = None


_FREE = _Removal(True)


def _is_repeated(error: KcrError) -> bool:
    """Return whether nothing was sent, because of an error that was counted before."""
    return isinstance(error, QuotaExceededError) or (isinstance(error, AlteredObjectError) and error.is_repeated)


def _deleted(pods: Sequence[Pod], attempts: Attempts[Pod]) -> Outcome:
    """An object that does not exist any more counts as deleted, without an event."""
    gone = (pods[failure.number] for failure in attempts.failures if isinstance(failure.error, NotFoundError))
    errors = (failure.error for failure in attempts.failures if not isinstance(failure.error, NotFoundError))
    return Outcome(deleted=(*attempts.done, *gone), error=next(errors, None))


class FailedPodHistory:
    """Deletes counted failed pods beyond the number that their Job keeps (`kcr.dev/failed-pods-history`).

    A pod is deleted after its finalizer was removed, so its failure is in the status, and before the terminal condition
    is written, so a process that ends in between leaves a Job that is reconciled again. Without the annotation nothing
    is read.
    """

    def __init__(self, client: Client, pods: Store[Pod]) -> None:
        """Make one.

        Args:
            client: Deletes the pods.
            pods: The store of pods, with the index `UNTRACKED_FAILURES`.
        """
        self._client = client
        self._pods = pods

    async def prune(self, job: Job, released: Iterable[Pod]) -> KcrError | None:
        """Delete the surplus of a Job's failed pods, and return the first error.

        Args:
            job: The Job.
            released: Pods that have lost their finalizer in this reconcile, which the store may not show.
        """
        keep = directives_of(job).failed_pods_history
        if keep is None:
            return None
        failed = (pod for pod in released if pod.status.phase == "Failed")
        surplus = surplus_failures((*self._pods.by_index(UNTRACKED_FAILURES, job.metadata.uid), *failed), keep)
        # No child raises: a failed delete must not cancel the others in the middle of their requests.
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._delete(pod)) for pod in surplus]
        return next((error for task in tasks if (error := task.result()) is not None), None)

    async def _delete(self, pod: Pod) -> KcrError | None:
        try:
            await self._client.delete(Pod, pod.key, uid=pod.metadata.uid)
        except (NotFoundError, ConflictError):
            # It is deleted already; another pod may have its name by now.
            return None
        except KcrError as error:
            return error
        return None
