"""Values of expressions: Python's own where it has them, and the types that it lacks.

| CEL | Python |
|---|---|
| int, double, string, bytes, bool, null_type | int, float, str, bytes, bool, None |
| uint | `Uint` |
| list, map, objects | list and dict, and their subclasses here |
| timestamp, duration | `Timestamp`, `Duration` |
| optional_type | `Optional` |
| type | `Type` |
| types of Kubernetes, such as kubernetes.Quantity | a class with the attribute `cel_type` |

Source: github.com/google/cel-spec/doc/langdef.md, "Values" and "Equality".
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple

SECOND: Final = 10**9
# The moments that timestamps may be: the years 1 to 9999.
_FIRST, _LAST = -62_135_596_800 * SECOND, 253_402_300_800 * SECOND - 1
_MOST = (1 << 63) - 1


class EvaluationError(Exception):
    """An expression has no value; the message is cel-go's."""


class Uint(int):
    """An unsigned integer."""

    cel_type: ClassVar[str] = "uint"


class Timestamp(NamedTuple):
    """A moment.

    Attributes:
        nanos: Nanoseconds since 1970, in UTC.
        offset: Of its zone, in seconds east of UTC; texts show it, and comparisons do not look at it.
    """

    nanos: int
    offset: int = 0

    @property
    def cel_type(self) -> str:
        """The name of the type."""
        return "timestamp"

    def __eq__(self, other: object) -> bool:
        """Return whether both are the same moment."""
        return isinstance(other, Timestamp) and self.nanos == other.nanos

    def __hash__(self) -> int:
        """Return the hash of the moment."""
        return hash(self.nanos)

    def __lt__(self, other: tuple[Any, ...]) -> bool:
        """Return whether this moment is before another."""
        return bool(self.nanos < other[0])

    def __le__(self, other: tuple[Any, ...]) -> bool:
        """Return whether this moment is not after another."""
        return bool(self.nanos <= other[0])

    def __gt__(self, other: tuple[Any, ...]) -> bool:
        """Return whether this moment is after another."""
        return bool(self.nanos > other[0])

    def __ge__(self, other: tuple[Any, ...]) -> bool:
        """Return whether this moment is not before another."""
        return bool(self.nanos >= other[0])

    @classmethod
    def checked(cls, nanos: int, offset: int = 0) -> "Timestamp":
        """Return a moment.

        Args:
            nanos: Nanoseconds since 1970.
            offset: Seconds east of UTC.

        Raises:
            EvaluationError: It is out of the range of timestamps.
        """
        if not _FIRST <= nanos <= _LAST:
            raise EvaluationError("timestamp overflow")
        return cls(nanos, offset)


class Duration(int):
    """A duration in nanoseconds."""

    cel_type: ClassVar[str] = "duration"

    @classmethod
    def checked(cls, nanos: int) -> "Duration":
        """Return a duration.

        Raises:
            EvaluationError: It is out of the range of durations.
        """
        if not -_MOST - 1 <= nanos <= _MOST:
            raise EvaluationError("integer overflow")
        return cls(nanos)


class Optional(NamedTuple):
    """An optional value, `NONE` without one."""

    has_value: bool
    content: Any = None

    @property
    def cel_type(self) -> str:
        """The name of the type."""
        return "optional_type"


NONE: Final = Optional(False)


class Type(NamedTuple):
    """A type as a value: that of `type(x)` and of names such as `int`."""

    name: str

    @property
    def cel_type(self) -> str:
        """The name of the type."""
        return "type"


class SetList(list[Any]):
    """A list with `x-kubernetes-list-type: set`."""


class MapList(list[Any]):
    """A list with `x-kubernetes-list-type: map`; `keys` are the names of the fields that tell its items apart."""

    keys: tuple[str, ...] = ()


class Object(dict[str, Any]):
    """An object that an expression constructed, of the type `type_name`."""

    type_name: str = ""


_TYPES: Mapping[type, str] = {
    bool: "bool", int: "int", float: "double", str: "string", bytes: "bytes", type(None): "null_type", list: "list",
    SetList: "list", MapList: "list", dict: "map",
}  # fmt: skip
_NUMBERS = frozenset({"int", "uint", "double"})


def type_name(value: Any) -> str:
    """Return the name of a value's type, such as `list` or `kubernetes.Quantity`."""
    if (name := _TYPES.get(type(value))) is not None:
        return name
    return str(value.type_name if isinstance(value, Object) else value.cel_type)


def equal(one: Any, other: Any) -> bool:
    """Return whether two values are equal; numbers of different types compare by their value, other types never."""
    kind, another = type_name(one), type_name(other)
    if kind != another:
        if kind not in _NUMBERS or another not in _NUMBERS:
            return False
        # Integers become floating-point numbers where they meet one.
        return bool(float(one) == float(other)) if "double" in (kind, another) else bool(one == other)
    if kind == "list":
        return _equal_lists(one, other)
    if kind == "map" or isinstance(one, Object):
        return len(one) == len(other) and all(name in other and equal(item, other[name]) for name, item in one.items())
    if kind == "optional_type":
        return one.has_value == other.has_value and (not one.has_value or equal(one.content, other.content))
    return bool(one == other)


def _equal_lists(one: list[Any], other: list[Any]) -> bool:
    if len(one) != len(other):
        return False
    if isinstance(one, SetList):
        return all(contains(one, item) for item in other)
    if isinstance(one, MapList):
        return all(any(same_key(item, mine, one.keys) and equal(mine, item) for mine in one) for item in other)
    return all(map(equal, one, other))


def same_key(one: Any, other: Any, keys: tuple[str, ...]) -> bool:
    """Return whether two items of a list of type map have the same keys.

    Args:
        one: An item.
        other: Another.
        keys: The names of the fields that are keys.
    """
    return all(equal(one.get(name), other.get(name)) for name in keys)


def contains(values: list[Any], wanted: Any) -> bool:
    """Return whether a value is an item of a list."""
    return any(equal(wanted, one) or (isinstance(one, SetList | MapList) and equal(one, wanted)) for one in values)
