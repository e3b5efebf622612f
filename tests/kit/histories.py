"""Histories of a collection: several clients write, read and list it at once, others watch it; all answers are kept.

Objects are ConfigMaps whose labels are their content: each write has a value of its own. A client's request takes its
time to arrive, and so does the answer; a request or its reply may be lost, or arrive when the client has given up.
`tests.kit.linearizability` says what a history must not show.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from random import Random
from typing import Any, NamedTuple

import msgspec

from kcr.client import Request, Transport
from kcr.errors import TransportError

MERGE = "application/merge-patch+json"
SELECTOR = "team=a"
# The last object of a history: each watcher has seen the rest when it sees this one. It matches every selector.
LAST = "last"
NEVER = float("inf")
_VERBS = ("create", "create", "put", "put", "patch", "patch", "delete", "get")
_LIST_OPTIONS = ("", "limit=1", "resourceVersion=0", "exact", "not older")
_PATIENCE = 60.0


class Obj(NamedTuple):
    """One version of an object: its resourceVersion, 0 if it is unknown, its uid and its labels."""

    version: int
    uid: str
    labels: frozenset[tuple[str, str]]


class Call(NamedTuple):
    """One request about one object.

    Attributes:
        verb: `create`, `put`, `patch`, `delete` or `get`.
        name: The object.
        guard: The resourceVersion that is a precondition; 0 for none.
        labels: What is written; a patch adds them.
        called: The moment before it, as a number that only grows.
        returned: The moment after the answer; `NEVER` where none came, and the write may have happened at any time.
        code: The answer; 0 where none came.
        found: The object of the answer; of a deletion, its uid only.
    """

    verb: str
    name: str
    guard: int
    labels: frozenset[tuple[str, str]]
    called: int
    returned: float = NEVER
    code: int = 0
    found: Obj | None = None


class Listing(NamedTuple):
    """One list, of one or more pages.

    Attributes:
        option: How it was asked for: an option of the query, `exact` or `not older`.
        asked: The version that these two name.
        called: See `Call`.
        returned: See `Call`.
        versions: The resourceVersion of each page.
        objects: All objects by name, in the order of the answer.
    """

    option: str
    asked: int
    called: int
    returned: float
    versions: tuple[int, ...]
    objects: tuple[tuple[str, Obj], ...]


class Event(NamedTuple):
    """One watch event: its type, and name and content of the object."""

    type: str
    name: str
    obj: Obj


class Watched(NamedTuple):
    """What one watcher has seen, through however many watches.

    Attributes:
        selector: Its label selector.
        start: The version after which its events begin.
        state: The objects that came first, for a watch that begins with them; None for others.
        events: The rest.
        is_whole: Whether it has seen the last object.
    """

    selector: str
    start: int
    state: tuple[tuple[str, Obj], ...] | None
    events: tuple[Event, ...]
    is_whole: bool


class History(NamedTuple):
    """All that the clients and watchers have seen; the first watcher has seen every change since the beginning."""

    calls: tuple[Call, ...]
    listings: tuple[Listing, ...]
    watches: tuple[Watched, ...]


class Plan(NamedTuple):
    """What happens in a history.

    Attributes:
        seed: All that is drawn.
        clients: How many clients write.
        steps: How many requests each of them sends.
        names: How many objects there are.
        watchers: How many watchers there are, beside one that sees everything.
        losses: The share of the requests that are lost, before or after they are executed.
        pace: The longest time in seconds between two requests, and that a request or an answer takes.
    """

    seed: int
    clients: int = 3
    steps: int = 6
    names: int = 2
    watchers: int = 3
    losses: float = 0.0
    pace: float = 0.2


async def record(transport: Transport, collection: str, plan: Plan) -> History:
    """Run clients and watchers, and return what they have seen.

    Args:
        transport: The way to the server.
        collection: The path of the ConfigMaps of an empty namespace.
        plan: What happens.
    """
    return await _Recorder(transport, collection, plan).run()


class _Recorder:
    def __init__(self, transport: Transport, collection: str, plan: Plan) -> None:
        self._transport, self._collection, self._plan = transport, collection, plan
        self._random = Random(plan.seed)
        self._moment = 0
        self._calls: list[Call] = []
        self._listings: list[Listing] = []
        # The newest version of all answers so far.
        self._newest = 0
        # One for each watcher that has begun.
        self._begun = asyncio.Semaphore(0)

    async def run(self) -> History:
        _, start, _ = await self._page("")
        async with asyncio.TaskGroup() as group:
            watchers = [group.create_task(self._watch("", start))]
            watchers += [group.create_task(self._watcher()) for _ in range(self._plan.watchers)]
            async with asyncio.TaskGroup() as clients:
                for number in range(self._plan.clients):
                    clients.create_task(self._client(number, group))
            for _ in watchers:
                await self._begun.acquire()
            await self._call("create", LAST, 0, frozenset({("team", "a")}))
        return History(tuple(self._calls), tuple(self._listings), tuple(one.result() for one in watchers))

    def _tick(self) -> int:
        self._moment += 1
        return self._moment

    async def _pause(self) -> None:
        await asyncio.sleep(self._random.random() * self._plan.pace)

    async def _client(self, number: int, background: asyncio.TaskGroup) -> None:
        # What it has seen of each object: guards are its versions, and so they may be old.
        seen: dict[str, int] = {}
        for step in range(self._plan.steps):
            await self._pause()
            if self._random.random() < 0.2:
                await self._list()
                continue
            name = f"o{self._random.randrange(self._plan.names)}"
            verb = self._random.choice(_VERBS)
            guard = seen.get(name, 0) if verb in ("put", "patch", "delete") and self._random.random() < 0.6 else 0
            label = f"by-{number}" if verb == "patch" else "by"
            labels = frozenset({(label, f"{number}-{step}"), ("team", self._random.choice("ab"))})
            given = labels if verb in ("create", "put", "patch") else frozenset()
            if self._random.random() < self._plan.losses:
                await self._lose(background, verb, name, guard, given)
                continue
            found = await self._call(verb, name, guard, given)
            if found.found is not None and found.found.version:
                seen[name] = found.found.version

    async def _lose(self, background: asyncio.TaskGroup, verb: str, name: str, guard: int, labels: Any) -> None:
        """Lose a request, or its reply, or let it arrive when the client has given up."""
        self._calls.append(Call(verb, name, guard, labels, self._tick()))
        how = self._random.choice(("request", "reply", "late"))
        if how == "reply":
            await self._send(verb, name, guard, labels)
        elif how == "late":
            background.create_task(self._send_late(verb, name, guard, labels))

    async def _send_late(self, verb: str, name: str, guard: int, labels: Any) -> None:
        await asyncio.sleep(self._random.random() * self._plan.pace * 3)
        await self._send(verb, name, guard, labels)

    async def _call(self, verb: str, name: str, guard: int, labels: frozenset[tuple[str, str]]) -> Call:
        place, call = len(self._calls), Call(verb, name, guard, labels, self._tick())
        self._calls.append(call)
        await self._pause()
        answer = await self._send(verb, name, guard, labels)
        if answer is not None:
            await self._pause()
            code, found = answer
            self._calls[place] = call = call._replace(returned=self._tick(), code=code, found=found)
            self._newest = max(self._newest, found.version if found else 0)
        return call

    async def _send(self, verb: str, name: str, guard: int, labels: Any) -> tuple[int, Obj | None] | None:
        """Send a request; return code and object of the answer, None where none comes."""
        metadata: dict[str, Any] = {"name": name, "labels": dict(labels)}
        if guard:
            metadata["resourceVersion"] = str(guard)
        path, body = f"{self._collection}/{name}", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        match verb:
            case "create":
                answer = await self._exchange("POST", self._collection, body)
            case "put":
                answer = await self._exchange("PUT", path, body)
            case "patch":
                answer = await self._exchange("PATCH", path, {"metadata": metadata}, MERGE)
            case "delete":
                options = {"preconditions": {"resourceVersion": str(guard)}} if guard else {}
                answer = await self._exchange("DELETE", path, options)
            case _:
                answer = await self._exchange("GET", path)
        if answer is None:
            return None
        code, document = answer
        if code >= 300:
            return code, None
        deleted = Obj(0, document["details"]["uid"], frozenset()) if verb == "delete" else None
        return code, deleted or _obj(document)

    async def _exchange(self, method: str, target: str, body: Any = None, form: str = "application/json") -> Any:
        """Return code and body of an answer, None where the server dies before it."""
        data = b"" if body is None else msgspec.json.encode(body)
        request = Request(method, target, {"Content-Type": form, "Accept": "application/json"}, data)
        try:
            async with self._transport.send(request) as response:
                return response.status, msgspec.json.decode(await response.read())
        except TransportError:
            return None

    async def _list(self) -> None:
        option, asked, called = self._random.choice(_LIST_OPTIONS), self._newest, self._tick()
        query = option
        if option in ("exact", "not older"):
            if not asked:
                return
            query = f"resourceVersion={asked}&resourceVersionMatch={'Exact' if option == 'exact' else 'NotOlderThan'}"
        await self._pause()
        objects, version, more = await self._page(query)
        versions = [version]
        while more:
            # Writes come between two pages.
            await self._pause()
            found, version, more = await self._page(f"{query}&continue={more}")
            objects, versions = [*objects, *found], [*versions, version]
        await self._pause()
        if all(versions):
            self._listings.append(Listing(option, asked, called, self._tick(), tuple(versions), tuple(objects)))

    async def _page(self, query: str) -> tuple[list[tuple[str, Obj]], int, str]:
        """Return objects, version and continue token of a list; version 0 where no answer comes."""
        answer = await self._exchange("GET", f"{self._collection}?{query}")
        if answer is None:
            return [], 0, ""
        code, document = answer
        assert code == 200, document
        metadata = document["metadata"]
        objects = [(one["metadata"]["name"], _obj(one)) for one in document["items"]]
        return objects, int(metadata["resourceVersion"]), metadata.get("continue", "")

    async def _watcher(self) -> Watched:
        for _ in range(self._random.randrange(1, 8)):
            await self._pause()
        selector = self._random.choice(("", SELECTOR))
        if self._random.random() < 0.5:
            return await self._watch(selector, 0)
        # From a version between: that of a list.
        version = 0
        while not version:
            _, version, _ = await self._page("")
        await self._pause()
        return await self._watch(selector, version)

    async def _watch(self, selector: str, start: int) -> Watched:
        """Watch until the last object; the watch is closed every few events, and resumed.

        Args:
            selector: The label selector.
            start: The version to begin after; 0 to begin with the state.
        """
        state: list[tuple[str, Obj]] | None = None if start else []
        events: list[Event] = []
        version = start
        if start:
            self._begun.release()
        try:
            async with asyncio.timeout(_PATIENCE):
                while not (events and events[-1].name == LAST):
                    room = self._random.randrange(1, 6)
                    async with aclosing(self._events(selector, version)) as stream:
                        if not version:
                            # A state that the end of the server has cut is read again from its beginning.
                            state = []
                        async for event in stream:
                            if event.type == "BOOKMARK":
                                start = version = event.obj.version
                                self._begun.release()
                            elif not version:
                                assert state is not None
                                state.append((event.name, event.obj))
                            else:
                                events.append(event)
                                version, room = event.obj.version, room - 1
                                if not room or event.name == LAST:
                                    break
                    await self._pause()
        except TimeoutError:
            pass
        is_whole = bool(events) and events[-1].name == LAST
        found = None if state is None else tuple(state)
        return Watched(selector, start, found, tuple(events), is_whole)

    async def _events(self, selector: str, version: int) -> AsyncGenerator[Event, None]:
        query = f"watch=true&labelSelector={selector}"
        if version:
            query += f"&resourceVersion={version}"
        else:
            query += "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        request = Request("GET", f"{self._collection}?{query}", {"Accept": "application/json"}, timeout_seconds=None)
        try:
            async with self._transport.send(request) as response:
                async for line in response.lines():
                    event = msgspec.json.decode(line)
                    obj = event["object"]
                    assert event["type"] != "ERROR", obj
                    yield Event(event["type"], obj["metadata"].get("name", ""), _obj(obj))
        except TransportError:
            return


def _obj(document: Mapping[str, Any]) -> Obj:
    metadata = document["metadata"]
    labels = frozenset((metadata.get("labels") or {}).items())
    return Obj(int(metadata["resourceVersion"]), metadata.get("uid", ""), labels)
