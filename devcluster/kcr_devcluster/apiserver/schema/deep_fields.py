"""JSON bodies with unknown fields that are nested too deep for Python: their values become null before decoding.

Go's decoder skips unknown fields, as long as they are nested at most 10,000 deep. The names stay, for warnings
and refusals; fields that the schema names, or keeps without naming them, are never touched.
"""

import re
from collections.abc import Sequence
from typing import Final

from kcr_devcluster.apiserver.protocol.gojson import MAX_DEPTH, is_deep
from kcr_devcluster.apiserver.schema.shape import Shape, Type

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}:]', re.DOTALL)
_OPENING, _CLOSING = (b"{", b"["), (b"}", b"]")
# In a larger body, deep nesting is refused: looking through it would keep the event loop from other requests.
_LARGEST = 256 * 1024
_UNKNOWN: Final = None


def without_deep_fields(shape: Shape, body: bytes) -> bytes:
    """Return a body with null in place of objects and lists in unknown fields, if it is nested too deep to be decoded.

    Any other body is returned unchanged.

    Args:
        shape: The fields of the object, or of the patched one.
        body: The body.
    """
    if len(body) > _LARGEST or not is_deep(body, at_most=MAX_DEPTH):
        return body
    try:
        return b"".join(_kept(body, shape.type))
    except (IndexError, ValueError):
        # It is no JSON; decoding reports the error.
        return body


def _kept(body: bytes, root: Type) -> list[bytes]:
    tokens = list(_TOKEN.finditer(body))
    texts = [token[0] for token in tokens]
    copied, position = 0, 0
    parts: list[bytes] = []
    # The types of the objects and lists that are open; of an object, the member at hand is known by its name.
    name = ""
    types: list[Type] = []
    while position < len(texts):
        text = texts[position]
        if text in _OPENING:
            of = _member(types[-1], name) if types else root
            if of is not _UNKNOWN and _is_followed(of):
                types.append(of)
            else:
                end = _end(texts, position)
                if of is _UNKNOWN:
                    parts += [body[copied : tokens[position].start()], b"null"]
                    copied = tokens[end].end()
                position = end
        elif text in _CLOSING:
            types.pop()
        elif text == b":":
            name = texts[position - 1][1:-1].decode()
        position += 1
    return [*parts, body[copied:]]


def _is_followed(of: Type) -> bool:
    """Return whether the fields of values of a type are known one by one."""
    return of.items is not None or (of.shape is not None and not of.shape.preserves_unknown)


def _member(of: Type, name: str) -> Type | None:
    if of.shape is None:
        return of.items
    field = of.shape.fields.get(name)
    return _UNKNOWN if field is None else field.type


def _end(texts: Sequence[bytes], start: int) -> int:
    """Return where the value ends that a bracket opens."""
    depth = 0
    for position in range(start, len(texts)):
        if texts[position] in _OPENING:
            depth += 1
        elif texts[position] in _CLOSING:
            depth -= 1
            if not depth:
                return position
    raise ValueError("unexpected end of JSON input")
