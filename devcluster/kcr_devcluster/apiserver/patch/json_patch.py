"""JSON patch, a list of operations that all apply or none does, and JSON merge patch.

The document is text to the server's library, which reads as much of it as the paths need. So `test` compares the texts
of numbers and strings: 1 is not 1.0. Other habits that are kept: `replace` of a member that is not there adds it,
`copy` of one copies null, `add` and `replace` without a value set null, indexes are what Go reads as integers and may
count from the end, the first segment of a path is dropped whatever it is, and `test` for null holds for a member that
is not there.

Source: RFC 6902; kubernetes/vendor/gopkg.in/evanphx/json-patch.v4; k8s.io/apiserver/pkg/endpoints/handlers/patch.go,
applyJSPatch; RFC 7396.
"""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from kcr_devcluster.apiserver.protocol.gojson import check_depth, decode_json, encode_json, kind_of
from kcr_devcluster.apiserver.protocol.responses import StatusError, bad_request, unprocessable

_INDEX = re.compile(r"[-+]?[0-9]{1,400}")
_MOST_OPERATIONS = 10_000
# So many bytes of JSON may be made by copying, in one patch: a few operations can double a document each.
_MOST_COPIED = 3 * 1024 * 1024
# Unlike upstream, an array or object is counted with the memory that it takes.
_CONTAINER_BYTES = 64
_MEMBERS = ("op", "path", "from")
_RAW_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RAW_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
# A part of a document: text that has not been read, or an object or array of such; None for null.
_Node = msgspec.Raw | dict[str, Any] | list[Any] | None


def decode_operations(patch: bytes) -> list[dict[str, Any]]:
    """Return the operations of a JSON patch; their values remain text.

    Raises:
        StatusError: 400, it is none.
    """
    try:
        found = decode_json(patch)
    except ValueError as error:
        raise bad_request(f"error decoding patch: {error}") from None
    if found is None:
        return []
    if not isinstance(found, list):
        raise malformed(found, "[]handlers.jsonPatchOp")
    for operation in found:
        if not isinstance(operation, dict | None):
            raise malformed(operation, "handlers.jsonPatchOp")
    operations: list[dict[str, Any]] = [operation or {} for operation in found]
    for operation in operations:
        for member in _MEMBERS:
            if not isinstance(operation.get(member), str | None):
                raise malformed(operation[member], "string", f"Go struct field jsonPatchOp.{member}")
    return with_raw_values(patch, operations)


