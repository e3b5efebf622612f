"""Explanations for the page of `kcr dev`: what `kcr explain` says of the objects that do not explain themselves.

Each costs some requests to the cluster in this process. So only objects in question are explained, a few at a time and
each once in two seconds at most: the page of a cluster with a thousand Jobs must not slow it down.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from kcr.api.apps import Deployment, ReplicaSet
from kcr.api.batch import Job
from kcr.api.explanation import Explanation
from kcr.api.meta import Key, Resource
from kcr.cli.display.view import view_of
from kcr.cli.display.workloads import is_available, job_state
from kcr.client import Client
from kcr.errors import KcrError

# Explains the object of a kind, as `kcr explain` does.
Explain = Callable[[type[Resource], Key], Awaitable[Explanation]]

# How long an explanation holds, and how long the event loop may be used for those of one request.
FRESH_SECONDS, BUDGET_SECONDS = 2.0, 0.05
# Of the event loop's time, for one object: a Job with ten thousand pods is explained less often.
SHARE = 0.02


def is_in_question(job: Job) -> bool:
    """Return whether the status of a Job leaves open why it is where it is."""
    view = view_of(job)
    if view.has_ended:
        return False
    if job_state(job, is_running=True) != "Running":
        return view.state != "Suspended"
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    left = parallelism if view.wanted is None else view.wanted - view.succeeded
    return not view.ready >= min(parallelism, left)


class Workings(NamedTuple):
    """What is read when the page is: no store has it.

    Attributes:
        deployments: All Deployments.
        replica_sets: All ReplicaSets.
        explanations: What `kcr explain` says of an object, by its uid.
    """

    deployments: tuple[Deployment, ...] = ()
    replica_sets: tuple[ReplicaSet, ...] = ()
    explanations: Mapping[str, Explanation] = {}


class Explanations:
    """Reads the objects of which the program needs no store, and explains those in question.

    Attributes:
        last: What was read last; to be read on any thread.
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

    async def refresh(self, jobs: Iterable[Job], asked: Key | None) -> None:
        """Read again, and explain what is in question and has waited longest; to be called on the program's loop.

        Args:
            jobs: All Jobs.
            asked: The Job that the page shows in full: it is explained in any case.
        """
        deployments = tuple(await self._client.list(Deployment))
        replica_sets = tuple(await self._client.list(ReplicaSet)) if deployments else ()
        wanted: list[Resource] = [job for job in jobs if job.key == asked or is_in_question(job)]
        wanted += [one for one in deployments if not is_available(one)]
        explanations = await self._explained(wanted, asked)
        self.last = Workings(deployments, replica_sets, explanations)

    async def _explained(self, wanted: Iterable[Resource], asked: Key | None) -> dict[str, Explanation]:
        by_uid = {obj.metadata.uid: obj for obj in wanted}
        kept = {uid: text for uid, text in self.last.explanations.items() if uid in by_uid}
        self._due = {uid: moment for uid, moment in self._due.items() if uid in by_uid}
        loop = asyncio.get_running_loop()
        begun = now = loop.time()
        due = [obj for uid, obj in by_uid.items() if self._due.get(uid, begun) <= begun]
        due.sort(key=lambda obj: (obj.key != asked, self._due.get(obj.metadata.uid, 0.0)))
        for obj in due:
            if now - begun >= BUDGET_SECONDS:
                break
            with suppress(KcrError):
                kept[obj.metadata.uid] = await self._explain(type(obj), obj.key)
            took, now = loop.time() - now, loop.time()
            self._due[obj.metadata.uid] = now + max(FRESH_SECONDS, took / SHARE)
        return kept
