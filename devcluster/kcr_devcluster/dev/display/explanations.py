"""Explanations for the page of `kcr dev`, from `kcr explain`, of stuck objects.

Each costs some requests to the cluster in this process. So only objects in question are explained, a few at a time and
each once in two seconds at most: the page of a cluster with a thousand Jobs must not slow it down.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from kcr.api.apps import Deployment, ReplicaSet
from kcr.api.batch import Job
from kcr.api.explanation import Explanation
from kcr.api.meta import Key, Resource
from kcr.client import Client
from kcr.errors import KcrError
from kcr_devcluster.dev.display.workloads import is_available, is_in_question

# Explains the object of a kind, as `kcr explain` does.
Explain = Callable[[type[Resource], Key], Awaitable[Explanation]]

# How long an explanation holds, and how long the event loop may be used for those of one request.
FRESH_SECONDS, BUDGET_SECONDS = 2.0, 0.05
# Of the event loop's time, for one object: a Job with ten thousand pods is explained less often.
SHARE = 0.02


class Workings(NamedTuple):
    """Data that is read for each page, because no store has it.

    Attributes:
        deployments: All Deployments.
        replica_sets: All ReplicaSets.
        explanations: The headline of `kcr explain` for an object, by its uid; the last one for an object that is no
            longer in question.
    """

    deployments: tuple[Deployment, ...] = ()
    replica_sets: tuple[ReplicaSet, ...] = ()
    explanations: Mapping[str, Explanation] = {}


class Explanations:
    """Reads the objects of which the program needs no store, and explains those in question.

    Attributes:
        last: The last reading; to be read on any thread.
    """

    def __init__(self, client: Client, explain: Explain) -> None:
        """Read nothing yet.

        Args:
            client: Reads Deployments and ReplicaSets.
            explain: Explains an object.
        """
        self._client = client
        self._explain = explain
        # When each is made again, by uid.
        self._due: dict[str, float] = {}
        self.last = Workings()

    async def refresh(self, jobs: Sequence[Job], asked: Key | None) -> None:
        """Read again, and explain the object that has waited longest; called on the program's loop.

        Args:
            jobs: All Jobs.
            asked: The Job that the page shows in full: it is explained in any case.
        """
        deployments = tuple(await self._client.list(Deployment))
        replica_sets = tuple(await self._client.list(ReplicaSet)) if deployments else ()
        uids = {obj.metadata.uid for obj in (*jobs, *deployments)}
        explanations = {uid: text for uid, text in self.last.explanations.items() if uid in uids}
        self._due = {uid: moment for uid, moment in self._due.items() if uid in uids}
        wanted: list[Resource] = [job for job in jobs if job.key == asked or is_in_question(job)]
        wanted += [one for one in deployments if not is_available(one)]
        explanations.update(await self._explained(wanted, asked))
        self.last = Workings(deployments, replica_sets, explanations)

    async def _explained(self, wanted: Iterable[Resource], asked: Key | None) -> dict[str, Explanation]:
        """Return the explanations that are due and fit into the budget."""
        loop = asyncio.get_running_loop()
        begun = now = loop.time()
        due = [obj for obj in wanted if self._due.get(obj.metadata.uid, begun) <= begun]
        due.sort(key=lambda obj: (obj.key != asked, self._due.get(obj.metadata.uid, 0.0)))
        made: dict[str, Explanation] = {}
        for obj in due:
            if now - begun >= BUDGET_SECONDS:
                break
            with suppress(KcrError):
                made[obj.metadata.uid] = await self._explain(type(obj), obj.key)
            took, now = loop.time() - now, loop.time()
            self._due[obj.metadata.uid] = now + max(FRESH_SECONDS, took / SHARE)
        return made
