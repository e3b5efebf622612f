"""What a reflector has read, on its way to the sink."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

import structlog

from kcr.api.codec import WatchEvent
from kcr.api.meta import Key, ObjectMeta, Resource
from kcr.client.decoding import Refused
from kcr.informer.selection import Selection

R = TypeVar("R", bound=Resource)

_log = structlog.get_logger("kcr.informer")


class Sink(Protocol[R]):
    """Where a reflector puts what it reads."""

    def share(self, obj: R) -> R:
        """Return an object that is about to be handed over, made of known parts."""
        ...

    def replace(self, objects: Iterable[R], stale: Mapping[Key, str], version: str) -> Iterator[None]:
        """Take the whole present state. It is much, so the iterator stops whenever others may have their turn."""
        ...

    def apply(self, event: WatchEvent[R]) -> None:
        """Take one ADDED, MODIFIED or DELETED event."""
        ...

    def advance(self, version: str) -> None:
        """Hear that nothing else happened up to a version."""
        ...

    def refuse(self, key: Key, why: str, version: str) -> None:
        """Hear that the newest version of an object cannot be decoded."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether nothing more should be read for now."""
        ...

    async def room(self) -> None:
        """Wait until more can be taken."""
        ...


class Intake(Generic[R]):
    """Makes objects fit for the sink, and collects those of the present state until it is complete.

    An object that does not fit its type, or that the transform cannot take, stops no other (ST-6): it is counted
    and logged, and the sink keeps its last good version.
    """

    def __init__(self, selection: Selection[R], sink: Sink[R], counts: Counter[str]) -> None:
        self._selection = selection
        self._sink = sink
        self._counts = counts
        # The present state as far as it was read.
        self._found: dict[tuple[str, str], R] = {}
        self._stale: dict[Key, str] = {}

    def begin(self) -> None:
        """Begin to collect the present state."""
        self._found, self._stale = {}, {}

    def keep(self, found: R | Refused) -> None:
        """Collect an object of the present state, or a newer version of one."""
        match self._transformed(found):
            case Refused() as refused:
                self._report(refused)
                self._found.pop(refused.key, None)
                self._stale[refused.key] = refused.why
            case obj:
                # The stored object where it is the same: a relist holds twice what has changed, and no more (RF-22).
                shared = self._sink.share(obj)
                self._found[shared.metadata.namespace, shared.metadata.name] = shared

    def drop(self, key: Key) -> None:
        """Remove an object from what was collected."""
        self._found.pop(key, None)
        self._stale.pop(key, None)

    def hand_over(self, version: str) -> Iterator[None]:
        """Give the sink what was collected, the present state as of a version; stops when others may have a turn."""
        found, stale = self._found, self._stale
        self.begin()
        yield from self._sink.replace(found.values(), stale, version)

    def apply(self, event: WatchEvent[R] | Refused) -> ObjectMeta:
        """Give the sink one watch event, and return the metadata of its object."""
        if isinstance(event, Refused):
            return self._refuse(event)
        metadata = event.object.metadata
        if event.type == "BOOKMARK":
            self._sink.advance(metadata.resource_version)
        elif event.type not in ("ADDED", "MODIFIED", "DELETED"):
            _log.warning("unknown watch event", kind=str(self._selection), type=event.type)
        elif self._selection.transform is None:
            self._sink.apply(event)
        else:
            match self._transformed(event.object):
                case Refused() as refused:
                    return self._refuse(refused)
                case obj:
                    self._sink.apply(WatchEvent(type=event.type, object=obj))
        return metadata

    def _transformed(self, found: R | Refused) -> R | Refused:
        transform = self._selection.transform
        if transform is None or isinstance(found, Refused) or not isinstance(found, self._selection.kind):
            return found
        try:
            obj: R = transform(found)
        except Exception as error:
            return Refused("", found.metadata, f"transform failed: {error!r}")
        if _identity(obj) != _identity(found):
            return Refused("", found.metadata, "the transform changed its name, namespace, uid or resourceVersion")
        return obj

    def _refuse(self, refused: Refused) -> ObjectMeta:
        self._report(refused)
        self._sink.refuse(refused.key, refused.why, refused.metadata.resource_version)
        return refused.metadata

    def _report(self, refused: Refused) -> None:
        self._counts["undecodable"] += 1
        _log.error("object does not fit its type", kind=str(self._selection), key=str(refused.key), why=refused.why)


def _identity(obj: Resource) -> tuple[str, str, str, str]:
    metadata = obj.metadata
    return metadata.name, metadata.namespace, metadata.uid, metadata.resource_version
