"""Handlers that record what became of objects, through watches of their own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random
from typing import Any, TypeVar

from kcr.api.batch import COMPLETE, FAILED, Job, is_finished
from kcr.api.conditions import is_condition_true
from kcr.api.core import Pod
from kcr.api.meta import Resource
from kcr.api.pods import is_active
from kcr.controllers.job.decisions.lifecycle import INTERIM
from kcr.informer import Handler, Informer
from kcr_devcluster.cluster import EmbeddedCluster

R = TypeVar("R", bound=Resource)


class Observer(Handler[R]):
    """Records every object there ever was, in its last state, by uid and in the order in which they came."""

    def __init__(self) -> None:
        self.all: dict[str, R] = {}
        self.gone: set[str] = set()

    def on_add(self, obj: R, initial: bool) -> None:
        self.all[obj.metadata.uid] = obj

    def on_update(self, old: R, new: R) -> None:
        self.all[new.metadata.uid] = new

    def on_delete(self, obj: R, final_state_unknown: bool) -> None:
        self.gone.add(obj.metadata.uid)

    @property
    def there(self) -> list[R]:
        return [obj for uid, obj in self.all.items() if uid not in self.gone]


class PodObserver(Observer[Pod]):
    """Records as well how many pods were active at once, at most."""

    def __init__(self) -> None:
        super().__init__()
        self.most_active = 0
        self._active: set[str] = set()

    @property
    def phases(self) -> dict[str, str]:
        return {uid: pod.status.phase for uid, pod in self.all.items()}

    def on_add(self, obj: Pod, initial: bool) -> None:
        super().on_add(obj, initial)
        self._count(obj)

    def on_update(self, old: Pod, new: Pod) -> None:
        super().on_update(old, new)
        self._count(new)

    def on_delete(self, obj: Pod, final_state_unknown: bool) -> None:
        super().on_delete(obj, final_state_unknown)
        self._active.discard(obj.metadata.uid)

    def _count(self, pod: Pod) -> None:
        (self._active.add if is_active(pod) else self._active.discard)(pod.metadata.uid)
        self.most_active = max(self.most_active, len(self._active))


class JobObserver(Observer[Job]):
    """Records every state of the Jobs as well, and the changes of status that are forbidden."""

    def __init__(self) -> None:
        super().__init__()
        self.history: list[Job] = []
        self.wrongs: list[str] = []

    def on_update(self, old: Job, new: Job) -> None:
        super().on_update(old, new)
        self.history.append(new)
        for kind in (COMPLETE, FAILED, *INTERIM.values()):
            if is_condition_true(old.status.conditions, kind) and not is_condition_true(new.status.conditions, kind):
                self.wrongs.append(f"{kind} was taken back")
        if is_finished(old) and old.status != new.status:
            self.wrongs.append("the status changed after the end")
        if new.status.failed < old.status.failed:
            self.wrongs.append(f"failures fell from {old.status.failed} to {new.status.failed}")


class DeletionObserver(Handler[Any]):
    """Records the versions and kinds of deleted objects, the last state of Jobs, and the finalizers they had then."""

    def __init__(self) -> None:
        self.gone: list[tuple[int, str]] = []
        self.finalizers: set[str] = set()
        self.jobs: list[Job] = []

    def on_update(self, old: Any, new: Any) -> None:
        if isinstance(new, Job) and new.metadata.deletion_timestamp is not None:
            self.finalizers |= set(new.metadata.finalizers)

    def on_delete(self, obj: Any, final_state_unknown: bool) -> None:
        self.gone.append((int(obj.metadata.resource_version), type(obj).__name__))
        if isinstance(obj, Job):
            self.jobs.append(obj)


H = TypeVar("H", bound=Handler[Any])


@asynccontextmanager
async def observing(cluster: EmbeddedCluster, handler: H, *kinds: type[Resource]) -> AsyncIterator[H]:
    """Call a handler with all objects of some kinds for as long as the context lives."""
    async with asyncio.TaskGroup() as group:
        tasks = []
        for kind in kinds:
            informer: Informer[Any] = Informer(cluster.client, kind, random=Random(9))
            informer.add_handler(handler)
            tasks.append(group.create_task(informer.run()))
            await informer.wait_synced()
        yield handler
        for task in tasks:
            task.cancel()


def observing_pods(cluster: EmbeddedCluster) -> AbstractAsyncContextManager[PodObserver]:
    """Record all pods for as long as the context lives."""
    return observing(cluster, PodObserver(), Pod)
