"""Detection of mutated cache objects.

Maps inside frozen values are protected by the type checker only. A controller that mutates one anyway changes what all
others read, without a watch event. So under the test kit every store is compared with what was put into it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from kcr.api import codec
from kcr.api.meta import Key, Resource
from kcr.informer import Store


class MutatedError(AssertionError):
    """An object in a store was mutated, instead of a copy of it."""


@contextmanager
def unchanged_stores() -> Iterator[None]:
    """Raise MutatedError at the end if an object in any store is not what was put into it.

    Only objects that are put while the context lives are compared.
    """
    given: WeakKeyDictionary[Store[Any], dict[Key, tuple[Resource, bytes]]] = WeakKeyDictionary()
    put = Store.put

    def noting_put(store: Store[Any], obj: Resource) -> Any:
        given.setdefault(store, {})[obj.key] = (obj, codec.encode(obj))
        return put(store, obj)

    Store.put = noting_put  # type: ignore[method-assign,assignment]  # for the length of a test
    try:
        yield
    finally:
        Store.put = put  # type: ignore[method-assign]  # put back at the end
    for store, objects in given.items():
        present = {obj.key: obj for obj in store.snapshot()}
        for key, (obj, encoded) in objects.items():
            if present.get(key) is obj and codec.encode(obj) != encoded:
                raise MutatedError(f"{obj.resource.display} {key}: changed inside the store; change a copy")
