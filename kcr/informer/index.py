"""Indexes of a store: objects by value, so that "the pods of this Job" is a look-up."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Generic, TypeVar

from kcr.annotations import shown
from kcr.api.meta import Object, Resource, controller_of
from kcr.api.unstructured import Unstructured
from kcr.arguments import list_in, refuse
from kcr.errors import described
from kcr.log import get_logger
from kcr.stacks import trace_of

R = TypeVar("R", bound=Resource)
Pair = tuple[str, str]
Values = Callable[[R], Iterable[str]]

_log = get_logger("kcr.informer")


def values_of(found: Mapping[Pair, R]) -> tuple[R, ...]:
    """Return the objects of a map that another thread may be changing, as of one moment.

    The copy is made in C without releasing the GIL, except where making the tuple starts a garbage collection that runs
    Python code. Nothing is copied then; when the size has changed, the copy fails, and the next one succeeds.
    """
    while True:
        try:
            return tuple(found.values())
        except RuntimeError:
            continue


class Index(Generic[R]):
    """Objects by index value. A value without objects takes no memory."""

    def __init__(self, name: str, values: Values[R]) -> None:
        self._name = name
        self._values = values
        self._found: dict[str, dict[Pair, R]] = {}

    def get(self, value: str) -> tuple[R, ...]:
        """Return the objects under a value."""
        found = self._found.get(value)
        return values_of(found) if found else ()

    def newest(self, value: str) -> R | None:
        """Return the object that came last under a value."""
        found = self._found.get(value)
        # From the end: removed entries pile up at the other one, and would be walked over.
        return next(reversed(found.values())) if found else None

    def change(self, pair: Pair, old: R | None, new: R | None) -> None:
        """Update the index for an object that was added, changed or deleted."""
        before = () if old is None else self._values_of(old)
        after = () if new is None else self._values_of(new)
        # Added first: a reader on another thread finds an object under its old or its new value, never under none.
        if new is not None:
            for value in after:
                self._found.setdefault(value, {})[pair] = new
        for value in before:
            if value not in after:
                found = self._found.get(value, {})
                found.pop(pair, None)
                if not found:
                    self._found.pop(value, None)

    def _values_of(self, obj: R) -> tuple[str, ...]:
        try:
            values = self._values(obj)
            return values if type(values) is tuple else tuple(values)
        except (Exception, SystemExit) as error:
            # One object that an index cannot take must not stop the others.
            text = described(error)
            _log.error("index failed", index=self._name, key=str(obj.key), error=text, exc_info=trace_of(error))
            return ()


def strings_of(values: Values[Any], obj: Resource) -> tuple[str, ...]:
    """Return the values of an object in an index of the author's, which are strings."""
    found = values(obj)
    if type(found) is not tuple:
        found = tuple(list_in(found, "the function", "strings"))
    for one in found:
        if not isinstance(one, str):
            refuse(f"the function returned {shown(one)} in its list: return a list of strings")
    return found


def built_in(name: str) -> Values[Any]:
    """Return the values of a built-in index.

    Raises:
        KeyError: No index has this name.
    """
    prefix, _, rest = name.partition(":")
    match prefix:
        case "namespace" if not rest:
            return lambda obj: (obj.metadata.namespace,)
        case "owner" if not rest:
            return _owner
        case "label" if rest:
            return lambda obj: (value,) if (value := obj.metadata.labels.get(rest)) is not None else ()
        case "field" if rest:
            path = tuple(rest.split("."))
            return lambda obj: _texts_at(obj, path)
    raise KeyError(f"there is no index {name!r}: add it with a function, or name a field as in 'field:spec.team'")


def _owner(obj: Resource) -> tuple[str, ...]:
    controller = controller_of(obj.metadata)
    return (f"{obj.metadata.namespace}/" if controller is None else controller.uid,)


def _texts_at(value: Any, path: tuple[str, ...]) -> Iterator[str]:
    for step in path:
        value = _at(value, step)
    if isinstance(value, bool):
        yield str(value).lower()
    elif isinstance(value, str | int):
        yield str(value)


def _at(value: Any, step: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(step)
    if isinstance(value, Unstructured) and step != "metadata":
        return value.get(step)
    if isinstance(value, Object):
        return getattr(value, _wire_names(type(value)).get(step, ""), None)
    return None


@cache
def _wire_names(kind: type[Object]) -> Mapping[str, str]:
    return dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))
