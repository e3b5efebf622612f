"""Reads the annotations by which an object asks a controller for more than its spec can say.

A value that cannot be read counts as absent, and becomes a fault: one line for users, with the remedy.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

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


def read_annotations(
    readers: Mapping[str, AnnotationReader], texts: Sequence[str | None]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the values by field, without those that are absent or cannot be read, and the faults of the latter.

    Args:
        readers: The readers by the name of their annotation.
        texts: The annotations in the order of the readers; None for absent ones.
    """
    values: dict[str, Any] = {}
    faults: list[str] = []
    for (name, reader), text in zip(readers.items(), texts, strict=True):
        if text is None:
            continue
        try:
            values[reader.field] = reader.read(text)
        except ValueError as error:
            why = f"{text[:_QUOTED]!r} is ignored: {str(error)[:_REASON]}"
            faults.append(f"annotation {name}: {why}; write it as {reader.example}")
    return values, tuple(faults)
