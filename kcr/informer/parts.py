"""Several selections that fill one store: a namespace each, or all the others."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

from kcr.api.codec import WatchEvent
from kcr.api.meta import Key, Resource
from kcr.informer.selection import Selection
from kcr.informer.store import version_of

if TYPE_CHECKING:
    from kcr.informer.informer import Informer

R = TypeVar("R", bound=Resource)


class Part(Generic[R]):
    """The sink of one of an informer's selections. What the others cover stays as it is.

    Each part has a watch of its own, and these run ahead of each other. So the store has reached a version once
    all parts have.
    """

    def __init__(self, whole: "Informer[R]", selection: Selection[R], parts: "list[Part[R]]") -> None:
        """Make a part and add it to the others.

        Args:
            whole: The informer.
            selection: What this part covers.
            parts: All parts of the informer, as far as they are made.
        """
        self._whole = whole
        self._namespace = selection.namespace
        self._parts = parts
        self._version = 0
        self._is_filled = False
        parts.append(self)

    @property
    def is_full(self) -> bool:
        """Whether nothing more should be read for now."""
        return self._whole.is_full

    async def room(self) -> None:
        """Wait until more can be taken."""
        await self._whole.room()

    def share(self, obj: R) -> R:
        """Return an object that is about to be handed over, made of known parts."""
        return self._whole.share(obj)

    def replace(self, objects: Iterable[R], stale: Mapping[Key, str], version: str) -> Iterator[None]:
        """Take the whole present state of this part."""
        covers, store = self._covers(), self._whole.store
        kept = (obj for obj in store.known() if not covers(obj.metadata.namespace))
        kept_stale = {key: why for key, why in store.stale.items() if not covers(key.namespace)}
        yield from self._whole.tell_replaced((*objects, *kept), {**stale, **kept_stale})
        self._is_filled = True
        if all(part._is_filled for part in self._parts):
            self._whole.declare_synced()
        self.advance(version)

    def apply(self, event: WatchEvent[R]) -> None:
        """Take one ADDED, MODIFIED or DELETED event."""
        self._whole.absorb(event)
        self.advance(event.object.metadata.resource_version)

    def advance(self, version: str) -> None:
        """Hear that nothing else happened up to a version."""
        self._whole.advance(self._common(version))

    def refuse(self, key: Key, why: str, version: str) -> None:
        """Hear that the newest version of an object cannot be decoded."""
        self._whole.refuse(key, why, self._common(version))

    def _covers(self) -> Callable[[str], bool]:
        if self._namespace:
            return lambda namespace: namespace == self._namespace
        others = {part._namespace for part in self._parts}
        return lambda namespace: namespace not in others

    def _common(self, version: str) -> str:
        """Return the version that all parts have reached."""
        self._version = max(self._version, version_of(version))
        return str(min(part._version for part in self._parts))
