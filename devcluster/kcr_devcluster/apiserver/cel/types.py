"""Types of expressions, and which type may stand where another is wanted.

Source: github.com/google/cel-spec/doc/langdef.md, "Gradual Type Checking"; github.com/google/cel-go/checker/types.go.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple


class CelType(NamedTuple):
    """A type.

    Attributes:
        kind: `struct` for objects, `opaque` for other types with a name, `param` for a type parameter, `error` for what
            has no type; else the name of the type, such as `list`.
        name: The name of an object's type, of an opaque type or of a parameter.
        parameters: The types of items, or of keys and entries.
    """

    kind: str
    name: str = ""
    parameters: "tuple[CelType, ...]" = ()

    def __str__(self) -> str:
        """Return the type as cel-go writes it."""
        if self.kind == "error":
            return "!error!"
        name = {"null_type": "null"}.get(self.kind, self.name or self.kind)
        return f"{name}({', '.join(map(str, self.parameters))})" if self.parameters else name


INT, UINT, DOUBLE = CelType("int"), CelType("uint"), CelType("double")
BOOL, STRING, BYTES = CelType("bool"), CelType("string"), CelType("bytes")
NULL, DYN, ERROR = CelType("null_type"), CelType("dyn"), CelType("error")
TIMESTAMP, DURATION = CelType("timestamp"), CelType("duration")
OPTIONAL = "optional_type"
# Types that are no objects though they have names of their own.
_OPAQUE = frozenset({OPTIONAL, "net.IP", "net.CIDR"})
_ANY = frozenset({"dyn", "error"})
_NULLABLE = frozenset({"opaque", "struct", "timestamp", "duration", "null_type"})
_WITH_PARAMETERS = frozenset({"list", "map", "opaque"})
_TOKEN = re.compile(r"[\w.@]+|[(),]")
# The types that have names in expressions.
TYPE_NAMES: Mapping[str, CelType] = {
    **{one.kind: one for one in (INT, UINT, DOUBLE, BOOL, STRING, BYTES, NULL)},
    "list": CelType("list", "", (DYN,)), "map": CelType("map", "", (DYN, DYN)), "type": CelType("type"),
    "google.protobuf.Timestamp": TIMESTAMP, "google.protobuf.Duration": DURATION,
    OPTIONAL: CelType("opaque", OPTIONAL, (DYN,)), "net.IP": CelType("opaque", "net.IP"),
    "net.CIDR": CelType("opaque", "net.CIDR"),
}  # fmt: skip


def list_of(item: CelType) -> CelType:
    """Return the type of lists."""
    return CelType("list", "", (item,))


def map_of(key: CelType, entry: CelType) -> CelType:
    """Return the type of maps."""
    return CelType("map", "", (key, entry))


def optional_of(content: CelType) -> CelType:
    """Return the type of optional values."""
    return CelType("opaque", OPTIONAL, (content,))


def type_of_type(of: CelType) -> CelType:
    """Return the type that a type has as a value."""
    return CelType("type", "", (of,))


def unwrapped(found: CelType) -> tuple[CelType, bool]:
    """Return the type in an optional type, and whether it was one."""
    return (found.parameters[0], True) if found.name == OPTIONAL and found.kind == "opaque" else (found, False)


@cache
def parsed_type(text: str) -> CelType:
    """Return the type that a text such as `map(string, T)` stands for."""
    return _parsed(iter(_TOKEN.findall(text)))[0]


def _parsed(tokens: Iterator[str]) -> tuple[CelType, str]:
    name, parameters = next(tokens), list[CelType]()
    after = next(tokens, "")
    if after == "(":
        while after != ")":
            inner, after = _parsed(tokens)
            parameters.append(inner)
        after = next(tokens, "")
    if len(name) == 1:
        return CelType("param", name), after
    if name in _OPAQUE or "." in name:
        return CelType("opaque" if name in _OPAQUE else "struct", name, tuple(parameters)), after
    return CelType(name, "", tuple(parameters)), after


class Substitutions(dict[CelType, CelType]):
    """What type parameters stand for, as found so far."""

    def resolved(self, of: CelType, *, is_final: bool = False) -> CelType:
        """Return a type with what its parameters stand for; unknown ones are of any type in the end.

        Args:
            of: The type.
            is_final: Whether nothing more will be found.
        """
        if (found := self.get(of)) is not None:
            return self.resolved(found, is_final=is_final)
        if of.kind == "param":
            return DYN if is_final else of
        if not of.parameters:
            return of
        return of._replace(parameters=tuple(self.resolved(one, is_final=is_final) for one in of.parameters))

    def try_assign(self, given: tuple[CelType, ...], wanted: tuple[CelType, ...]) -> bool:
        """Return whether types may stand where others are wanted; only then is what was found kept.

        Args:
            given: The types.
            wanted: As many others.
        """
        trial = Substitutions(self)
        if not trial._assign_all(given, wanted):
            return False
        self.update(trial)
        return True

    def _assign_all(self, given: tuple[CelType, ...], wanted: tuple[CelType, ...]) -> bool:
        return len(given) == len(wanted) and all(map(self._assign, given, wanted))

    def _assign(self, given: CelType, wanted: CelType) -> bool:
        if wanted.kind == "param":
            fits, had = self._stands_for(given, wanted)
            if fits or had:
                return fits
        if given.kind == "param":
            return self._stands_for(wanted, given)[0]
        if given.kind in _ANY or wanted.kind in _ANY:
            return True
        if "null_type" in (given.kind, wanted.kind):
            return (wanted if given.kind == "null_type" else given).kind in _NULLABLE
        if given.kind != wanted.kind:
            return False
        if given.kind in _WITH_PARAMETERS:
            return given.name == wanted.name and self._assign_all(given.parameters, wanted.parameters)
        return given.kind == "type" or given.name == wanted.name

    def _stands_for(self, found: CelType, parameter: CelType) -> tuple[bool, bool]:
        """Return whether a parameter may stand for a type, and whether it stood for one before."""
        if found == parameter:
            return True, True
        if (known := self.get(parameter)) is not None:
            if found == known:
                return True, True
            if not self._assign(found, known):
                return False, True
            general = most_general(found, known)
            if not self._has(parameter, general):
                self[parameter] = general
            return True, True
        if self._has(parameter, found):
            return False, False
        self[parameter] = found
        return True, False

    def _has(self, parameter: CelType, within: CelType) -> bool:
        """Return whether a parameter is part of a type."""
        if parameter == within:
            return True
        if within.kind == "param":
            return within in self and self._has(parameter, self[within])
        return any(self._has(parameter, one) for one in within.parameters)


def most_general(one: CelType, other: CelType) -> CelType:
    """Return that of two types which says less.

    Args:
        one: A type.
        other: One that fits it.
    """
    return one if _says_no_more(one, other) else other


def _says_no_more(one: CelType, other: CelType) -> bool:
    if one.kind in ("dyn", "param"):
        return True
    if other.kind in ("dyn", "param") or one.kind != other.kind:
        return False
    if one.kind == "type":
        return True
    return (
        one.name == other.name
        and len(one.parameters) == len(other.parameters)
        and all(map(_says_no_more, one.parameters, other.parameters))
    )
