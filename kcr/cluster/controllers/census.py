"""Who is there: the metadata of all objects of all kinds, kept up to date by lists and watches.

What is known here lags behind the server by a moment. It says where to look; what is done about an object
is decided on the object itself.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple

from kcr.api.meta import Key, ObjectMeta, ObjectType, Resource
from kcr.api.resources import ResourceType
from kcr.client import Client
from kcr.errors import ApiError, GoneError, TransportError

_WATCH_SECONDS = 3600.0
_PAUSE_SECONDS = 1.0

_log = logging.getLogger(__name__)


class Place(NamedTuple):
    """Where an object is: its kind, as a type of nothing but metadata, and its key."""

    type: type[Resource]
    key: Key

    def __str__(self) -> str:
        """Return the resource and the key, as in messages."""
        return f"{self.type.resource.display} {self.key}"


# Called with the metadata before and after a change: before is None for what is new, after for what is gone.
Listener = Callable[[Place, ObjectMeta | None, ObjectMeta | None], None]


@cache
def metadata_type(resource: ResourceType) -> type[Resource]:
    """Return a type of objects of which only the metadata are read."""
    made: type[Resource] = ObjectType(
        resource.kind, (Resource,), {"__module__": __name__}, api_version=resource.api_version,
        kind=resource.kind, plural=resource.plural, namespaced=resource.namespaced,
    )  # fmt: skip
    return made


class Census:
    """Follows all kinds. `run` does so until it is cancelled.

    Attributes:
        types: The kinds, by apiVersion and kind.
        listeners: Told of every change, in order, once it is known here.
    """

    def __init__(self, client: Client, kinds: Iterable[ResourceType]) -> None:
        self.types = {(kind.api_version, kind.kind): metadata_type(kind) for kind in kinds}
        self.listeners: list[Listener] = []
        self._client = client
        self._known: dict[type[Resource], dict[Key, ObjectMeta]] = {kind: {} for kind in self.types.values()}
        # Kinds whose first list is not there yet.
        self._missing = set(self._known)
        self._complete = asyncio.Event()

    def get(self, place: Place) -> ObjectMeta | None:
        """Return the metadata of an object as last seen, or None when it was not."""
        return self._known[place.type].get(place.key)

    async def wait_complete(self) -> None:
        """Return when every kind has been listed."""
        await self._complete.wait()

    async def run(self) -> None:
        """Follow the objects until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind in self._known:
                group.create_task(self._follow(kind), name=f"census {kind.resource.display}")

    async def _follow(self, kind: type[Resource]) -> None:
        version = ""
        while True:
            try:
                version = version or await self._list(kind)
                came_to = await self._watch(kind, version)
                if came_to != version:
                    version = came_to
                    continue
            except GoneError:
                version = ""
            except (ApiError, TransportError) as error:
                _log.warning("%s cannot be followed: %s", kind.resource.display, error)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _list(self, kind: type[Resource]) -> str:
        """Take over the present state, and return its version."""
        page, objects = await self._client.list_page(kind)
        found = {obj.key: obj.metadata for obj in objects}
        for key in [key for key in self._known[kind] if key not in found]:
            self._tell(Place(kind, key), None)
        for key, metadata in found.items():
            self._tell(Place(kind, key), metadata)
        self._missing.discard(kind)
        if not self._missing:
            self._complete.set()
        return page.resource_version

    async def _watch(self, kind: type[Resource], version: str) -> str:
        """Follow the changes until the watch ends, and return the version it came to."""
        watch = self._client.watch(kind, resource_version=version, timeout_seconds=_WATCH_SECONDS)
        async with watch as events:
            async for event in events:
                version = event.object.metadata.resource_version
                if event.type != "BOOKMARK":
                    gone = event.type == "DELETED"
                    self._tell(Place(kind, event.object.key), None if gone else event.object.metadata)
        return version

    def _tell(self, place: Place, new: ObjectMeta | None) -> None:
        known = self._known[place.type]
        old = known.pop(place.key, None)
        if old is not None and new is not None and old.uid != new.uid:
            # Deleted and made anew while nobody looked.
            self._announce(place, old, None)
            old = None
        if new is not None:
            known[place.key] = new
        if old is not None or new is not None:
            self._announce(place, old, new)

    def _announce(self, place: Place, old: ObjectMeta | None, new: ObjectMeta | None) -> None:
        for listener in self.listeners:
            listener(place, old, new)
