"""Deletes the failed pods of Jobs that keep only the latest ones (`kcr.dev/failed-pods-history`)."""

import asyncio
from collections.abc import Iterable

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.client import Client
from kcr.controllers.job.decisions.directives import directives_of
from kcr.controllers.job.decisions.pods import UNTRACKED_FAILURES
from kcr.controllers.job.decisions.retention import surplus_failures
from kcr.errors import ConflictError, KcrError, NotFoundError
from kcr.informer import Store


class FailedPodHistory:
    """Deletes counted failed pods beyond the number that their Job keeps.

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
