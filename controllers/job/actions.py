"""Creating pods, deleting them, letting them go: the writes of a reconcile, and what came of them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence, Set
from random import Random
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from kcr.api import codec
from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.meta import controller_of
from kcr.client import Client
from kcr.client.wire.decoding import UNEXPECTED_RESPONSE
from kcr.controllers.job.plan import Identity, Outcome, identity
from kcr.controllers.job.pod_template import IndexedPod, PodToCreate, build_pod_template, for_index, with_name
from kcr.controllers.job.pods import TRACKING_FINALIZER, has_ended, is_tracked
from kcr.dependents import EventEmitter, is_namespace_ending, slow_start
from kcr.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    KcrError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    TransportError,
)
from kcr.events import EventRecorder
from kcr.expectations import Expectations

# How often the removal of a finalizer is tried at once: who else writes to the pod rarely does so more than once.
CONFLICT_TRIES = 3
# Pauses in seconds before a create whose reply was lost is sent again, under the same name.
PAUSES = (0.0, 0.1, 0.5)
# As the server draws them: no vowels and nothing that looks like another letter, so that no words appear.
SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH = 5

T = TypeVar("T")

UNTRACK = {"metadata": {"$deleteFromPrimitiveList/finalizers": [TRACKING_FINALIZER]}}

_BUSY = (ConflictError, TooManyRequestsError)


class Actions:
    """Does the work of a plan. Errors are part of the outcome, never raised."""

    def __init__(
        self, client: Client, recorder: EventRecorder, random: Random, expectations: Expectations[Identity]
    ) -> None:
        self._client = client
        self._announcer = EventEmitter(recorder, "pod")
        self._random = random
        self._expectations = expectations

    async def create(self, job: Job, members: Sequence[IndexedPod], group: str = "") -> Outcome:
        """Create the pods of these members, in batches of 1, 2, 4, …; a batch with a failure is the last one.

        Args:
            job: Whose pods they are.
            members: What tells them apart.
            group: The PodGroup they join; empty for none.

        Source: kubernetes/pkg/controller/job/job_controller.go, manageJob.
        """
        pod, count = build_pod_template(job, group), len(members)
        self._expectations.expect_creations(identity(job), count)
        attempts = await slow_start(count, lambda n: self._create_one(self._named(for_index(job, pod, members[n]))))
        errors = [failure.error for failure in attempts.failures]
        unconfirmed_creates = tuple(error.pod for error in errors if isinstance(error, InDoubtError))
        there = len(attempts.done) + len(unconfirmed_creates)
        self._expectations.creation_observed(identity(job), count - there)
        self._announcer.created(job, [made.metadata.name for made in attempts.done])
        refused = [error for error in errors if isinstance(error, ApiError)]
        error = self._announcer.not_created(job, refused)
        return Outcome(
            created=there,
            refused=sum(not is_namespace_ending(error) for error in refused),
            unconfirmed_creates=unconfirmed_creates,
            versions=_versions(attempts.done),
            error=error or (errors[0] if unconfirmed_creates else None),
        )

    async def resolve(self, job: Job, pod: PodToCreate, *, wanted: bool) -> Outcome:
        """Learn what became of a create that went without an answer.

        Args:
            job: Whose pod it is.
            pod: The pod.
            wanted: Whether to send the create again; else it is only looked for.

        Raises:
            KcrError: There is still no answer; the reconcile is to be tried again.
        """
        if wanted:
            try:
                made: Pod | None = await self._create_one(pod, doubted=True)
            except ApiError:
                made = None
        else:
            made = await self._find(pod)
        if made is None:
            self._expectations.creation_observed(identity(job))
            return Outcome(refused=int(wanted))
        self._announcer.created(job, [made.metadata.name])
        return Outcome(created=1, versions=_versions((made,)))

    def seen(self, job: Job, names: Sequence[str]) -> Outcome:
        """Tell of pods whose creation had no answer, and that have been seen since."""
        self._announcer.created(job, names)
        return Outcome(created=len(names))

    async def remove(self, job: Job, pods: Sequence[Pod]) -> Outcome:
        """Delete pods that shall count neither as failed nor as succeeded: their finalizer goes first.

        A pod that has ended unseen is none too many: it keeps its finalizer, and is counted.
        """
        self._expectations.expect_deletions(identity(job), len(pods))
        removals = await _all(self._remove_one, pods)
        free = [(pod, error) for pod, (removal, error) in zip(pods, removals, strict=True) if removal.is_free]
        outcome = self._deleted(job, [pod for pod, _ in free], [error for _, error in free])
        self._expectations.deletion_observed(identity(job), len(pods) - len(outcome.deleted))
        untracked = _untracked(pods, [removal for removal, _ in removals])
        return replace(outcome, versions=untracked.versions, error=untracked.error or outcome.error)

    async def delete(self, job: Job, pods: Sequence[Pod]) -> Outcome:
        """Delete pods because the Job ends. They keep their finalizer until they are counted."""
        return self._deleted(job, pods, await _all(self._delete_one, pods))

    async def untrack(self, pods: Sequence[Pod], *, require_version: Set[str]) -> Outcome:
        """Remove the tracking finalizer of pods; one that is gone has none.

        Args:
            pods: The pods.
            require_version: UIDs of those that keep it if they have ended since they were seen: they are to go
                uncounted. Unlike upstream, which would lose a pod that has ended unseen.
        """
        removals = await _all(
            lambda pod: self._untrack_one(pod, require_version=pod.metadata.uid in require_version), pods
        )
        return _untracked(pods, removals)

    async def _create_one(self, pod: PodToCreate, *, doubted: bool = False) -> Pod:
        """Create one pod, whatever it takes to get an answer.

        Args:
            pod: The pod.
            doubted: Whether it may be there already.

        Raises:
            ApiError: The server refuses it, or fails every time and does not have it.
            InDoubtError: There was no answer.
        """
        error: KcrError = KcrError("not sent")
        unanswered = doubted
        for pause in PAUSES:
            await asyncio.sleep(pause)
            try:
                return await self._create_or_find(pod, doubted=doubted)
            except AlreadyExistsError as taken:
                # Another pod has the name, perhaps of this very Job; the next draw will be free.
                pod, error, doubted, unanswered = self._named(pod), taken, False, False
            except TransportError as silence:
                error, doubted, unanswered = silence, True, True
            except ServerError as failure:
                # Behind a proxy that answers by itself, the server may still be at work.
                error, doubted = failure, True
                unanswered |= failure.has_cause(UNEXPECTED_RESPONSE)
            except _BUSY as busy:
                # This try was not executed; one before it may still be under way.
                if not doubted:
                    raise
                error = busy
        if unanswered:
            raise InDoubtError(pod, str(error))
        # The server may have made it, though it said that it had failed.
        if doubted and (found := await self._find(pod)) is not None:
            return found
        raise error

    async def _create_or_find(self, pod: PodToCreate, *, doubted: bool) -> Pod:
        """Create the pod, or find it if it was created before and the reply was lost."""
        try:
            return await self._client.create_manifest(Pod, codec.encode(pod), pod.metadata.namespace)
        except ServerError:
            raise
        except ApiError:
            # A pod that is there may be refused for other reasons: it has used up the quota itself, for one. But one
            # that was never sent before cannot be there: among thousands of pods, two draw the same name.
            if not doubted:
                raise
            if (found := await self._find(pod)) is not None:
                return found
            raise

    async def _find(self, pod: PodToCreate) -> Pod | None:
        """Return the pod if the server has it, and it is ours.

        Raises:
            InDoubtError: The server does not say.
        """
        try:
            found = await self._client.get(Pod, pod.key)
        except NotFoundError:
            return None
        except KcrError as unknown:
            raise InDoubtError(pod, str(unknown)) from unknown
        owner = controller_of(found.metadata)
        return found if owner is not None and owner.uid == pod.metadata.owner_references[0].uid else None

    async def _remove_one(self, pod: Pod) -> tuple["_Removal", KcrError | None]:
        """Remove the finalizer of one pod and delete it; no other pod waits for either."""
        removal = await self._untrack_one(pod, require_version=True) if is_tracked(pod) else _FREE
        return removal, await self._delete_one(pod) if removal.is_free else None

    async def _untrack_one(self, pod: Pod, *, require_version: bool) -> "_Removal":
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
                if require_version and has_ended(live):
                    return _Removal(False, live)
                pod = live
        except NotFoundError:
            return _FREE
        except KcrError as error:
            return _Removal(False, error=error)
        return _Removal(False, error=conflict)

    async def _delete_one(self, pod: Pod) -> KcrError | None:
        try:
            await self._client.delete(Pod, pod.key, uid=pod.metadata.uid)
        except KcrError as error:
            return error
        return None

    def _named(self, pod: PodToCreate) -> PodToCreate:
        return with_name(pod, "".join(self._random.choice(SUFFIX_LETTERS) for _ in range(SUFFIX_LENGTH)))

    def _deleted(self, job: Job, pods: Sequence[Pod], errors: Sequence[KcrError | None]) -> Outcome:
        """What is gone already counts as deleted, but nobody announces it twice."""
        pairs = list(zip(pods, errors, strict=True))
        gone = [pod for pod, error in pairs if error is None or isinstance(error, NotFoundError)]
        self._announcer.deleted(job, [pod.metadata.name for pod, error in pairs if error is None])
        failed = [error for _, error in pairs if error is not None and not isinstance(error, NotFoundError)]
        return Outcome(deleted=tuple(gone), error=self._announcer.not_deleted(job, failed))


class InDoubtError(TransportError):
    """A pod may have been created or not; the same create is to be sent again."""

    def __init__(self, pod: PodToCreate, cause: str) -> None:
        super().__init__(f"pod {pod.key}: no answer to its creation: {cause}")
        self.pod = pod


class _Removal(NamedTuple):
    """What became of the removal of a pod's finalizer.

    Attributes:
        is_free: Whether the pod does not have it any more.
        live: The pod as the server has it, as far as that was told; the store has to show it before the next pass.
        error: Why it failed; None also when the pod has ended, and is to be counted first.
    """

    is_free: bool
    live: Pod | None = None
    error: KcrError | None = None


_FREE = _Removal(True)


def _untracked(pods: Sequence[Pod], removals: Sequence[_Removal]) -> Outcome:
    return Outcome(
        untracked=frozenset(pod.metadata.uid for pod, removal in zip(pods, removals, strict=True) if removal.is_free),
        versions=_versions(removal.live for removal in removals if removal.live is not None),
        error=next((removal.error for removal in removals if removal.error is not None), None),
    )


def _versions(pods: Iterable[Pod]) -> tuple[str, ...]:
    return tuple(pod.metadata.resource_version for pod in pods)


async def _all(call: Callable[[Pod], Awaitable[T]], pods: Sequence[Pod]) -> list[T]:
    """Call for all pods at the same time; the answers come back in their order."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_call(call, pod)) for pod in pods]
    return [task.result() for task in tasks]


async def _call(call: Callable[[Pod], Awaitable[T]], pod: Pod) -> T:
    return await call(pod)
