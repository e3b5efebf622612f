"""Watches of custom resources that a webhook converts: changes are converted when their lines are fetched.

A change is stored at once and waits for no webhook. A reader takes all changes that have come, converts them as one
review, and meanwhile the next ones come: so the events stay in order, and a slow webhook gets larger reviews, not more.
Where the conversion fails, the watch ends with an event of type ERROR.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/storage/etcd3/watcher.go, transform, sendError and parseError.
"""

from collections.abc import Iterable, Iterator

from kcr_devcluster.apiserver.http.serialization import event_line
from kcr_devcluster.apiserver.http.watches.watching import Watch
from kcr_devcluster.apiserver.kinds.kind import Converter
from kcr_devcluster.apiserver.protocol.responses import StatusError
from kcr_devcluster.apiserver.storage.records import Change, Record, converted_record


class ConvertedWatch(Watch):
    """A watch whose pending lines are changes that are yet to be converted, and bookmarks."""

    async def __anext__(self) -> bytes:
        while not (chunk := await super().__anext__()):
            # All changes were left out by selectors, and an empty chunk would end the response.
            pass
        return chunk

    def _initial_line(self, record: Record) -> Change | None:
        return Change(record.revision, None, record) if self._selection.may_match(record) else None

    def _line(self, change: Change) -> Change | None:
        return change if self._selection.may_match(change.record) else None

    async def _encoded(self, lines: list[bytes | Change]) -> bytes:
        converter = self.kind.converter
        assert converter is not None  # or it is another watch
        try:
            try:
                return b"".join(await self._converted(converter, lines))
            except StatusError:
                if len(lines) == 1:
                    raise
            return await self._one_by_one(converter, lines)
        except StatusError as error:
            return self._end(error)
        except BaseException:
            # A reader that was cancelled may come again.
            self._pending[:0] = lines
            raise

    async def _one_by_one(self, converter: Converter, lines: list[bytes | Change]) -> bytes:
        """Return the lines up to the change that cannot be converted, and its error."""
        found: list[bytes] = []
        for line in lines:
            try:
                found += await self._converted(converter, [line])
            except StatusError as error:
                return b"".join((*found, self._end(error)))
        return b"".join(found)

    def _end(self, error: StatusError) -> bytes:
        self._pending.clear()
        self.stop()
        return event_line("ERROR", StatusError(error.code, "InternalError", error.message).status())

    async def _converted(self, converter: Converter, lines: list[bytes | Change]) -> list[bytes]:
        records = [record for line in lines if isinstance(line, Change) for record in self._needed(line)]
        manifests = await converter.convert([record.manifest() for record in records], self.kind.type.version)
        found = {
            id(record): converted_record(record, self.kind, manifest)
            for record, manifest in zip(records, manifests, strict=True)
        }
        return list(self._events(lines, found))

    def _needed(self, change: Change) -> Iterable[Record]:
        """Return the objects of a change to convert: both versions where selectors need their contents."""
        if self._selection.selects_content:
            return filter(None, (change.old, change.new))
        return (change.record,)

    def _events(self, lines: Iterable[bytes | Change], found: dict[int, Record]) -> Iterator[bytes]:
        for line in lines:
            if isinstance(line, bytes):
                yield line
                continue
            old, new = (record and found.get(id(record), record) for record in (line.old, line.new))
            event = self._selection.event(Change(line.revision, old, new))
            if event is not None:
                yield self._encoder.encode_event(*event, None)
