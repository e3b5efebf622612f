"""The shapes of kinds: which members a type has, and what may stand in them.

A manifest that is brought into shape holds values of the right types only, moments and amounts in their one
canonical form, and neither nulls nor the zero values that the server leaves out. What has the wrong type is
refused in the words of Go's decoder. Members that no shape names are dropped.

Shapes are written as text, a type per paragraph and members of one type per line:

    Container
      name image      string
      command args    []string
      restartPolicy   *string

`*` keeps a zero value (a pointer upstream), `!` keeps it and null as well.

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/runtime/serializer/json; Go's encoding/json.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from kcr.embedded.answers import RefusedError
from kcr.embedded.core.quantities import canonical
from kcr.embedded.core.times import micro, whole_seconds
from kcr.embedded.strategy import Manifest

Conform = Callable[[Any], Any]

_GONE = object()
_JSON_NAMES: Mapping[type, str] = {dict: "object", list: "array", str: "string", bool: "bool"}


class UndecodableError(RefusedError):
    """The body is JSON and no object of its kind: 400.

    Attributes:
        text: The decoder's words, which the answer to a patch puts into another message.
    """

    def __init__(self, kind: str, version: str, text: str) -> None:
        super().__init__(400, "BadRequest", f'{kind} in version "{version}" cannot be handled as a {kind}: {text}')
        self.text = text


class _MisfitError(Exception):
    """A value of the wrong type. The path grows while the exception passes through the types."""

    def __init__(self, found: str, wanted: str) -> None:
        super().__init__()
        self._found, self._wanted = found, wanted
        self._owner, self._path = "", ""

    def inside(self, owner: str, member: str) -> None:
        """Note that the value was found in a member of a type."""
        self._owner = self._owner or owner
        self._path = f"{member}.{self._path}" if self._path else member

    def __str__(self) -> str:
        return (
            f"json: cannot unmarshal {self._found} into Go struct field {self._owner}.{self._path} "
            f"of type {self._wanted}"
        )


class _Member(NamedTuple):
    type: "_Type"
    keeps_zero: bool
    keeps_null: bool

    def keeps(self, zero: object) -> bool:
        """Return whether a zero value, or null, is stored."""
        return self.keeps_null if zero is None else self.keeps_zero


class _Type(NamedTuple):
    """A type: its name in Go, how a value is brought into its form, and the shape inside it, if any."""

    name: str
    conform: Conform
    inner: "Shape | None" = None


def _found(value: object, *, with_number: bool = False) -> str:
    name = _JSON_NAMES.get(type(value))
    if name is not None:
        return name
    return f"number {msgspec.json.encode(value).decode()}" if with_number else "number"


def _scalar(wanted: str, kind: type) -> _Type:
    def conform(value: Any) -> Any:
        if type(value) is not kind:
            raise _MisfitError(_found(value), wanted)
        return value

    return _Type(wanted, conform)


def _integer(wanted: str, bits: int) -> _Type:
    limit = 1 << (bits - 1)

    def conform(value: Any) -> Any:
        if type(value) is not int or not -limit <= value < limit:
            raise _MisfitError(_found(value, with_number=True), wanted)
        return value

    return _Type(wanted, conform)


def _text(wanted: str, rule: Callable[[str], str]) -> _Type:
    def conform(value: Any) -> Any:
        if type(value) is not str:
            raise _MisfitError(_found(value), wanted)
        return rule(value)

    return _Type(wanted, conform)


def _quantity(value: Any) -> Any:
    if type(value) in (int, float):
        return canonical(msgspec.json.encode(value).decode())
    if type(value) is not str:
        raise _MisfitError(_found(value), "resource.Quantity")
    return canonical(value)


def _int_or_string(value: Any) -> Any:
    if type(value) not in (int, str):
        raise _MisfitError(_found(value), "intstr.IntOrString")
    return value


_SCALARS: Mapping[str, _Type] = {
    "any": _Type("interface {}", lambda value: value),
    "bool": _scalar("bool", bool),
    "int32": _integer("int32", 32),
    "int64": _integer("int64", 64),
    "intstr": _Type("intstr.IntOrString", _int_or_string),
    "microtime": _text("v1.MicroTime", micro),
    "quantity": _Type("resource.Quantity", _quantity),
    "string": _scalar("string", str),
    "time": _text("v1.Time", whole_seconds),
}


def _zero(item: _Type) -> Any:
    """Return what null stands for as an item of a list or a map."""
    if item.inner is not None:
        return {}
    return {"int32": 0, "int64": 0, "bool": False, "resource.Quantity": "0"}.get(item.name, "")


def _list_of(item: _Type) -> _Type:
    wanted = f"[]{item.name}"

    def conform(value: Any) -> Any:
        if type(value) is not list:
            raise _MisfitError(_found(value), wanted)
        for position, one in enumerate(value):
            value[position] = _zero(item) if one is None else item.conform(one)
        return value

    return _Type(wanted, conform, item.inner)


def _map_of(item: _Type) -> _Type:
    wanted = f"map[string]{item.name}"

    def conform(value: Any) -> Any:
        if type(value) is not dict:
            raise _MisfitError(_found(value), wanted)
        for key, one in value.items():
            value[key] = _zero(item) if one is None else item.conform(one)
        return value

    return _Type(wanted, conform)


class Shape:
    """The members of one type."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.members: dict[str, _Member] = {}
        self.type = _Type(f"v1.{name}", self.conform, self)

    def conform(self, value: Any) -> Any:
        """Bring a value into this shape, in place.

        Raises:
            ValueError: A value is malformed.
            _MisfitError: A value has the wrong type.
        """
        if type(value) is not dict:
            raise _MisfitError(_found(value), self.type.name)
        members = self.members
        changes: list[tuple[str, Any]] = []
        for name, given in value.items():
            member = members.get(name)
            if member is None:
                changes.append((name, _GONE))
                continue
            try:
                made = None if given is None else member.type.conform(given)
            except _MisfitError as misfit:
                misfit.inside(self.name, name)
                raise
            if not made and not member.keeps(made):
                changes.append((name, _GONE))
            elif made is not given:
                changes.append((name, made))
        for name, made in changes:
            if made is _GONE:
                del value[name]
            else:
                value[name] = made
        return value

    def unknown(self, value: Any, path: str = "") -> Iterator[str]:
        """Yield the paths of members that this shape does not name, such as `spec.containers[0].imge`."""
        for name, given in value.items() if isinstance(value, dict) else ():
            here = f"{path}.{name}" if path else name
            if name not in self.members:
                yield here
                continue
            inner = self.members[name].type.inner
            if inner is None:
                continue
            if isinstance(given, list):
                for position, one in enumerate(given):
                    yield from inner.unknown(one, f"{here}[{position}]")
            else:
                yield from inner.unknown(given, here)

    def receive(self, kind: str, version: str, obj: Manifest) -> None:
        """Bring a whole object into shape, in place.

        Raises:
            UndecodableError: It is no object of the kind.
        """
        try:
            self.conform(obj)
        except (_MisfitError, ValueError) as error:
            raise UndecodableError(kind, version, str(error)) from None


def read_shapes(text: str, known: Mapping[str, Shape]) -> dict[str, Shape]:
    """Return the shapes that a text describes, together with those it may refer to."""
    paragraphs = [paragraph.strip().splitlines() for paragraph in text.strip().split("\n\n")]
    shapes = {**known, **{lines[0]: Shape(lines[0]) for lines in paragraphs}}
    for lines in paragraphs:
        for line in lines[1:]:
            *names, written = line.split()
            bare = written.strip("*!")
            keeps_zero, keeps_null = bare != written, written.endswith("!")
            found = _type_of(bare, shapes)
            # A type inside another is there or not there, and never zero; of `any` nobody knows.
            keeps_zero = keeps_zero or bare == "any" or bare in shapes
            shapes[lines[0]].members |= {name: _Member(found, keeps_zero, keeps_null) for name in names}
    return shapes


def _type_of(written: str, shapes: Mapping[str, Shape]) -> _Type:
    if written.startswith("[]"):
        return _list_of(_type_of(written[2:], shapes))
    if written.startswith("map[string]"):
        return _map_of(_type_of(written.removeprefix("map[string]"), shapes))
    return shapes[written].type if written in shapes else _SCALARS[written]