def with_raw_values(patch: bytes, operations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the operations that were read from a patch, with the texts of their values."""
    try:
        for operation, raw in zip(operations, _RAW_ARRAY.decode(patch), strict=True):
            if "value" in operation:
                operation["value"] = _RAW_OBJECT.decode(raw)["value"]
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass  # parts of it are no text, and have been replaced
    return operations


def json_patch(target: Any, operations: list[dict[str, Any]]) -> Any:
    """Return the target with all operations applied; it is not changed itself.

    Args:
        target: The document.
        operations: The operations. A value may be text, as a client wrote it.

    Raises:
        StatusError: One of them fails.
    """
    if len(operations) > _MOST_OPERATIONS:
        words = f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}, got {len(operations)}"
        raise StatusError(413, "RequestEntityTooLarge", words)
    try:
        document, copied = _read(msgspec.Raw(encode_json(target))), 0
        for operation in operations:
            name = operation.get("op")
            if name == "copy":
                copied += _copy(document, operation, _MOST_COPIED - copied)
            elif name == "replace" and operation.get("path") == "":
                document = _read(_value(operation))
            elif isinstance(name, str) and name in _OPERATIONS:
                _OPERATIONS[name](document, operation)
            else:
                raise unprocessable()
        text = msgspec.json.encode(document)
        check_depth(text)
        return decode_json(text)
    except (RecursionError, ValueError):
        raise unprocessable() from None


def _read(node: _Node) -> dict[str, Any] | list[Any]:
    """Return the object or array that a part of the document is, with its members read as text.

    Raises:
        StatusError: It is neither.
    """
    if isinstance(node, dict | list):
        return node
    text = bytes(node or b"")
    match text.lstrip()[:1]:
        case b"{":
            return {name: _part(one) for name, one in _RAW_OBJECT.decode(text).items()}
        case b"[":
            return [_part(one) for one in _RAW_ARRAY.decode(text)]
    raise unprocessable()


def _part(text: msgspec.Raw) -> msgspec.Raw | None:
    return None if bytes(text).strip() == b"null" else text


def _pointer(operation: dict[str, Any], member: str) -> list[str]:
    path = operation.get(member)
    if not isinstance(path, str) or "/" not in path:
        raise unprocessable()
    return [token.replace("~1", "/").replace("~0", "~") for token in path.split("/")[1:]]


def _holder(document: Any, tokens: list[str]) -> Any:
    """Return the object or array that the last token points into."""
    for token in tokens[:-1]:
        inner = _read(_get(document, token))
        document[token if isinstance(document, dict) else _index(token, len(document))] = inner
        document = inner
    return document


def _get(holder: Any, token: str) -> Any:
    """Return a member, None where there is none; an item has to be there."""
    return holder.get(token) if isinstance(holder, dict) else holder[_index(token, len(holder))]


def _index(token: str, length: int) -> int:
    if not _INDEX.fullmatch(token):
        raise unprocessable()
    index = int(token)
    if not -length <= index < length:
        raise unprocessable()
    return index % length


def _value(operation: dict[str, Any]) -> msgspec.Raw | None:
    value = operation.get("value")
    text = value if isinstance(value, msgspec.Raw) else msgspec.Raw(encode_json(value))
    return _part(text)


def _insert(document: Any, tokens: list[str], value: _Node) -> None:
    holder, token = _holder(document, tokens), tokens[-1]
    if isinstance(holder, dict):
        holder[token] = value
    elif token == "-":
        holder.append(value)
    else:
        # One target more than there are items: behind the last one.
        holder.insert(_index(token, len(holder) + 1), value)


def _delete(document: Any, tokens: list[str]) -> Any:
    holder, token = _holder(document, tokens), tokens[-1]
    if isinstance(holder, list):
        return holder.pop(_index(token, len(holder)))
    if token not in holder:
        raise unprocessable()
    return holder.pop(token)


def _add(document: Any, operation: dict[str, Any]) -> None:
    _insert(document, _pointer(operation, "path"), _value(operation))


def _remove(document: Any, operation: dict[str, Any]) -> None:
    _delete(document, _pointer(operation, "path"))


def _replace(document: Any, operation: dict[str, Any]) -> None:
    tokens, value = _pointer(operation, "path"), _value(operation)
    holder, token = _holder(document, tokens), tokens[-1]
    holder[token if isinstance(holder, dict) else _index(token, len(holder))] = value


def _move(document: Any, operation: dict[str, Any]) -> None:
    # Nothing can move into itself: the path leads nowhere by then.
    moved = _delete(document, _pointer(operation, "from"))
    _insert(document, _pointer(operation, "path"), moved)


def _copy(document: Any, operation: dict[str, Any], limit: int) -> int:
    """Copy a value, and return its size; a member that is not there is copied as null."""
    source = _pointer(operation, "from")
    text = msgspec.json.encode(_get(_holder(document, source), source[-1]))
    check_depth(text)
    size = len(text) + _CONTAINER_BYTES * (text.count(b"[") + text.count(b"{"))
    if size > limit:
        raise unprocessable()
    _insert(document, _pointer(operation, "path"), _part(msgspec.Raw(text)))
    return size


def _test(document: Any, operation: dict[str, Any]) -> None:
    value: _Node = document
    if operation.get("path") != "":
        tokens = _pointer(operation, "path")
        value = _get(_holder(document, tokens), tokens[-1])
    if not _same(value, _value(operation)):
        raise unprocessable()


def _same(one: _Node, other: _Node) -> bool:
    """Return whether two parts are equal: objects by their members, texts letter by letter."""
    one, other = _parts_of(one), _parts_of(other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other


def _parts_of(node: _Node) -> Any:
    """Return the members of an object or array, and of everything else the text."""
    if not isinstance(node, msgspec.Raw):
        return node
    text = bytes(node).strip()
    return _read(node) if text[:1] in (b"{", b"[") else text


_OPERATIONS: dict[str, Callable[[Any, dict[str, Any]], None]] = {
    "add": _add, "remove": _remove, "replace": _replace, "move": _move, "test": _test,
}  # fmt: skip


def merge_patch(target: Any, patch: Any) -> Any:
    """Return the target with the patch applied; neither is changed.

    Raises:
        StatusError: The patch is no object.
    """
    if patch is None:
        raise bad_request("Invalid JSON Patch")
    if not isinstance(patch, dict):
        raise malformed(patch, "map[string]interface {}")
    return _merged(target, patch)


def malformed(patch: object, wanted: str, place: str = "Go value") -> StatusError:
    """400: a patch, or a field of it, is not of the Go type that is wanted."""
    return bad_request(f"error decoding patch: json: cannot unmarshal {kind_of(patch)} into {place} of type {wanted}")


def _merged(target: Any, patch: Any) -> Any:
    if not isinstance(target, dict):
        return _without_nulls(patch)
    if not isinstance(patch, dict):
        return patch
    result = dict(target)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merged(result.get(name), value)
    return result


def _without_nulls(value: Any) -> Any:
    """Return a new value without the members that are null, also of objects in lists; items may be null."""
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value
