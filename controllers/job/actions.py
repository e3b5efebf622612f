"""Creating pods, deleting them, letting them go: the writes of a reconcile, and what came of them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence, Set
from random import Random
from typing import TypeVar

from msgspec.structs import replace

from controllers.job.plan import Identity, Outcome, identity
from controllers.job.pod_template import Member, PodToCreate, made_for, named, prototype
from controllers.job.pods import TRACKING_FINALIZER, is_tracked
from kcr.api import codec
from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.meta import controller_of
from kcr.client import Client
from kcr.dependents import Announcer, is_namespace_ending, slow_start
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
        self._announcer = Announcer(recorder, "pod")
        self._random = random
        self._expectations = expectations

    async def create(self, job: Job, members: Sequence[Member], group: str = "") -> Outcome:
        """Create the pods of these members, in batches of 1, 2, 4, …; a batch with a failure is the last one.

        Args:
            job: Whose pods they are.
            members: What tells them apart.
            group: The PodGroup they join; empty for none.

        Source: kubernetes/pkg/controller/job/job_controller.go, manageJob.
        """
        pod, count = prototype(job, group), len(members)
        self._expectations.expect_creations(identity(job), count)
        attempts = await slow_start(count, lambda n: self._create_one(self._named(made_for(job, pod, members[n]))))
        errors = [failure.error for failure in attempts.failures]
        doubtful = tuple(error.pod for error in errors if isinstance(error, InDoubtError))
        there = len(attempts.done) + len(doubtful)
        self._expectations.creation_observed(identity(job), count - there)
        self._announcer.created(job, [made.metadata.name for made in attempts.done])
        refused = [error for error in errors if isinstance(error, ApiError)]
        error = self._announcer.not_created(job, refused)
        return Outcome(
            created=there,
            refused=sum(not is_namespace_ending(error) for error in refused),
            doubtful=doubtful,
            versions=_versions(attempts.done),
            error=error or (errors[0] if doubtful else None),
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
        """Delete pods that shall count neither as failed nor as succeeded: their finalizer goes first."""
        self._expectations.expect_deletions(identity(job), len(pods))
        tracked = [pod for pod in pods if is_tracked(pod)]
        # A pod that has ended unseen is none too many: it is counted.
        untracked = await self.untrack(tracked, as_seen={pod.metadata.uid for pod in tracked})
        free = [pod for pod in pods if not is_tracked(pod) or pod.metadata.uid in untracked.untracked]
        outcome = self._deleted(job, free, await _all(self._delete_one, free))
        self._expectations.deletion_observed(identity(job), len(pods) - len(outcome.deleted))
        return replace(outcome, versions=untracked.versions, error=untracked.error or outcome.error)

    async def delete(self, job: Job, pods: Sequence[Pod]) -> Outcome:
        """Delete pods because the Job ends. They keep their finalizer until they are counted."""
        return self._deleted(job, pods, await _all(self._delete_one, pods))

    async def untrack(self, pods: Sequence[Pod], *, as_seen: Set[str]) -> Outcome:
        """Remove the tracking finalizer of pods; one that is gone has none.

        Args:
            pods: The pods.
            as_seen: UIDs of those that keep it if they have changed since they were seen: they are to go
                uncounted. Unlike upstream, which would lose a pod that has ended unseen.
        """
        answers = await _all(lambda pod: self._untrack_one(pod, as_seen=pod.metadata.uid in as_seen), pods)
        errors = [answer for answer in answers if isinstance(answer, KcrError)]
        freed = [pod for pod, answer in zip(pods, answers, strict=True) if not isinstance(answer, KcrError)]
        return Outcome(
            untracked=frozenset(pod.metadata.uid for pod in freed),
            versions=_versions(answer for answer in answers if isinstance(answer, Pod)),
            error=next(iter(errors), None),
        )

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
        unanswered = False
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
                error, doubted = failure, True
            except _BUSY as busy:
                # This try was not executed; one before it may still be under way.
                if not doubted:
                    raise
                error = busy
        if unanswered:
            raise InDoubtError(pod, str(error))
        return await self._found_after(pod, error)

    async def _found_after(self, pod: PodToCreate, error: KcrError) -> Pod:
        """Return the pod if the server has made it, though it said that it had failed."""
        if isinstance(error, ServerError):
            try:
                found = await self._find(pod)
            except KcrError as unknown:
                raise InDoubtError(pod, str(unknown)) from unknown
            if found is not None:
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
        """Return the pod if the server has it, and it is ours."""
        try:
            found = await self._client.get(Pod, pod.metadata.name, pod.metadata.namespace)
        except NotFoundError:
            return None
        owner = controller_of(found.metadata)
        return found if owner is not None and owner.uid == pod.metadata.owner_references[0].uid else None

    async def _untrack_one(self, pod: Pod, *, as_seen: bool) -> Pod | KcrError | None:
        seen = {"resourceVersion": pod.metadata.resource_version} if as_seen else {}
        try:
            return await self._client.strategic_patch(Pod, pod.key, {"metadata": {**UNTRACK["metadata"], **seen}})
        except NotFoundError:
            return None
        except KcrError as error:
            return error

    async def _delete_one(self, pod: Pod) -> KcrError | None:
        try:
            await self._client.delete(Pod, pod.key, uid=pod.metadata.uid)
        except KcrError as error:
            return error
        return None

    def _named(self, pod: PodToCreate) -> PodToCreate:
        return named(pod, "".join(self._random.choice(SUFFIX_LETTERS) for _ in range(SUFFIX_LENGTH)))

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


def _versions(pods: Iterable[Pod]) -> tuple[str, ...]:
    return tuple(pod.metadata.resource_version for pod in pods)


async def _all(call: Callable[[Pod], Awaitable[T]], pods: Sequence[Pod]) -> list[T]:
    """Call for all pods at the same time; the answers come back in their order."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_call(call, pod)) for pod in pods]
    return [task.result() for task in tasks]


async def _call(call: Callable[[Pod], Awaitable[T]], pod: Pod) -> T:
    return await call(pod)
