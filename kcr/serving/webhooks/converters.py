"""Conversion of objects between the versions of a kind: `@kcr.converts`, hub and spokes.

A conversion takes at most two steps: a registered function, or two of them with the hub in between, so n versions need
2·(n-1) functions. A function changes spec, status, labels and annotations, and keeps the other metadata.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self, TypeVar

from kcr.annotations import check_of_function
from kcr.api.meta import ObjectMeta, Resource
from kcr.arguments import checked, error_of
from kcr.errors import described
from kcr.log import get_logger

_log = get_logger()

A = TypeVar("A", bound=Resource)
B = TypeVar("B", bound=Resource)
Converter = Callable[[Any], Resource]

# Fields of the metadata that a conversion may change.
MUTABLE = ("labels", "annotations")
# The functions by the classes of their source and target.
_FUNCTIONS: dict[type[Resource], dict[type[Resource], Converter]] = {}


class ConversionError(Exception):
    """An object cannot be converted; the message is for the client of the API server."""


@checked
def converts(source: type[A], target: type[B]) -> Callable[[Callable[[A], B]], Callable[[A], B]]:
    """Register a function that converts objects of one version of a kind to another.

    ```python
    @kcr.converts(WebsiteV1Beta1, Website)
    def upgraded(old: WebsiteV1Beta1) -> Website:
        return Website(metadata=old.metadata, spec=WebsiteSpec(hosts=(old.spec.host,)))
    ```

    Each direction has its own function. With three versions and more, convert each to the hub and back: the others are
    reached through it. `manager.add_conversion(Website)` serves the conversions, `kcr crd generate` declares them,
    and `kcr.testing.check_round_trip` tests them.

    Args:
        source: The class of the argument.
        target: The class of the result; another version of the same kind.

    Raises:
        TypeError: The classes are no two versions of one kind, or have such a function; or it is a coroutine.
    """
    if source.resource._replace(version="") != target.resource._replace(version=""):
        raise TypeError(
            f"{source.__name__} and {target.__name__} are not versions of one kind: give both the same group, kind "
            "(kind=), plural and scope"
        )
    if source.resource == target.resource:
        raise TypeError(
            f"{source.__name__} and {target.__name__} are both {source.resource.version}: name two versions"
        )

    def register(function: Callable[[A], B]) -> Callable[[A], B]:
        fault = check_of_function([source], target).fault(function)
        if fault is not None:
            raise error_of("converts", "function", fault)
        name = getattr(function, "__name__", "?")
        known = _FUNCTIONS.setdefault(source, {}).setdefault(target, function)
        if known is not function:
            raise TypeError(
                f"{name}: {getattr(known, '__name__', '?')} converts {source.__name__} to {target.__name__} already"
            )
        return function

    return register


class Conversions:
    """All conversions of a kind, checked: every version is converted to every other.

    Attributes:
        versions: The classes of the versions.
    """

    def __init__(self, versions: tuple[type[Resource], ...], paths: Mapping[Any, tuple[Converter, ...]]) -> None:
        self.versions = versions
        # The functions to call in turn, by the classes of source and target.
        self._paths = paths
        # The failures that have been logged.
        self._logged: set[tuple[Converter, type[Exception]]] = set()

    @classmethod
    def of(cls, kind: type[Resource], *others: type[Resource]) -> Self | None:
        """Return the conversions of a kind; None where no function is registered for any of these classes.

        Args:
            kind: The class of one of its versions.
            others: Classes of versions that must be converted, too.

        Raises:
            TypeError: A version is not converted to another, or in several ways; the message has the remedy.
        """
        versions = _connected((kind, *others))
        if not any(_FUNCTIONS.get(one) for one in versions):
            return None
        named: dict[str, type[Resource]] = {}
        for one in versions:
            twin = named.setdefault(one.resource.version, one)
            if twin is not one:
                raise TypeError(
                    f"{twin.__name__} and {one.__name__} are both {one.resource.version}: convert one of them only"
                )
        return cls(versions, {(a, b): _path(a, b, versions) for a in versions for b in versions if a is not b})

    def convert(self, obj: Resource, target: type[B]) -> B:
        """Return an object in another version, with its metadata.

        Raises:
            ConversionError: A function raises, returns another class, or changes metadata that it must not.
        """
        result: Any = obj
        for function in self._paths.get((type(obj), target), ()):
            result = self._converted(function, result)
        if type(result) is not target:
            raise ConversionError(f"{_name(obj)}: converted to {type(result).__name__}, not to {target.__name__}")
        return result

    def _converted(self, function: Converter, obj: Resource) -> Resource:
        """Return the result of one function, with the metadata checked.

        Source: apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go, restoreObjectMeta.
        """
        name = getattr(function, "__name__", "?")
        place = f"{_name(obj)}, {name}"
        try:
            new = function(obj)
        except Exception as error:
            # Whatever a user's function may raise: the client gets the error, the log has the stack. Once, because an
            # object that cannot be converted fails each list and watch.
            if (function, type(error)) not in self._logged:
                self._logged.add((function, type(error)))
                _log.exception("conversion failed", object=_name(obj), function=name)
            raise ConversionError(f"{place}: {described(error)}") from error
        if not isinstance(new, Resource):
            raise ConversionError(f"{place}: it returned {type(new).__name__} instead of an object")
        old, now = obj.metadata, new.metadata
        kept = [one for one in ObjectMeta.__struct_fields__ if one not in MUTABLE]
        if changed := [one for one in kept if getattr(old, one) != getattr(now, one)]:
            raise ConversionError(
                f"{place}: it changed metadata ({', '.join(changed)}): return the object with metadata=old.metadata; "
                "only labels and annotations may differ"
            )
        return new

    def version(self, name: str) -> type[Resource]:
        """Return the class of a version.

        Raises:
            ConversionError: No class has this version.
        """
        for one in self.versions:
            if one.resource.version == name:
                return one
        known = " and ".join(sorted(one.resource.version for one in self.versions))
        raise ConversionError(f"{self.versions[0].resource.kind} is converted between {known}, not {name}")


def is_registered_in(module: str) -> bool:
    """Return whether a module has registered a function."""
    return any(one.__module__ == module for targets in _FUNCTIONS.values() for one in targets.values())


def _connected(kinds: tuple[type[Resource], ...]) -> tuple[type[Resource], ...]:
    pairs = [(source, target) for source, targets in _FUNCTIONS.items() for target in targets]
    found = dict.fromkeys(kinds)
    while more := [one for pair in pairs if not found.keys().isdisjoint(pair) for one in pair if one not in found]:
        found |= dict.fromkeys(more)
    return tuple(found)


def _path(
    source: type[Resource], target: type[Resource], versions: tuple[type[Resource], ...]
) -> tuple[Converter, ...]:
    direct = _FUNCTIONS.get(source, {}).get(target)
    if direct is not None:
        return (direct,)
    paths = dict(_paths(source, target, versions))
    if len(paths) == 1:
        return next(iter(paths.values()))
    remedy = f"register @kcr.converts({source.__name__}, {target.__name__})"
    if paths:
        raise TypeError(
            f"{source.__name__} is converted to {target.__name__} through {' or '.join(paths)}: {remedy}, or "
            "remove one of these ways"
        )
    raise TypeError(
        f"{source.__name__} is not converted to {target.__name__}: {remedy}, or convert both to "
        "and from a third version, the hub"
    )


def _paths(
    source: type[Resource], target: type[Resource], versions: tuple[type[Resource], ...]
) -> Iterator[tuple[str, tuple[Converter, ...]]]:
    for middle in versions:
        first, second = _FUNCTIONS.get(source, {}).get(middle), _FUNCTIONS.get(middle, {}).get(target)
        if first is not None and second is not None:
            yield middle.__name__, (first, second)


def _name(obj: Resource) -> str:
    return f"{obj.resource.version} {obj.resource.kind} {obj.key}"
