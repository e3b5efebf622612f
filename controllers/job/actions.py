"""Creating pods, deleting them, letting them go: the writes of a reconcile, and what came of them."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from random import Random

from controllers.job.memory import Identity, Remembered, identity
from controllers.job.plan import Outcome
from controllers.job.pod_template import PodToCreate, named, prototype
from controllers.job.pods import TRACKING_FINALIZER, is_tracked
from kcr.api import codec
from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.meta import controller_of
from kcr.client import Client
from kcr.dependents import slow_start
from kcr.errors import AlreadyExistsError, ApiError, KcrError, NotFoundError, ServerError, TransportError
from kcr.events import EventRecorder
from kcr.expectations import Expectations

# Pauses in seconds before a create whose reply was lost is sent again, under the same name.
PAUSES = (0.0, 0.1, 0.5)
EVENTS_PER_ROUND = 3
SUMMARY_BYTES = 1024

UNTRACK = {"metadata": {"$deleteFromPrimitiveList/finalizers": [TRACKING_FINALIZER]}}

# No answer, or one that does not say whether the write has happened.
_UNKNOWN = (TransportError, ServerError)


class Actions:
    """Does the work of a plan. Errors are part of the outcome, never raised."""

    def __init__(
        self, client: Client, recorder: EventRecorder, random: Random, expectations: Expectations[Identity]
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._random = random
        self._expectations = expectations

    async def create(self, job: Job, mine: Remembered, count: int) -> Outcome:
        """Create so many pods, in batches of 1, 2, 4, …; a batch with a failure is the last one.

        Source: kubernetes/pkg/controller/job/job_controller.go, manageJob.
        """
        pod = prototype(job)
        self._expectations.expect_creations(identity(job), count)
        attempts = await slow_start(count, lambda _: self._create_one(named(pod, self._random)))
        errors = [failure.error for failure in attempts.failures]
        doubtful = [error.pod for error in errors if isinstance(error, InDoubtError)]
        mine.doubtful.extend(doubtful)
        for made in attempts.done:
            mine.wrote_pod(made.metadata.resource_version)
        there = len(attempts.done) + len(doubtful)
        self._expectations.creation_observed(identity(job), count - there)
        self._announce(job, "SuccessfulCreate", "Created", [made.metadata.name for made in attempts.done])
        refused = [error for error in errors if isinstance(error, ApiError)]
        error = self._failures(job, "FailedCreate", "Error creating", refused)
        return Outcome(created=there, error=error or (errors[0] if doubtful else None))

    async def resolve(self, job: Job, mine: Remembered) -> None:
        """Send the creates again that went without an answer, until each has one.

        Raises:
            InDoubtError: There is still no answer; the reconcile is to be tried again.
        """
        while mine.doubtful:
            try:
                made = await self._create_one(mine.doubtful[0])
            except ApiError:
                self._expectations.creation_observed(identity(job))
            else:
                mine.wrote_pod(made.metadata.resource_version)
                self._announce(job, "SuccessfulCreate", "Created", [made.metadata.name])
            mine.doubtful.pop(0)

    async def remove(self, job: Job, mine: Remembered, pods: Sequence[Pod]) -> Outcome:
        """Delete pods that shall count neither as failed nor as succeeded: their finalizer goes first."""
        self._expectations.expect_deletions(identity(job), len(pods))

        async def remove_one(pod: Pod) -> Exception | None:
            error = await self._untrack_one(pod, mine) if is_tracked(pod) else None
            return error or await self._delete_one(pod)

        outcome = self._deleted(job, pods, await _all(remove_one, pods))
        self._expectations.deletion_observed(identity(job), len(pods) - len(outcome.deleted))
        return outcome

    async def delete(self, job: Job, pods: Sequence[Pod]) -> Outcome:
        """Delete pods because the Job ends. They keep their finalizer until they are counted."""
        return self._deleted(job, pods, await _all(self._delete_one, pods))

    async def untrack(self, mine: Remembered, pods: Sequence[Pod]) -> tuple[frozenset[str], Exception | None]:
        """Remove the finalizer of pods that are on record.

        Returns:
            The UIDs of those that have lost it, and the first error.
        """
        mine.untracked.update(pod.metadata.uid for pod in pods)
        errors = await _all(lambda pod: self._untrack_one(pod, mine), pods)
        kept = {pod.metadata.uid for pod, error in zip(pods, errors, strict=True) if error is not None}
        mine.untracked -= kept
        gone = frozenset(pod.metadata.uid for pod in pods) - kept
        return gone, next((error for error in errors if error is not None), None)

    async def _create_one(self, pod: PodToCreate) -> Pod:
        """Create one pod, whatever it takes to get an answer.

        Raises:
            ApiError: The server refuses it.
            InDoubtError: There was no answer.
        """
        error: ApiError | InDoubtError = InDoubtError(pod, "not sent")
        for pause in PAUSES:
            await asyncio.sleep(pause)
            try:
                return await self._create_or_find(pod)
            except AlreadyExistsError as taken:
                # Somebody else's pod has the name; the next draw will be free.
                pod, error = named(pod, self._random), taken
            except _UNKNOWN as unknown:
                error = InDoubtError(pod, str(unknown))
        raise error

    async def _create_or_find(self, pod: PodToCreate) -> Pod:
        """Create the pod, or find it if it was created before and the reply was lost."""
        try:
            return await self._client.create_manifest(Pod, codec.encode(pod), pod.metadata.namespace)
        except AlreadyExistsError:
            with contextlib.suppress(NotFoundError):
                found = await self._client.get(Pod, pod.metadata.name, pod.metadata.namespace)
                owner = controller_of(found.metadata)
                if owner is not None and owner.uid == pod.metadata.owner_references[0].uid:
                    return found
            raise

    async def _untrack_one(self, pod: Pod, mine: Remembered) -> Exception | None:
        try:
            patched = await self._client.strategic_patch(Pod, pod.key, UNTRACK)
        except NotFoundError:
            return None
        except KcrError as error:
            return error
        mine.wrote_pod(patched.metadata.resource_version)
        return None

    async def _delete_one(self, pod: Pod) -> Exception | None:
        try:
            await self._client.delete(Pod, pod.key, uid=pod.metadata.uid)
        except KcrError as error:
            return error
        return None

    def _deleted(self, job: Job, pods: Sequence[Pod], errors: Sequence[Exception | None]) -> Outcome:
        """What is gone already counts as deleted, but nobody announces it twice."""
        pairs = list(zip(pods, errors, strict=True))
        gone = [pod for pod, error in pairs if error is None or isinstance(error, NotFoundError)]
        self._announce(job, "SuccessfulDelete", "Deleted", [pod.metadata.name for pod, error in pairs if error is None])
        failed = [error for _, error in pairs if error is not None and not isinstance(error, NotFoundError)]
        return Outcome(deleted=tuple(gone), error=self._failures(job, "FailedDelete", "Error deleting", failed))

    def _announce(self, job: Job, reason: str, verb: str, names: Sequence[str]) -> None:
        for name in names[:EVENTS_PER_ROUND]:
            self._recorder.event(job, "Normal", reason, f"{verb} pod: {name}")
        if len(names) > EVENTS_PER_ROUND:
            self._recorder.event(job, "Normal", reason, summary(verb, names[EVENTS_PER_ROUND:]))

    def _failures(self, job: Job, reason: str, words: str, errors: Iterable[Exception]) -> Exception | None:
        """Write one event per failure and return the first; a namespace that goes away is none."""
        told = [error for error in errors if not _is_namespace_ending(error)]
        for error in told:
            self._recorder.event(job, "Warning", reason, f"{words}: {error}")
        return told[0] if told else None


class InDoubtError(TransportError):
    """A pod may have been created or not; the same create is to be sent again."""

    def __init__(self, pod: PodToCreate, cause: str) -> None:
        super().__init__(f"pod {pod.key}: no answer to its creation: {cause}")
        self.pod = pod


def summary(verb: str, names: Sequence[str]) -> str:
    """Return one message about many pods: as many names as fit in 1,024 bytes, and the number of the others.

    Args:
        verb: `Created` or `Deleted`.
        names: At least one.
    """
    head = f"{verb} {len(names)} more pod{'s' if len(names) > 1 else ''}: "
    if len(head) + len(", ".join(names)) <= SUMMARY_BYTES:
        return head + ", ".join(names)
    room, shown = SUMMARY_BYTES - len(head) - len(f" and {len(names)} others") - len("…") * 3, 0
    while room > len(names[shown]) + 2:
        room -= len(names[shown]) + 2
        shown += 1
    return f"{head}{', '.join(names[:shown])}… and {len(names) - shown} others"


def _is_namespace_ending(error: Exception) -> bool:
    return isinstance(error, ApiError) and error.has_cause("NamespaceTerminating")


async def _all(call: Callable[[Pod], Awaitable[Exception | None]], pods: Sequence[Pod]) -> list[Exception | None]:
    """Call for all pods at the same time; the answers come back in their order."""
    answers: list[Exception | None] = [None] * len(pods)

    async def one(place: int, pod: Pod) -> None:
        answers[place] = await call(pod)

    async with asyncio.TaskGroup() as group:
        for place, pod in enumerate(pods):
            group.create_task(one(place, pod))
    return answers
