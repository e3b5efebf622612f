"""Objects that a test changes in place: in a store, where all readers share them, or before a write of the difference.

Values are frozen, but maps inside them, such as labels, are plain dicts that the type checker alone protects. A
controller that changes one anyway changes the object of all other readers, without a watch event, and no patch
sends the change.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from kcr.api import codec
from kcr.api.meta import Key, Resource
from kcr.client import Client
from kcr.client.wire import decoding
from kcr.informer import Store

_REMEDY = "change a copy: msgspec.structs.replace(obj, …)"
# The last objects that clients have returned, as far as they are compared.
_MOST_READ = 1000


_PUT, _READ_OBJECT, _LIST_PAGE = Store.put, decoding.read_object, Client.list_page
_PATCH_DIFFERENCE = Client._patch_difference


class MutatedError(AssertionError):
    """An object was mutated, instead of a copy of it."""


@contextmanager
def unchanged_stores() -> Iterator[None]:
    """Raise MutatedError at the end if an object in a store has been mutated.

    It counts as well if the object was replaced or deleted since, or if its store is gone. Only objects that are put
    while the context lives are compared, and of contexts in each other by the innermost. `client.patch` and
    `patch_status` raise MutatedError at once when the old version, from a store or the client, has been mutated.
    """
    notes = _Notes()
    with notes.taken():
        yield
    notes.check_all()


class _Notes:
    """Objects as they were when a store or a client got them."""

    def __init__(self) -> None:
        # By store and key. An object keeps its place until another one takes it, which is when it is compared.
        self._stored: dict[tuple[int, Key], tuple[Resource, bytes]] = {}
        self._read: dict[int, tuple[Resource, bytes]] = {}
        self._mutated: list[str] = []

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Note objects as long as the context lives."""
        present = Store.put, decoding.read_object, Client.list_page, Client._patch_difference

        @wraps(_PUT)
        def noting_put(store: Store[Any], obj: Resource) -> Any:
            self._put(store, obj)
            return _PUT(store, obj)

        def noting_read(*arguments: Any) -> Any:
            obj = _READ_OBJECT(*arguments)
            self._note_read(obj)
            return obj

        @wraps(_LIST_PAGE)
        async def noting_list(*arguments: Any, **options: Any) -> Any:
            page = await _LIST_PAGE(*arguments, **options)
            for obj in page[1]:
                self._note_read(obj)
            return page

        async def checking_patch(client: Client, old: Any, difference: Any, subresource: str) -> Any:
            self._check_read(old, is_patched=bool(difference))
            return await _PATCH_DIFFERENCE(client, old, difference, subresource)

        _replace(noting_put, noting_read, noting_list, checking_patch)
        try:
            yield
        finally:
            _replace(*present)

    def check_all(self) -> None:
        """Raise MutatedError for the first object of a store that was mutated."""
        for obj, encoded in list(self._stored.values()):
            self._compare(obj, encoded)
        if self._mutated:
            raise MutatedError(self._mutated[0])

    def _put(self, store: Store[Any], obj: Resource) -> None:
        place = (id(store), obj.key)
        if (before := self._stored.get(place)) is not None and before[0] is not obj:
            self._compare(*before)
        if before is None or before[0] is not obj:
            self._stored[place] = (obj, codec.encode(obj))

    def _compare(self, obj: Resource, encoded: bytes) -> None:
        if codec.encode(obj) != encoded:
            self._mutated.append(f"{obj.resource.display} {obj.key}: changed inside the store; {_REMEDY}")

    def _note_read(self, obj: Resource) -> None:
        if len(self._read) >= _MOST_READ:
            del self._read[next(iter(self._read))]
        self._read[id(obj)] = (obj, codec.encode(obj))

    def _check_read(self, obj: Resource, *, is_patched: bool) -> None:
        found = self._read.get(id(obj))
        if found is None and not is_patched:
            # Others of a store are compared when it is left.
            found = next((one for one in self._stored.values() if one[0] is obj), None)
        if found is not None and codec.encode(obj) != found[1]:
            raise MutatedError(
                f"{obj.resource.display} {obj.key}: patch sends nothing that was changed in place; {_REMEDY}"
            )


def _replace(put: Any, read_object: Any, list_page: Any, patch_difference: Any) -> None:
    Store.put = put  # type: ignore[method-assign]
    decoding.read_object = read_object
    Client.list_page = list_page  # type: ignore[method-assign]
    Client._patch_difference = patch_difference  # type: ignore[method-assign]
