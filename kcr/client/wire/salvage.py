"""Partial decoding of JSON that msgspec refuses because of its nesting or invalid UTF-8.

Splitting works token by token instead of level by level, so no nesting is too deep.
"""

import re
from collections.abc import Iterator

_STRING = rb'"(?:[^"\\]|\\.)*"'
_TOKEN = re.compile(_STRING + rb"|[{}\[\],]", re.DOTALL)
_MEMBER = re.compile(rb"\s*(" + _STRING + rb")\s*:", re.DOTALL)


def members(document: bytes) -> dict[bytes, bytes]:
    """Split an object into its members: the names without quotes, the values as they stand.

    Raises:
        ValueError: The document is no object, or ends inside it.
    """
    found: dict[bytes, bytes] = {}
    for part in _parts(document, b"{"):
        name = _MEMBER.match(part)
        if name is None:
            raise ValueError("no JSON: a member without a name")
        found[name[1][1:-1]] = part[name.end() :].strip()
    return found


def elements(document: bytes) -> list[bytes]:
    """Split an array into its elements, as they stand.

    Raises:
        ValueError: The document is no array, or ends inside it.
    """
    return list(_parts(document, b"["))


def _parts(document: bytes, opening: bytes) -> Iterator[bytes]:
    document = document.strip()
    if not document.startswith(opening):
        raise ValueError(f"no JSON: {opening.decode()} expected, found {document[:20]!r}")
    depth, begin = 0, 1
    for token in _TOKEN.finditer(document):
        match token[0]:
            case b"{" | b"[":
                depth += 1
            case b"}" | b"]":
                depth -= 1
                if depth == 0:
                    last = document[begin : token.start()]
                    if last.strip():
                        yield last
                    return
            case b"," if depth == 1:
                yield document[begin : token.start()]
                begin = token.end()
    raise ValueError("no JSON: it ends too early")
