"""A copy of a collection, kept by watching it, as a client would."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from kcr_devcluster.apiserver import APIServer
from kcr_devcluster.apiserver.server import HTTPRequest
from tests.kit.custom_resources import Json

Key = tuple[str, str]


class ViolationError(Exception):
    """An invariant that does not hold.

    Attributes:
        rule: The invariant, in words.
        what: What was seen instead.
    """

    def __init__(self, rule: str, what: str) -> None:
        super().__init__(f"{rule}: {what}")
        self.rule = rule
        self.what = what


def items_of(listed: Json) -> dict[Key, Json]:
    """Return the objects of a list by namespace and name, without kind and apiVersion, in the list's order."""
    return {_key(one): _bare(one) for one in listed["items"]}


def _key(obj: Json) -> Key:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _bare(obj: Json) -> Json:
    return {name: value for name, value in obj.items() if name not in ("kind", "apiVersion")}


class Replica:
    """The objects of a list, brought up to date by the events of watches."""

    def __init__(self, target: str, *, live: bool) -> None:
        """Make a replica, empty so far.

        Args:
            target: The path of the collection and a query that another parameter can follow.
            live: Whether one watch stays open; else each check opens one from the version of the check before.
        """
        self._target = target
        self._live = live
        self._items: dict[Key, Json] | None = None
        self._version = ""
        self._stream: Any = None

    async def check(self, server: APIServer) -> None:
        """Read the events, and compare the result with the list.

        Raises:
            ViolationError: They are not the same, or an event does not fit.
        """
        if self._items is not None:
            await self._follow(server)
        response = await server.handle(HTTPRequest("GET", self._target))
        assert isinstance(response.body, bytes)
        listed = msgspec.json.decode(response.body)
        items = items_of(listed)
        if self._items is not None and self._items != items:
            told = {key: (self._items.get(key), items.get(key)) for key in {*items, *self._items}}
            different = {key: pair for key, pair in told.items() if pair[0] != pair[1]}
            raise ViolationError("a watch replays to the state of a list", f"{self._target} {different}")
        self._items = items
        if not self._live or self._stream is None:
            self._version = listed["metadata"]["resourceVersion"]
        if self._live and self._stream is None:
            await self._open(server)

    async def _open(self, server: APIServer) -> None:
        target = f"{self._target}watch=true&allowWatchBookmarks=true&resourceVersion={self._version}"
        response = await server.handle(HTTPRequest("GET", target))
        self._stream = response.body if response.status == 200 else None

    async def _follow(self, server: APIServer) -> None:
        if self._stream is None:
            await self._open(server)
        while self._stream is not None and self._items is not None:
            if await self._read():
                if not self._live:
                    await self._stream.aclose()
                    self._stream = None
                return
            self._stream = None
            # The watch has ended; another one goes on where it was, unless that is too long ago.
            if self._items is not None:
                await self._open(server)
        if self._stream is None:
            self._items = None

    async def _read(self) -> bool:
        """Read the events that are there; return whether the watch is still open."""
        stream: AsyncIterator[bytes] = self._stream
        try:
            while True:
                async with asyncio.timeout(0.001):
                    part = await anext(stream)
                for line in part.splitlines():
                    self._take(msgspec.json.decode(line))
        except TimeoutError:
            return True
        except StopAsyncIteration:
            return False

    def _take(self, event: Json) -> None:
        obj = event["object"]
        if event["type"] == "ERROR":
            if obj["code"] != 410:
                raise ViolationError("watches resume or say that it is too long ago", str(event))
            self._items = None
            return
        if self._items is None:
            return
        version = obj["metadata"]["resourceVersion"]
        if int(version) < int(self._version) or (int(version) == int(self._version) and event["type"] != "BOOKMARK"):
            raise ViolationError("versions in a watch grow", f"{self._target} {self._version} {event}")
        self._version = version
        match event["type"], _key(obj) in self._items if event["type"] != "BOOKMARK" else None:
            case ("ADDED", False) | ("MODIFIED", True):
                self._items[_key(obj)] = _bare(obj)
            case ("DELETED", True):
                del self._items[_key(obj)]
            case ("BOOKMARK", _):
                return
            case _:
                raise ViolationError("events fit what is there", f"{self._target} {event}")
        # Objects are compared in the order of lists.
        self._items = dict(sorted(self._items.items()))
