"""Watches: the initial state, then every change as an event, until the timeout.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/storage/cacher/cacher.go,
pkg/endpoints/handlers/{get,watch}.go.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from typing import NamedTuple, cast

from kcr.api.resources import ResourceType
from kcr.clock import TIMER_SLACK_SECONDS
from kcr_devcluster.apiserver.http.listing import check_options, parse_resource_version
from kcr_devcluster.apiserver.http.serialization import ObjectEncoder, event_line
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.protocol.query import Query
from kcr_devcluster.apiserver.protocol.responses import StatusError
from kcr_devcluster.apiserver.storage.records import Change, Record
from kcr_devcluster.apiserver.storage.selection import SelectionPredicate
from kcr_devcluster.apiserver.storage.storage import StorageReader
from kcr_devcluster.apiserver.storage.watch_cache import ordered

BOOKMARK_SECONDS = 60.0
_LAST_BOOKMARK_SECONDS = 2.0

_log = logging.getLogger(__name__)


class WatchOptions(NamedTuple):
    """The options of a watch.

    Attributes:
        revision: The resourceVersion to start from; 0 for none.
        initial_events: Whether the state is sent first (sendInitialEvents); None where it is absent.
        bookmarks: Whether bookmarks are sent.
        timeout_seconds: When it ends; 0 for the default, at once below that.
    """

    revision: int
    initial_events: bool | None
    bookmarks: bool
    timeout_seconds: int


def watch_options(query: Query) -> WatchOptions:
    """Return the options of a watch request.

    Raises:
        StatusError: 422, the parameters contradict each other; 500, the version is no number.
    """
    check_options(query)
    revision = parse_resource_version(query.text("resourceVersion"))
    initial = query.has("sendInitialEvents")
    return WatchOptions(
        revision=revision,
        initial_events=query.flag("sendInitialEvents") if initial else None,
        bookmarks=query.flag("allowWatchBookmarks"),
        timeout_seconds=query.integer("timeoutSeconds") or 0,
    )


class OpenWatches(set["Watch"]):
    """The open watches of a server.

    Attributes:
        has_woken_readers: Whether a change has woken readers since writers last waited for them.
        events: How many events were sent, by kind.
    """

    has_woken_readers: bool = False

    def __init__(self) -> None:
        super().__init__()
        self.events: Counter[ResourceType] = Counter()

    async def send_changes(self) -> None:
        """Let the readers that wait for a change fetch it and send it on, before its writer is answered.

        Controllers compare the version that they wrote with the version that they have read, and retry while it is
        older. On a real server the watch cache sends the event while the answer is still being encoded. A reader that
        is busy with earlier changes is not waited for.
        """
        if self.has_woken_readers:
            self.has_woken_readers = False
            # The tasks of the readers were scheduled when the change was stored, and so run before this one.
            await asyncio.sleep(0)


class Watch:
    """One watch: an iterator over chunks of whole lines. Close it when it is no longer read.

    Attributes:
        kind: The kind of the objects, as the request names it.
        namespace: The namespace that is watched, `""` for all.
    """

    def __init__(
        self,
        storage: StorageReader,
        kind: Kind,
        selection: SelectionPredicate,
        encoder: ObjectEncoder,
        max_backlog: int,
    ) -> None:
        self.kind = kind
        self.namespace = selection.namespace
        self._storage = storage
        self._cache = storage.cache(kind)
        self._selection = selection
        self._encoder = encoder
        self._max_backlog = max_backlog
        # Lines made and not yet fetched, in order.
        self._pending: list[bytes | Change] = []
        # How many of the pending lines are changes.
        self._backlog = 0
        # Changes up to this resourceVersion are not sent: they are in the initial state, or the client has them.
        self._start_revision = 0
        self._bookmarks = False
        self._ended = False
        # The open watches of the server.
        self._watches = OpenWatches()
        # The future that the reader awaits while nothing is pending.
        self._reader: asyncio.Future[None] | None = None
        self._timer: asyncio.Handle | None = None
        self._deadline = 0.0

    async def start(self, options: WatchOptions, timeout_seconds: float, watches: OpenWatches) -> None:
        """Make the first lines, and follow the changes from there on.

        An error is sent as an event of type ERROR, after which the watch ends.

        Args:
            options: The options of the request.
            timeout_seconds: When it ends.
            watches: The open watches; this one is among them until it ends.
        """
        self._bookmarks = options.bookmarks
        self._watches = watches
        # Before it waits: a definition that changes meanwhile ends it.
        watches.add(self)
        try:
            if options.initial_events and options.revision:
                await self._storage.wait_for_revision(options.revision)
            if self._ended:
                return
            self._pending = self._initial_lines(options)
        except StatusError as error:
            self._pending = [event_line("ERROR", error.status())]
            self.stop()
            return
        except BaseException:
            self.stop()
            raise
        self._cache.subscribers[self._on_change] = None
        loop = asyncio.get_running_loop()
        self._deadline = loop.time() + timeout_seconds
        self._schedule_timer(loop)

    def _initial_lines(self, options: WatchOptions) -> list[bytes | Change]:
        # Neither a resourceVersion nor sendInitialEvents: the state is sent first.
        state_first = options.initial_events or (options.initial_events is None and not options.revision)
        if state_first:
            return self._state()
        if not options.revision:
            self._start_revision = self._storage.revision
            return []
        self._start_revision = options.revision
        return self._missed(options.revision)

    def _missed(self, revision: int) -> list[bytes | Change]:
        missed = self._cache.changes_since(revision)
        return [line for change in missed if (line := self._line(change))]

    def _state(self) -> list[bytes | Change]:
        self._start_revision = self._storage.revision_to_read(self.kind)
        found = ordered(*self._cache.snapshot_at(self._start_revision), self._selection.namespace, "")
        lines = [line for record in found if (line := self._initial_line(record))]
        if self._bookmarks:
            lines.append(self._encoder.encode_bookmark(self._cache.kind, self._start_revision, initial_end=True))
        return lines + self._missed(self._start_revision)

    def _initial_line(self, record: Record) -> bytes | Change | None:
        return self._encoder.encode_event("ADDED", record, None) if self._selection.matches(record) else None

    def _line(self, change: Change) -> bytes | Change | None:
        event = self._selection.event(change)
        return None if event is None else self._encoder.encode_event(*event, change)

    def _on_change(self, change: Change) -> None:
        if change.revision <= self._start_revision:
            return
        try:
            line = self._line(change)
        except Exception:  # it must not reach the writer of the change
            _log.exception("a watch of %s cannot show revision %d", self._cache.kind.type.display, change.revision)
            self.stop()
            return
        if line is None:
            return
        self._backlog += 1
        if self._backlog > self._max_backlog:
            self._pending.clear()
            self.stop()
            return
        self._pending.append(line)
        self._wake_reader()

    def _schedule_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        due = self._deadline
        if self._bookmarks:
            moment = min(loop.time() + BOOKMARK_SECONDS, self._deadline - _LAST_BOOKMARK_SECONDS)
            due = moment if moment - loop.time() > TIMER_SLACK_SECONDS else due
        self._timer = loop.call_at(due, self._on_timer, loop)

    def _on_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop.time() >= self._deadline - TIMER_SLACK_SECONDS:
            self.stop()
            return
        revision = self._storage.revision
        # Source: apiserver/pkg/storage/cacher/cache_watcher.go, process.
        if revision >= self._start_revision:
            self._pending.append(self._encoder.encode_bookmark(self._cache.kind, revision, initial_end=False))
            self._wake_reader()
        self._schedule_timer(loop)

    def _wake_reader(self) -> None:
        if self._reader is None:
            return
        self._watches.has_woken_readers = True
        if not self._reader.done():
            self._reader.set_result(None)

    def stop(self) -> None:
        """End the watch cleanly once the lines made so far are fetched."""
        self._ended = True
        self._watches.discard(self)
        self._cache.subscribers.pop(self._on_change, None)
        if self._timer is not None:
            self._timer.cancel()
        self._wake_reader()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while not self._pending:
            if self._ended:
                raise StopAsyncIteration
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        lines, self._pending, self._backlog = self._pending, [], 0
        self._watches.events[self.kind.type] += len(lines)
        return await self._encoded(lines)

    async def _encoded(self, lines: list[bytes | Change]) -> bytes:
        return b"".join(cast("list[bytes]", lines))

    async def aclose(self) -> None:
        """Stop following the changes."""
        self._pending.clear()
        self.stop()
