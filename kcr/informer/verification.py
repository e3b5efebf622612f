"""Verification of a store: object by object against a list of the server, at one resourceVersion and in pages.

All pages of a list are of the version of the first. The store may be ahead of it: a newer object is no difference, and
one that it lacks is looked up once more, for it may be deleted since. Pages are read slowly.
"""

import asyncio
from collections.abc import Collection
from contextlib import suppress
from typing import Any

import msgspec

from kcr.api import codec
from kcr.api.meta import Key, Resource
from kcr.client import Client
from kcr.errors import NotSyncedError
from kcr.informer.selection import Selection
from kcr.informer.store import Store, version_of

# Of one kind.
VERIFY_SECONDS = 600.0
_PAGE, _PAUSE_SECONDS, _LATE_SECONDS = 200, 0.05, 10.0


class Verified(msgspec.Struct, frozen=True):
    """The comparison of a store, or of a selection of it.

    Attributes:
        selection: The selected objects: `pods in team (app=web)`.
        differences: Each with the object: `default/a: the store lacks version 12`; or why there is no comparison.
        version: The resourceVersion of the list; 0 without a comparison.
        objects: How many objects it has.
    """

    selection: str
    differences: tuple[str, ...]
    version: int = 0
    objects: int = 0


async def verify(client: Client, store: Store[Any], selection: Selection[Any]) -> Verified:
    """Compare the objects of a selection.

    Raises:
        NotSyncedError: The store has no first list, or has not reached the versions of the objects within ten seconds.
    """
    kind, listed, continue_, version = selection.kind, set[Key](), "", 0
    found: dict[Key, str] = {}
    while True:
        metadata, objects = await client.list_page(
            kind, selection.namespace, limit=_PAGE, continue_=continue_, labels=selection.labels,
            fields=selection.fields,
        )  # fmt: skip
        version = version or version_of(metadata.resource_version)
        # Not the version of the list: of a quiet kind the store learns that with the next bookmark, in a minute.
        await _reached(store, max((version_of(one.metadata.resource_version) for one in objects), default=0), selection)
        for obj in filter(lambda one: selection.covers(one.metadata), objects):
            listed.add(obj.key)
            if difference := _difference(store.stored(obj.key), obj, selection, version):
                found[obj.key] = difference
        if not (continue_ := metadata.continue_):
            break
        await asyncio.sleep(_PAUSE_SECONDS)
    for key in [key for key in found if store.stored(key) is None]:
        live = await client.list(kind, key.namespace, fields=f"metadata.name={key.name}")
        if not live or store.stored(key) is not None:
            del found[key]
    if _unlisted(store, listed, version, selection):
        with suppress(NotSyncedError):
            await _reached(store, version, selection)
    for key, at in _unlisted(store, listed, version, selection).items():
        found[key] = f"the store shows version {at}, the server does not have it"
    return Verified(str(selection), tuple(f"{key}: {found[key]}" for key in sorted(found)), version, len(listed))


def _unlisted(store: Store[Any], listed: Collection[Key], version: int, selection: Selection[Any]) -> dict[Key, int]:
    """Return the versions of the objects in a store that are no newer than a list and not in it."""
    shown = {one.key: one.metadata for one in store.snapshot() if one.key not in listed}
    versions = {key: version_of(one.resource_version) for key, one in shown.items() if selection.covers(one)}
    return {key: at for key, at in versions.items() if at <= version}


async def _reached(store: Store[Any], version: int, selection: Selection[Any]) -> None:
    reached = asyncio.Event()
    store.progress.notify_at_version(version, reached.set)
    try:
        async with asyncio.timeout(_LATE_SECONDS):
            await reached.wait()
    except TimeoutError:
        why = f"it is at version {store.resource_version}, and the server at {version}"
        raise NotSyncedError(f"{selection}: the store is late: {why}") from None


def _difference(shown: Resource | None, obj: Resource, selection: Selection[Any], version: int) -> str:
    wanted = obj.metadata.resource_version
    if shown is None:
        return f"the store lacks version {wanted}"
    at = shown.metadata.resource_version
    if at == wanted:
        kept = obj if selection.transform is None else selection.transform(obj)
        return "" if codec.encode(kept) == codec.encode(shown) else f"the store shows another content of version {at}"
    return "" if version_of(at) > version else f"the store shows version {at}, the server has {wanted}"
