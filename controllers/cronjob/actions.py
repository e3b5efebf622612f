"""The writes of a reconcile and their results: starting, replacing and deleting Jobs."""

from collections.abc import Callable, Sequence
from functools import partial

from kcr.api import codec
from kcr.api.batch import CronJob, Job
from kcr.api.core import ObjectReference
from kcr.api.meta import Key, is_controlled_by
from kcr.client import Client
from kcr.controller import OwnWrites
from kcr.controllers.cronjob.decisions.directives import offset_of
from kcr.controllers.cronjob.decisions.plan import Outcome, Start
from kcr.dependents.ownership import with_slot
from kcr.errors import AlreadyExistsError, ApiError, KcrError, NotFoundError, ServerError, is_namespace_ending
from kcr.events import EventRecorder
from kcr.informer import Store
from kcr.refusals import cause_of
from kcr.tracing import with_traceparent


class NotReplacedError(KcrError):
    """A Job that is to make room for the next one could not be deleted."""


class Actions:
    """Does the work of a plan, and notes every write to a Job in `own_writes`."""

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        crons: Store[CronJob],
        jobs: Store[Job],
        own_writes: OwnWrites,
        on_late: Callable[[float], object],
    ) -> None:
        """Make the actions.

        Args:
            client: Talks to the server.
            recorder: Events about CronJobs.
            crons: The store of CronJobs.
            jobs: The store of Jobs.
            own_writes: The writes that are not observed yet.
            on_late: Called with the seconds from the moment a run was to start to its Job's creation.
        """
        self._client = client
        self._recorder = recorder
        self._crons = crons
        self._jobs = jobs
        self._own_writes = own_writes
        self._on_late = on_late

    async def delete_surplus(self, cron: CronJob, jobs: Sequence[Job]) -> None:
        """Delete ended Jobs, one after the other.

        A Job that cannot be deleted does not delay the next run: the next reconcile tries again.

        Source: kubernetes/pkg/controller/cronjob/cronjob_controllerv2.go, removeOldestJobs.
        """
        for job in jobs:
            await self._delete(cron, job.key, job.metadata.uid)

    async def start(self, cron: CronJob, start: Start) -> Outcome:
        """Make room for a run, and create its Job. Errors are part of the outcome.

        The refusal of a terminating namespace is none: the CronJob is deleted soon. Upstream retries with backoff.

        Source: kubernetes/pkg/controller/cronjob/cronjob_controllerv2.go, syncCronJob.
        """
        creates = self._own_writes.of(cron).creates
        try:
            for listed in start.replaces:
                await self._replace(cron, listed)
            # Before it is sent: without an answer the Job may exist, and `Replace` would start a second one.
            creates[start.job.key] = start.job
            job, is_new = await self._create(cron, start)
        except KcrError as error:
            if isinstance(error, ApiError) and not isinstance(error, ServerError):
                creates.pop(start.job.key, None)
            return Outcome(error=None if is_namespace_ending(error) else error)
        del creates[start.job.key]
        return Outcome(job=job, is_new=is_new)

    async def _replace(self, cron: CronJob, listed: ObjectReference) -> None:
        """Delete one Job that may still run.

        Raises:
            KcrError: It could not be read or deleted, so that the next one must not start.
        """
        key = Key(cron.metadata.namespace, listed.name)
        try:
            # As upstream, which deletes nothing that it cannot read.
            await self._client.get(Job, key)
        except KcrError as error:
            self._recorder.event(cron, "Warning", "FailedGet", f"Get job: {error}")
            raise
        if not await self._delete(cron, key, listed.uid):
            raise NotReplacedError(f"could not replace job {key}")

    async def _delete(self, cron: CronJob, key: Key, uid: str) -> bool:
        try:
            # The uid is a precondition: a Job that was created again under the name is not the one that was judged.
            await self._client.delete(Job, key, uid=uid, propagation="Background")
        except KcrError as error:
            self._recorder.event(cron, "Warning", "FailedDelete", f"Deleted job: {error}")
            return False
        self._recorder.event(cron, "Normal", "SuccessfulDelete", f"Deleted job {key.name}")
        is_shown = partial(self._is_shown, cron.key, key, uid)
        self._own_writes.of(cron).expect_absence(uid, is_shown)
        return True

    def _is_shown(self, cron: Key, key: Key, uid: str) -> bool:
        job, owner = self._jobs.get(key), self._crons.get(cron)
        return (job is not None and job.metadata.uid == uid) or (
            owner is not None and any(listed.uid == uid for listed in owner.status.active)
        )

    async def find(self, cron: CronJob, name: str) -> Job | None:
        """Return the CronJob's Job of this name as the server has it; None when it has none, or it is another's.

        Raises:
            KcrError: There was no answer.
        """
        try:
            job = await self._client.get(Job, Key(cron.metadata.namespace, name))
        except NotFoundError:
            return None
        return job if is_controlled_by(job, cron) else None

    async def _create(self, cron: CronJob, start: Start) -> tuple[Job | None, bool]:
        """Create the Job of a run, or find the one that was created before.

        Returns:
            The Job, or None when its name is another's; and whether it is new.

        Raises:
            KcrError: There is no such Job, or the server does not say.
        """
        try:
            # The name is that of the run, so of two controllers, or of two tries of one, only one starts it.
            job = await self._client.create_manifest(
                Job, codec.encode(with_traceparent(with_slot(start.job, cron))), cron.metadata.namespace
            )
        except AlreadyExistsError:
            # One that is being deleted makes room for the next try.
            found = await self._client.get(Job, Key(cron.metadata.namespace, start.job.metadata.name))
            return (found if is_controlled_by(found, cron) else None), False
        except KcrError as error:
            if not is_namespace_ending(error):
                message = f"Error creating job: {error}"
                self._recorder.event(cron, "Warning", "FailedCreate", message, cause=cause_of(str(error)))
            raise
        created = job.metadata.creation_timestamp
        if created is not None:
            self._on_late((created - start.run - offset_of(cron)).total_seconds())
        return job, True
