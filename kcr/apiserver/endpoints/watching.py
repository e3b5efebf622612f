"""Watches: the state to begin with, then every change as a line, until the time is up.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/storage/cacher/cacher.go,
pkg/endpoints/handlers/{get,watch}.go.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import NamedTuple

from kcr.apiserver.endpoints.routes import Query, parse_integer
from kcr.apiserver.endpoints.serialization import Form, line_of
from kcr.apiserver.kinds.catalogue import Kind
from kcr.apiserver.kinds.field_errors import forbidden
from kcr.apiserver.responses import RefusedError, invalid_option
from kcr.apiserver.storage.selection import Selection
from kcr.apiserver.storage.storage import Change, Storage

BOOKMARK_SECONDS = 60.0
_LAST_BOOKMARK_SECONDS = 2.0

_log = logging.getLogger(__name__)


class WatchOptions(NamedTuple):
    """How a watch begins and ends.

    Attributes:
        revision: Where to begin; 0 when the client does not say.
        initial_events: Whether the state comes first; None when the client does not say.
        bookmarks: Whether the client takes bookmarks.
        timeout_seconds: When it ends; 0 when the client does not say, at once below that.
    """

    revision: int
    initial_events: bool | None
    bookmarks: bool
    timeout_seconds: int


def watch_options(query: Query) -> WatchOptions:
    """Return how a request wants its watch.

    Raises:
        RefusedError: 422, the parameters contradict each other; 500, the version is no number.
    """
    match, initial = query.text("resourceVersionMatch"), query.has("sendInitialEvents")
    if initial and match != "NotOlderThan":
        words = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise invalid_option("ListOptions", forbidden("resourceVersionMatch", words))
    if match and not initial:
        words = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        raise invalid_option("ListOptions", forbidden("resourceVersionMatch", words))
    try:
        revision = parse_integer(query.text("resourceVersion") or "0", "ParseUint")
    except RefusedError as error:
        # Upstream finds it where nothing is the client's fault any more.
        raise RefusedError(500, "", error.message) from None
    return WatchOptions(
        revision=revision,
        initial_events=query.flag("sendInitialEvents") if initial else None,
        bookmarks=query.flag("allowWatchBookmarks"),
        timeout_seconds=query.integer("timeoutSeconds") or 0,
    )


class Watch:
    """One watch: an iterator over chunks of whole lines. Close it when it is no longer read."""

    def __init__(self, storage: Storage, kind: Kind, selection: Selection, form: Form, most_behind: int) -> None:
        self._storage = storage
        self._table = storage.table(kind)
        self._selection = selection
        self._form = form
        self._most_behind = most_behind
        # Lines made and not yet fetched, in order.
        self._pending: list[bytes] = []
        # How many of the pending lines are changes.
        self._behind = 0
        # Changes up to here are not told: they are part of the state, or the client knows them.
        self._start = 0
        self._bookmarks = False
        self._ended = False
        # The open watches of the server.
        self._watches: set[Watch] = set()
        # What the reader sleeps on while nothing is pending.
        self._sleeper: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0

    async def begin(self, options: WatchOptions, timeout_seconds: float, watches: "set[Watch]") -> None:
        """Put the first lines in place and follow the changes from there on.

        Whatever goes wrong is told as an event of type ERROR, after which the watch ends.

        Args:
            options: How it begins and ends.
            timeout_seconds: When it ends.
            watches: The open watches; this one is among them until it ends.
        """
        self._bookmarks = options.bookmarks
        try:
            if options.initial_events and options.revision:
                await self._storage.reach(options.revision)
            self._pending = self._first_lines(options)
        except RefusedError as error:
            self._pending = [line_of("ERROR", error.status())]
            self._ended = True
            return
        self._table.subscribers[self._on_change] = None
        self._watches = watches
        watches.add(self)
        loop = asyncio.get_running_loop()
        self._deadline = loop.time() + timeout_seconds
        self._arm(loop)

    def _first_lines(self, options: WatchOptions) -> list[bytes]:
        # No version and no word about initial events means: the state first.
        wants_state = options.initial_events or (options.initial_events is None and not options.revision)
        if wants_state:
            return self._state()
        if not options.revision:
            self._start = self._storage.revision
            return []
        self._start = options.revision
        missed = self._table.since(options.revision)
        return [line for change in missed if (line := self._line(change))]

    def _state(self) -> list[bytes]:
        self._start = self._storage.revision
        found = self._table.select(self._selection.namespace)
        lines = [self._form.event("ADDED", record, None) for record in found if self._selection.has(record)]
        if self._bookmarks:
            lines.append(self._form.bookmark(self._table.kind, self._start, initial_end=True))
        return lines

    def _line(self, change: Change) -> bytes | None:
        event = self._selection.event(change)
        return None if event is None else self._form.event(*event, change)

    def _on_change(self, change: Change) -> None:
        if change.revision <= self._start:
            return
        try:
            line = self._line(change)
        except Exception:  # whatever it is, it must not reach whoever made the change
            _log.exception("a watch of %s cannot show revision %d", self._table.kind.type.display, change.revision)
            self.end()
            return
        if line is None:
            return
        self._behind += 1
        if self._behind > self._most_behind:
            self._pending.clear()
            self.end()
            return
        self._pending.append(line)
        self._wake()

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        due = self._deadline
        if self._bookmarks:
            moment = min(loop.time() + BOOKMARK_SECONDS, self._deadline - _LAST_BOOKMARK_SECONDS)
            due = moment if moment > loop.time() else due
        self._timer = loop.call_at(due, self._tick, loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop.time() >= self._deadline:
            self.end()
            return
        self._pending.append(self._form.bookmark(self._table.kind, self._storage.revision, initial_end=False))
        self._wake()
        self._arm(loop)

    def _wake(self) -> None:
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    def end(self) -> None:
        """End the watch cleanly once the lines made so far are fetched."""
        self._ended = True
        self._watches.discard(self)
        self._table.subscribers.pop(self._on_change, None)
        if self._timer is not None:
            self._timer.cancel()
        self._wake()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while not self._pending:
            if self._ended:
                raise StopAsyncIteration
            self._sleeper = asyncio.get_running_loop().create_future()
            await self._sleeper
        lines, self._pending, self._behind = self._pending, [], 0
        return b"".join(lines)

    async def aclose(self) -> None:
        """Stop following the changes."""
        self._pending.clear()
        self.end()
