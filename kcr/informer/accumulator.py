"""Objects on their way from a reflector into a store: decoded, transformed, and a list until it is complete."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Literal, TypeVar, cast

from kcr.api.codec import WatchEvent
from kcr.api.meta import Key, ObjectMeta, Resource
from kcr.client.wire.decoding import Undecodable
from kcr.informer.phases import LostEventError
from kcr.informer.selection import Selection
from kcr.informer.slots import SlotFilter, SlotSelection
from kcr.informer.writer import StoreWriter
from kcr.log import get_logger

R = TypeVar("R", bound=Resource)

# A list that takes longer is worth a line.
_SLOW_SECONDS = 10.0

_log = get_logger("kcr.informer")


class ListAccumulator(Generic[R]):
    """Accumulates a list, or the initial events of a watch, until it is complete; passes later watch events on.

    An object that cannot be decoded, or that the transform cannot take, stops no other (ST-6): it is counted each
    time and logged once, and the store keeps its last good version if it has one.
    """

    def __init__(self, selection: Selection[R], writer: StoreWriter[R], counts: Counter[str]) -> None:
        """Make an accumulator that is empty.

        Args:
            selection: The listed and watched objects, and their transform.
            writer: Where complete lists and watch events go.
            counts: Where undecodable objects are counted.
        """
        self._selection = selection
        self._filter = SlotFilter(selection.slots)
        self._namespaced = selection.kind.resource.namespaced
        self._writer = writer
        self._counts = counts
        # The list as far as it was read.
        self._objects: dict[tuple[str, str], R] = {}
        self._undecodable: dict[Key, str] = {}
        # The logged faults by object; forgotten once one of them can be decoded, or is deleted.
        self._logged: dict[Key, str] = {}

    def clear(self) -> None:
        """Begin a list."""
        self._objects, self._undecodable = {}, {}

    def add(self, found: R | Undecodable) -> None:
        """Add an object of the list, or a newer version of one.

        Raises:
            LostEventError: It was decoded and has no name, so that the list is not complete.
        """
        if not isinstance(found, Undecodable):
            self.check_key("", found)
        match self._transformed(found):
            case Undecodable() as undecodable:
                self._report(undecodable)
                self._objects.pop(undecodable.key, None)
                self._undecodable[undecodable.key] = undecodable.why
            case obj:
                self._forget(obj.metadata)
                # The stored object where it is the same: a relist holds only changed objects twice (RF-22).
                shared = self._writer.share(obj)
                self._objects[shared.metadata.namespace, shared.metadata.name] = shared

    def check_key(self, event: str, found: Resource | Undecodable) -> None:
        """Check that an item or event names an object of the selection; a damaged one may not.

        Args:
            event: The type of the watch event it came in; empty for an item of a list.
            found: The object.

        Raises:
            LostEventError: It does not, so it is unknown which object has changed.
        """
        metadata = found.metadata
        if not metadata.name or bool(metadata.namespace) is not self._namespaced or "\ufffd" in metadata.name:
            what = f"event {event}" if event else "item of the list"
            # A class may be wrong about it, too.
            hint = f", and the class says namespaced={self._namespaced}" if metadata.name else ""
            raise LostEventError(
                f"{what} names no object: namespace {metadata.namespace!r}, name {metadata.name!r}{hint}"
            )

    def remove(self, key: Key) -> None:
        """Remove an object from the list."""
        self._objects.pop(key, None)
        self._undecodable.pop(key, None)
        self._logged.pop(key, None)

    def replace(self, version: str) -> Iterator[None]:
        """Replace the contents of the store by the list of a version, in slices."""
        objects, undecodable = self._objects, self._undecodable
        self.clear()
        yield from self._writer.replace(objects.values(), undecodable, version)

    def apply(self, event: WatchEvent[R] | Undecodable) -> ObjectMeta:
        """Apply one watch event to the store, and return the metadata of its object."""
        if isinstance(event, Undecodable):
            return self._on_decode_error(event)
        metadata = event.object.metadata
        if event.type == "BOOKMARK":
            self._writer.advance(metadata.resource_version)
        elif event.type not in ("ADDED", "MODIFIED", "DELETED"):
            _log.warning("unknown watch event", kind=str(self._selection), type=event.type)
        elif self._selection.transform is None:
            self._forget(metadata)
            self._writer.apply(event)
        else:
            obj = self._transformed(event.object)
            if isinstance(obj, Undecodable):
                if event.type != "DELETED":
                    return self._on_decode_error(obj)
                # As `read_event` returns it: handlers get the last good version.
                obj = cast("R", Resource(metadata=metadata))
            self._forget(metadata)
            self._writer.apply(WatchEvent(type=event.type, object=obj))
        return metadata

    def narrow(self, slots: SlotSelection | None) -> None:
        """Skip from now on the objects that a selection of fewer slots does not cover."""
        self._filter.narrow(slots)

    @property
    def keeps(self) -> Callable[[bytes], bool] | None:
        """Whether an item of a list is one of this replica; None when all are."""
        return self._filter.keeps

    def skip_foreign(self, line: bytes) -> str | None:
        """Return the version of a watch event about an object of another replica, and skip it; else None."""
        foreign = self._filter.foreign(line)
        if foreign is None:
            return None
        key = foreign.namespace, foreign.name
        if key in self._objects or self._writer.has(Key(*key)):
            # It was ours: the event removes it.
            return None
        self._counts["foreign"] += 1
        self._writer.advance(foreign.resource_version)
        return foreign.resource_version

    def _transformed(self, found: R | Undecodable) -> R | Undecodable:
        transform = self._selection.transform
        if transform is None or isinstance(found, Undecodable) or not isinstance(found, self._selection.kind):
            return found
        try:
            obj = cast("R", transform(found))
            is_same = _identity(obj) == _identity(found)
        except (Exception, SystemExit) as error:
            return Undecodable("", found.metadata, f"transform failed: {error!r}")
        if not is_same:
            return Undecodable("", found.metadata, "the transform changed its name, namespace, uid or resourceVersion")
        return obj

    def _on_decode_error(self, undecodable: Undecodable) -> ObjectMeta:
        self._report(undecodable)
        self._writer.on_decode_error(undecodable.key, undecodable.why, undecodable.metadata.resource_version)
        return undecodable.metadata

    def _report(self, undecodable: Undecodable) -> None:
        self._counts["undecodable"] += 1
        if self._logged.get(undecodable.key) != undecodable.why:
            self._logged[undecodable.key] = undecodable.why
            kind, key = str(self._selection), str(undecodable.key)
            kept = (
                "its last good version is kept"
                if self._writer.has(undecodable.key)
                else "the store has no version of it"
            )
            _log.error(f"object cannot be decoded, {kept}", kind=kind, key=key, error=undecodable.why)

    def _forget(self, metadata: ObjectMeta) -> None:
        if self._logged:
            self._logged.pop(Key(metadata.namespace, metadata.name), None)


def _identity(obj: Resource) -> tuple[str, str, str, str]:
    metadata = obj.metadata
    return metadata.name, metadata.namespace, metadata.uid, metadata.resource_version


class ListTiming:
    """Measures the phases of one list, and logs them if it is slow (RF-10)."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._parts = {"request": 0.0, "decode": 0.0, "apply": 0.0}

    @contextmanager
    def of(self, part: Literal["request", "decode", "apply"]) -> Iterator[None]:
        """Add the time that the body takes to a part."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        yield
        self._parts[part] += loop.time() - began

    def finish(self, kind: str) -> float:
        """Return how long it took in all, in seconds."""
        seconds = asyncio.get_running_loop().time() - self._began
        if seconds > _SLOW_SECONDS:
            parts = {part: round(spent, 3) for part, spent in self._parts.items()}
            _log.warning("slow list", kind=kind, seconds=round(seconds, 3), **parts)
        return seconds
