"""JSON patch, a list of operations that all apply or none does, and JSON merge patch.

Four habits of the server's library are kept: `replace` of a member that is not there adds it, `copy` of one copies
null, indexes may count from the end, and `test` for null holds for a member that is not there.

Source: RFC 6902; kubernetes/vendor/gopkg.in/evanphx/json-patch.v4; RFC 7396.
"""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from kcr.api.equality import same_json
from kcr_devcluster.apiserver.protocol.gojson import check_depth, kind_of
from kcr_devcluster.apiserver.protocol.responses import StatusError, bad_request, unprocessable

_INDEX = re.compile(r"-?(0|[1-9][0-9]{0,8})")
_MOST_OPERATIONS = 10_000
# So many bytes of JSON may be made by copying, in one patch: a few operations can double a document each.
_MOST_COPIED = 3 * 1024 * 1024
# Unlike upstream, an array or object is counted with the memory that it takes.
_CONTAINER_BYTES = 64
_MISSING = object()


def json_patch(target: Any, operations: Any) -> Any:
    """Return the target with all operations applied; it is not changed itself.

    Raises:
        StatusError: The document is no list of operations, or one of them fails.
    """
    if not isinstance(operations, list) or not all(isinstance(operation, dict) for operation in operations):
        raise malformed(operations, "jsonpatch.Patch")
    if len(operations) > _MOST_OPERATIONS:
        words = f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}, got {len(operations)}"
        raise StatusError(413, "RequestEntityTooLarge", words)
    result, copied = _copied(target), 0
    for operation in operations:
        name = operation.get("op")
        if name == "copy":
            copied += _copy(result, operation, _MOST_COPIED - copied)
        elif isinstance(name, str) and name in _OPERATIONS:
            _OPERATIONS[name](result, operation)
        else:
            raise unprocessable()
    try:
        check_depth(msgspec.json.encode(result))
    except (RecursionError, ValueError):
        raise unprocessable() from None
    return result


def _copied(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def _pointer(operation: dict[str, Any], member: str) -> list[str]:
    path = operation.get(member)
    if not isinstance(path, str) or not path.startswith("/"):
        raise unprocessable()
    return [token.replace("~1", "/").replace("~0", "~") for token in path.split("/")[1:]]


def _holder(document: Any, tokens: list[str]) -> Any:
    """Return the object or array that the last token points into."""
    for token in tokens[:-1]:
        document = _get(document, token)
    if not isinstance(document, dict | list):
        raise unprocessable()
    return document


def _get(holder: Any, token: str, default: object = _MISSING) -> Any:
    if isinstance(holder, dict):
        value = holder.get(token, default)
    elif isinstance(holder, list):
        value = holder[_index(token, len(holder))]
    else:
        value = _MISSING
    if value is _MISSING:
        raise unprocessable()
    return value


def _index(token: str, length: int) -> int:
    if not _INDEX.fullmatch(token):
        raise unprocessable()
    index = int(token)
    if not -length <= index < length:
        raise unprocessable()
    return index % length


def _value(operation: dict[str, Any]) -> Any:
    if "value" not in operation:
        raise unprocessable()
    return _copied(operation["value"])


def _insert(document: Any, tokens: list[str], value: Any) -> None:
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
    value = _get(holder, token)
    if isinstance(holder, dict):
        del holder[token]
    else:
        del holder[_index(token, len(holder))]
    return value


def _add(document: Any, operation: dict[str, Any]) -> None:
    _insert(document, _pointer(operation, "path"), _value(operation))


def _remove(document: Any, operation: dict[str, Any]) -> None:
    _delete(document, _pointer(operation, "path"))


def _replace(document: Any, operation: dict[str, Any]) -> None:
    tokens, value = _pointer(operation, "path"), _value(operation)
    holder, token = _holder(document, tokens), tokens[-1]
    if isinstance(holder, dict):
        holder[token] = value
    else:
        holder[_index(token, len(holder))] = value


def _move(document: Any, operation: dict[str, Any]) -> None:
    source, target = _pointer(operation, "from"), _pointer(operation, "path")
    if len(target) > len(source) and target[: len(source)] == source:
        raise unprocessable()  # nothing can move into itself
    _insert(document, target, _delete(document, source))


def _copy(document: Any, operation: dict[str, Any], limit: int) -> int:
    """Copy a value, and return its size; a member that is not there is copied as null."""
    source = _pointer(operation, "from")
    try:
        text = msgspec.json.encode(_get(_holder(document, source), source[-1], None))
        check_depth(text)
    except (RecursionError, ValueError):
        raise unprocessable() from None
    size = len(text) + _CONTAINER_BYTES * (text.count(b"[") + text.count(b"{"))
    if size > limit:
        raise unprocessable()
    _insert(document, _pointer(operation, "path"), msgspec.json.decode(text))
    return size


def _test(document: Any, operation: dict[str, Any]) -> None:
    tokens, wanted = _pointer(operation, "path"), operation.get("value")
    if not same_json(_get(_holder(document, tokens), tokens[-1], None), wanted):
        raise unprocessable()


_OPERATIONS: dict[str, Callable[[Any, dict[str, Any]], None]] = {
    "add": _add, "remove": _remove, "replace": _replace, "move": _move, "test": _test,
}  # fmt: skip


def merge_patch(target: Any, patch: Any) -> Any:
    """Return the target with the patch applied; neither is changed.

    Raises:
        StatusError: The patch is no object.
    """
    if not isinstance(patch, dict):
        raise malformed(patch, "map[string]interface {}")
    return _merged(target, patch)


def malformed(patch: object, wanted: str) -> StatusError:
    """400: a patch is not of the Go type that is wanted."""
    return bad_request(f"error decoding patch: json: cannot unmarshal {kind_of(patch)} into Go value of type {wanted}")


def _merged(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merged(result.get(name), value)
    return result
