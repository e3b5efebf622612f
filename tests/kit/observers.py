"""Who watches a controller at work: what became of all Jobs and pods, and what the server thought of it."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from kcr.api.batch import Job
from kcr.api.conditions import is_true
from kcr.api.core import Pod
from kcr.api.meta import Resource
from kcr.client import Request, Response, Transport
from kcr.controllers.job.conditions import COMPLETE, FAILED, INTERIM, is_finished
from kcr.controllers.job.pods import is_active
from kcr.informer import Handler

R = TypeVar("R", bound=Resource)


class Seen(Handler[R]):
    """Every object there ever was of one kind, in its last state, by uid and in the order in which they came."""

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


class SeenPods(Seen[Pod]):
    """Notes as well how many were active at once, at most."""

    def __init__(self) -> None:
        super().__init__()
        self.most_active = 0

    def on_add(self, obj: Pod, initial: bool) -> None:
        super().on_add(obj, initial)
        self.most_active = max(self.most_active, sum(map(is_active, self.there)))


class SeenJobs(Seen[Job]):
    """Notes as well all that a Job has been, and what must not become of it."""

    def __init__(self) -> None:
        super().__init__()
        self.history: list[Job] = []
        self.wrongs: list[str] = []

    def on_update(self, old: Job, new: Job) -> None:
        super().on_update(old, new)
        self.history.append(new)
        for kind in (COMPLETE, FAILED, *INTERIM.values()):
            if is_true(old.status.conditions, kind) and not is_true(new.status.conditions, kind):
                self.wrongs.append(f"{kind} was taken back")
        if is_finished(old) and old.status != new.status:
            self.wrongs.append("the status changed after the end")
        if new.status.failed < old.status.failed:
            self.wrongs.append(f"failures fell from {old.status.failed} to {new.status.failed}")


class Door:
    """The way to the server; notes what the server finds invalid about Jobs, and can hold watches back."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.invalid: list[str] = []
        # By plural: set as long as the watches' lines come through.
        self.open: dict[str, asyncio.Event] = defaultdict(_opened)

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        async with self._inner.send(request) as response:
            if response.status == 422 and "/jobs/" in request.target:
                self.invalid.append((await response.read()).decode())
            path, _, query = request.target.partition("?")
            yield _Held(response, self.open[path.rpartition("/")[2]]) if "watch=" in query else response


def _opened() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


class _Held:
    def __init__(self, inner: Response, opened: asyncio.Event) -> None:
        self._inner = inner
        self._opened = opened
        self.status = inner.status
        self.headers = inner.headers

    async def read(self) -> bytes:
        return await self._inner.read()

    async def lines(self) -> AsyncIterator[bytes]:
        async for line in self._inner.lines():
            await self._opened.wait()
            yield line
