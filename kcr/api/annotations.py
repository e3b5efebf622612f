"""Reads the annotations by which an object asks a controller for more than its spec can say.

A value that cannot be read counts as absent, and becomes a fault: one line for users, with the remedy.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple, TypeVar

D = TypeVar("D")
# Of a value that cannot be read, and of the reason, so much is quoted.
_QUOTED, _REASON = 64, 128


class AnnotationReader(NamedTuple):
    """How one annotation is read.

    Attributes:
        field: The field that has its value.
        read: Returns the value of a text; raises ValueError with the reason for one that it cannot read.
        example: A text that it can read, for users.
    """

    field: str
    read: Callable[[str], object]
    example: str


def annotations_reader(
    kind: Callable[..., D], readers: Mapping[str, AnnotationReader]
) -> Callable[[Mapping[str, str]], D]:
    """Return the function that reads annotations as a value of a type.

    Fields without an annotation that can be read have their defaults; `faults` has a line for each that cannot.

    Args:
        kind: The type, with the fields of the readers and `faults`, each with a default.
        readers: The readers by the name of their annotation.
    """
    names, none = frozenset(readers), kind()

    @lru_cache(1024)
    def parsed(texts: tuple[str | None, ...]) -> D:
        values: dict[str, object] = {}
        faults: list[str] = []
        for (name, reader), text in zip(readers.items(), texts, strict=True):
            if text is None:
                continue
            try:
                values[reader.field] = reader.read(text)
            except ValueError as error:
                why = f"{text[:_QUOTED]!r} is ignored: {str(error)[:_REASON]}"
                faults.append(f"annotation {name}: {why}; write it as {reader.example}")
        return kind(**values, faults=tuple(faults))

    def read(annotations: Mapping[str, str]) -> D:
        # Nearly all objects.
        if names.isdisjoint(annotations):
            return none
        return parsed(tuple(annotations.get(name) for name in readers))

    return read
