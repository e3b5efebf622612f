"""The schema engine: types, their fields, and how values conform to them.

A value that conforms holds values of the right types only, times and quantities in canonical form, defaults, and
neither nulls nor zero values that count as absent. Wrong types are refused with the messages of Go's decoder. Unknown
fields are pruned.

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/runtime/serializer/json; Go's encoding/json; sigs.k8s.io/json.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from kcr_devcluster.apiserver.protocol.gojson import kind_of
from kcr_devcluster.go_numbers import WrittenNumber

# Fields that the schema requires and no validation does: in Go, an absent text is empty.
_MAY_BE_EMPTY = {("v1.HTTPHeader", "value")}
# Stands for a value that is absent.
ABSENT: Any = object()


class TypeMismatchError(ValueError):
    """A value of the wrong type. The path grows while the exception passes through the types."""

    def __init__(self, found: str, wanted: str) -> None:
        super().__init__()
        self._found, self._wanted = found, wanted
        self._owner, self._path, self._of = "", "", ""

    @classmethod
    def of(cls, value: object, wanted: str) -> "TypeMismatchError":
        """Return the error of a value of the wrong type."""
        return cls(kind_of(value), wanted)

    @classmethod
    def of_number(cls, value: Any, wanted: str) -> "TypeMismatchError":
        """Return the error of a number of the wrong type or out of range; the message shows it."""
        name = kind_of(value)
        return cls(f"number {text_of(value)}" if name == "number" else name, wanted)

    def add_parent(self, owner: str, name: str, field: "Field | None" = None) -> None:
        """Add the field of a type that the value was found in.

        Args:
            owner: The type.
            name: The name of the field.
            field: The field, which may have a name for the wanted type.
        """
        if field is not None and not self._owner:
            self._of = field.type.name
            self._wanted = field.in_go(self._wanted) if field.go_type else self._wanted
        self._owner = self._owner or owner
        names = (*(field.embedded if field is not None else ()), name, self._path)
        self._path = ".".join(filter(None, names))

    def converted(self) -> str:
        """Return the message where a value is converted and not decoded.

        Source: k8s.io/apimachinery/pkg/runtime/converter.go, fromUnstructured.
        """
        _, _, number = self._found.partition(" ")
        if number and not number.lstrip("-").isdigit() and self._of != "intstr.IntOrString":
            return f"cannot convert float64 to {self._wanted}"
        return f"json: cannot unmarshal {self._found} into Go value of type {self._wanted}"

    def __str__(self) -> str:
        where = f"struct field {self._owner}.{self._path}" if self._path else "value"
        return f"json: cannot unmarshal {self._found} into Go {where} of type {self._wanted}"


def text_of(number: int | float) -> str:
    """Return the text of a number of JSON, as it was written where that is known."""
    return number.text if isinstance(number, WrittenNumber) else msgspec.json.encode(number).decode()


class Type(NamedTuple):
    """The type of a value.

    Attributes:
        name: Its name in messages, such as `int32`, `v1.Container` or `[]v1.Container`.
        conform: Returns a value in the form in which it is stored, changed in place where it can be; raises
            `ValueError` where it is malformed, and `TypeMismatchError` where it has the wrong type.
        zero: Makes the value that null stands for as an item of a list or a map.
        shape: The fields of an object; None for everything else.
        items: The type of the items of a list or a map; None for everything else.
        has_fields: Whether there are objects with fields in such a value.
        python: The type of Python whose values `conform` returns as they are; None where it looks at each.
    """

    name: str
    conform: Callable[[Any], Any]
    zero: Callable[[], Any] = str
    shape: "Shape | None" = None
    items: "Type | None" = None
    has_fields: bool = False
    python: type | None = None

    def field(self, name: str) -> "Field | None":
        """Return the field of a member of an object, or of an entry of a map; None for an unknown one."""
        if self.shape is not None:
            return self.shape.fields.get(name)
        return None if self.items is None else Field(self.items)

    def objects(self, value: Any, path: str) -> Iterator[tuple["Shape", dict[str, Any], str]]:
        """Yield the nearest objects with fields, and their paths: the value itself, or those in its items."""
        if self.shape is not None:
            if isinstance(value, dict):
                yield self.shape, value, path
        elif self.items is not None and isinstance(value, list):
            for position, one in enumerate(value):
                yield from self.items.objects(one, f"{path}[{position}]")
        elif self.items is not None and isinstance(value, dict):
            for name, one in value.items():
                yield from self.items.objects(one, f"{path}.{name}")

    def knower(self) -> Callable[[Any], bool]:
        """Return a function that returns whether shapes name all fields of the objects in a value that has some."""
        if self.shape is not None:
            return self.shape.knows
        assert self.items is not None
        inner = self.items.knower()

        def knows(value: Any) -> bool:
            if type(value) is list:
                return all(map(inner, value))
            return type(value) is not dict or all(map(inner, value.values()))

        return knows


class Field(NamedTuple):
    """A field of an object.

    Attributes:
        type: The type of its value.
        keeps_zero: Whether a zero value is stored, and not the same as an absent one.
        keeps_null: Whether null is stored.
        default: The value that it gets when it is absent, `ABSENT` for none; `{}` gets its own defaults in turn.
        required: Whether an object is invalid without it.
        merge_key: How strategic merge patch merges a list: by this field of its items, as a set where it is `""`,
            not at all where it is None.
        list_type: How server-side apply merges a list: `atomic`, `set` or `map`.
        list_map_keys: The fields that identify the items of a list of type `map`.
        map_type: How server-side apply merges a map: `granular` or `atomic`; objects have this in their shape.
        number: Its number in protobuf, behind those of the embedded messages that it lies in; empty for none.
        is_replaced: Whether strategic merge patch replaces an object instead of merging it.
        go_type: The name of its type in Go, where that is another one than the type's own.
        embedded: The names of the structs that are embedded in one another and hold it in Go.
    """

    type: Type
    keeps_zero: bool = True
    keeps_null: bool = False
    default: Any = ABSENT
    required: bool = False
    merge_key: str | None = None
    list_type: str = "atomic"
    list_map_keys: tuple[str, ...] = ()
    map_type: str = "granular"
    number: tuple[int, ...] = ()
    is_replaced: bool = False
    go_type: str = ""
    embedded: tuple[str, ...] = ()

    def in_go(self, wanted: str) -> str:
        """Return the name in Go of the type of the field or of its items, given by its own name."""
        of, named = self.type, self.go_type
        while of.items is not None and of.name != wanted:
            of, named = of.items, named.partition("]")[2]
        return named if of.name == wanted and named else wanted

    def keeps(self, zero: object) -> bool:
        """Return whether a zero value, or null, is stored."""
        return self.keeps_null if zero is None else self.keeps_zero


class Shape:
    """The fields of an object, read when they are first asked for.

    Attributes:
        name: Version and name, such as `v1.Container`.
        short_name: The name alone, such as `Container`.
        type: A value of this shape, as a type.
        is_atomic: Whether server-side apply replaces an object of this shape as a whole.
        preserves_unknown: Whether fields that are not named are kept.
    """

    preserves_unknown = False

    def __init__(self, name: str, read: Callable[[], Mapping[str, Field]], *, is_atomic: bool = False) -> None:
        self.name = name
        self.short_name: str = name.rpartition(".")[2]
        self.type: Type = Type(name, self.conform, lambda: self.conform({}), self, has_fields=True)
        self.is_atomic = is_atomic
        self._read = read

    @cached_property
    def fields(self) -> Mapping[str, Field]:
        """The fields by their names."""
        return self._read()

    @cached_property
    def _defaults(self) -> tuple[tuple[str, Field], ...]:
        return tuple((name, field) for name, field in self.fields.items() if field.default is not ABSENT)

    @cached_property
    def _conformers(self) -> Mapping[str, tuple[type | None, Callable[[Any], Any], Field]]:
        return {name: (field.type.python, field.type.conform, field) for name, field in self.fields.items()}

    @cached_property
    def _knowers(self) -> Mapping[str, Callable[[Any], bool] | None]:
        # For the fields in which there are objects with fields of their own; None for the others.
        return {name: field.type.knower() if field.type.has_fields else None for name, field in self.fields.items()}

    @cached_property
    def numbers(self) -> Mapping[tuple[int, ...], str]:
        """The names of the fields by their protobuf numbers; embedded messages have no name and map to `""`."""
        found = {field.number: name for name, field in self.fields.items() if field.number}
        embedded = {number[:depth]: "" for number in found for depth in range(1, len(number))}
        return embedded | found

    def conform(self, value: Any) -> Any:
        """Conform a value in place: prune unknown fields, drop zeros and nulls, set defaults.

        Raises:
            ValueError: A value is malformed, or has the wrong type; the message is the decoder's.
        """
        if type(value) is not dict:
            raise TypeMismatchError.of(value, self.name)
        conformers = self._conformers
        dropped: list[str] = []
        changed: dict[str, Any] = {}
        try:
            for name, given in value.items():
                known = conformers.get(name)
                if known is None:
                    dropped.append(name)
                    continue
                python, conform, field = known
                made = given if given is None or type(given) is python else conform(given)
                if not made and not field.keeps(made):
                    dropped.append(name)
                elif made is not given:
                    changed[name] = made
        except TypeMismatchError as misfit:
            misfit.add_parent(self.short_name, name, field)
            raise
        for name in dropped:
            del value[name]
        value.update(changed)
        if self._defaults:
            self._fill(value)
        return value

    def _fill(self, value: dict[str, Any]) -> None:
        for name, field in self._defaults:
            if name not in value:
                value[name] = field.type.conform({}) if field.default == {} else field.default

    def knows(self, value: Any) -> bool:
        """Return whether `unknown` yields nothing, without making paths: for nearly all objects that is enough."""
        if type(value) is not dict:
            return True
        knowers = self._knowers
        for name, given in value.items():
            if name not in knowers:
                if not self.preserves_unknown:
                    return False
            elif (knows := knowers[name]) is not None and not knows(given):
                return False
        return True

    def unknown(self, value: Mapping[str, Any], path: str = "") -> Iterator[str]:
        """Yield the paths of fields that no shape names, such as `spec.containers[0].imge`, in the value's order."""
        for name, given in value.items():
            here = f"{path}.{name}" if path else name
            field = self.fields.get(name)
            if field is None:
                yield here
            elif field.type.has_fields:
                for shape, inner, where in field.type.objects(given, here):
                    yield from shape.unknown(inner, where)

    def prune(self, value: dict[str, Any]) -> None:
        """Drop the fields that `unknown` yields, in place."""
        for name in [name for name in value if name not in self.fields]:
            del value[name]
        for name, given in value.items():
            for shape, inner, _ in self.fields[name].type.objects(given, ""):
                shape.prune(inner)

    def missing(self, value: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Field]]:
        """Yield the required fields that are absent or empty, with their paths such as `spec.selector`."""
        for name, field in self.fields.items():
            here, given = f"{path}.{name}" if path else name, value.get(name)
            if field.required and given in (None, "", []) and (self.name, name) not in _MAY_BE_EMPTY:
                yield here, field
            elif given and field.type.has_fields:
                for shape, inner, where in field.type.objects(given, here):
                    yield from shape.missing(inner, where)


def list_of(item: Type) -> Type:
    """Return the type of lists whose items have a type."""
    wanted, python = f"[]{item.name}", item.python

    def conform(value: Any) -> Any:
        if type(value) is not list:
            raise TypeMismatchError.of(value, wanted)
        for position, one in enumerate(value):
            if type(one) is not python:
                value[position] = item.zero() if one is None else item.conform(one)
        return value

    return Type(wanted, conform, list, items=item, has_fields=item.has_fields)


def map_of(item: Type) -> Type:
    """Return the type of maps from text to values of a type."""
    wanted, python = f"map[string]{item.name}", item.python

    def conform(value: Any) -> Any:
        if type(value) is not dict:
            raise TypeMismatchError.of(value, wanted)
        for key, one in value.items():
            if type(one) is not python:
                value[key] = item.zero() if one is None else item.conform(one)
        return value

    return Type(wanted, conform, dict, items=item, has_fields=item.has_fields)
