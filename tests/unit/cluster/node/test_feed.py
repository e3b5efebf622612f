import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import msgspec
import pytest

from kcr.client import Client, Request, Response
from kcr.cluster.node.feed import PodFeed
from kcr.errors import TransportError
from kcr.testing import VirtualClock

pytestmark = pytest.mark.virtual

Json = dict[str, object]


def pod(name: str, uid: str, version: int = 1) -> Json:
    metadata = {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": str(version)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


def pods(version: int, *items: Json) -> Json:
    return {"kind": "PodList", "metadata": {"resourceVersion": str(version)}, "items": items}


def event(kind: str, obj: Json) -> Json:
    return {"type": kind, "object": obj}


EXPIRED = event("ERROR", {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410, "message": "old"})


class Answer:
    status = 200
    headers: dict[str, str] = {}

    def __init__(self, values: tuple[Json, ...]) -> None:
        self._values = values

    async def read(self) -> bytes:
        return msgspec.json.encode(self._values[0])

    async def lines(self) -> AsyncIterator[bytes]:
        for value in self._values:
            yield msgspec.json.encode(value)


class Script:
    """A transport that gives these answers, one after the other, and then none any more."""

    def __init__(self, *answers: tuple[Json, ...] | Exception) -> None:
        self.asked: list[str] = []
        self._answers = list(answers)

    def send(self, request: Request) -> AbstractAsyncContextManager[Response]:
        return self._send(request)

    @asynccontextmanager
    async def _send(self, request: Request) -> AsyncIterator[Response]:
        query = dict(pair.split("=") for pair in request.target.partition("?")[2].split("&"))
        self.asked.append(f"watch {query['resourceVersion']}" if "watch" in query else "list")
        if not self._answers:
            await asyncio.get_running_loop().create_future()
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        yield Answer(answer)


async def told_by(script: Script, clock: VirtualClock) -> list[str]:
    """Run a feed on the script to its end, and return what it told."""
    told: list[str] = []
    feed = PodFeed(
        Client(script), random.Random(0),
        on_pod=lambda pod: told.append(f"{pod.metadata.uid} {pod.metadata.resource_version}"),
        on_gone=lambda uid: told.append(f"{uid} gone"),
    )  # fmt: skip
    async with asyncio.TaskGroup() as group:
        task = group.create_task(feed.run())
        await clock.advance(120)
        task.cancel()
    return told


async def test_watch_begins_where_the_list_ended(clock: VirtualClock) -> None:
    script = Script(
        (pods(5, pod("a", "A")),), (event("MODIFIED", pod("a", "A", 6)), event("DELETED", pod("a", "A", 7)))
    )
    assert await told_by(script, clock) == ["A 1", "A 6", "A gone"]
    assert script.asked == ["list", "watch 5", "watch 7"]


async def test_bookmarks_move_the_version_without_a_pod(clock: VirtualClock) -> None:
    bookmark = event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "9"}})
    script = Script((pods(5),), (bookmark,))
    assert await told_by(script, clock) == []
    assert script.asked == ["list", "watch 5", "watch 9"]


async def test_forgotten_version_is_listed_anew(clock: VirtualClock) -> None:
    script = Script((pods(5, pod("a", "A"), pod("b", "B")),), (EXPIRED,), (pods(9, pod("b", "B", 8)),))
    assert await told_by(script, clock) == ["A 1", "B 1", "A gone", "B 8"]
    assert script.asked == ["list", "watch 5", "list", "watch 9"]


async def test_other_pod_of_the_same_name_replaces_the_first(clock: VirtualClock) -> None:
    script = Script((pods(5, pod("a", "A")),), (EXPIRED,), (pods(9, pod("a", "X", 8)),))
    assert await told_by(script, clock) == ["A 1", "A gone", "X 8"]


async def test_broken_watch_goes_on_where_it_was(clock: VirtualClock) -> None:
    script = Script((pods(5),), TransportError("cut"), TransportError("cut"), (event("ADDED", pod("a", "A", 6)),))
    assert await told_by(script, clock) == ["A 6"]
    assert script.asked == ["list", "watch 5", "watch 5", "watch 5", "watch 6"]
