"""Field validation: unknown and duplicate fields in requests.

Unknown fields are pruned in any case; the query decides whether they are a warning, an error or neither.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/{create,update,patch}.go, fieldValidation;
sigs.k8s.io/json, UnmarshalStrict.
"""

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from kcr_devcluster.apiserver.http.bodies.request_body import media_type
from kcr_devcluster.apiserver.kinds.strategy import UndecodableError
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.query import Query
from kcr_devcluster.apiserver.schema.shape import Shape, Type
from kcr_devcluster.apiserver.structural.shapes import StructuralShape
from kcr_devcluster.yaml_json import key_errors


def check(shape: Shape, obj: Manifest, body: bytes, content_type: str, query: Query) -> list[str]:
    """Return the warnings about unknown and duplicate fields; none when the query says `fieldValidation=Ignore`.

    Args:
        shape: The type of the object.
        obj: The object to write: the body itself, or the result of a patch.
        body: The body as sent, which may repeat names.
        content_type: The form of the body; in protobuf no names are repeated.
        query: It names the `fieldValidation`; without one it is `Warn`.

    Raises:
        UndecodableError: There are some, and the query says `fieldValidation=Strict`.
    """
    validation = query.text("fieldValidation")
    if validation == "Ignore":
        return []
    found = [] if shape.knows(obj) else [f'unknown field "{path}"' for path in shape.unknown(obj)]
    media = media_type(content_type)
    decoded = obj if media == "application/json" else None
    again = [f'duplicate field "{path}"' for path in repeated(body, decoded)] if media.endswith("json") else []
    if media.endswith("patch+json"):
        # The names of the patch are checked first, then those of the result, which are in order.
        found = again + sorted(found)
    elif again:
        # Types that are known are decoded in one go.
        is_known = not isinstance(shape, StructuralShape)
        found = list(_in_order(shape.type, _pairs(body), "")) if is_known else found + again
    keys = key_errors(body) if media.endswith("yaml") else []
    if (keys or found) and validation == "Strict":
        said = [*(["\n  ".join(("yaml: unmarshal errors:", *keys))] if keys else ()), *found]
        version = shape.name.partition(".")[0]
        raise UndecodableError(shape.short_name, version, f"strict decoding error: {', '.join(said)}")
    return [*keys, *found]


_encode, _decode = msgspec.json.Encoder(enc_hook=float).encode, msgspec.json.Decoder().decode


class _Pairs(list[tuple[str, Any]]):
    """The members of an object in their order, also those with the same name."""


def _pairs(body: bytes) -> Any:
    return json.loads(body.decode("utf-8", "replace"), object_pairs_hook=_Pairs, parse_int=len)


def _in_order(of: Type, value: Any, path: str) -> Iterator[str]:
    """Yield what a strict decoder says of fields as it comes to them."""
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for name, given in value:
            here, field = f"{path}.{name}" if path else name, of.field(name)
            if field is not None:
                if name in seen:
                    yield f'duplicate field "{here}"'
                yield from _in_order(field.type, given, here)
            elif of.shape is not None and name not in seen:
                yield f'unknown field "{here}"'
            seen.add(name)
    elif isinstance(value, list) and of.items is not None:
        for position, one in enumerate(value):
            yield from _in_order(of.items, one, f"{path}[{position}]")


class _Repeating(dict[str, Any]):
    """An object with duplicate fields; the last of each counts."""

    names: tuple[str, ...] = ()


def repeated(body: bytes, decoded: object = None) -> list[str]:
    """Return the paths of the members that a JSON text names more than once, such as `data.a`.

    Args:
        body: The text.
        decoded: Its value, if it is known.
    """
    if _names_each_once(body, decoded):
        return []
    found: list[_Repeating] = []

    def read(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) == len(pairs):
            return members
        repeating, names = _Repeating(members), [name for name, _ in pairs]
        repeating.names = tuple(name for name in members if names.count(name) > 1)
        found.append(repeating)
        return repeating

    # The body was decoded before; here only the names matter.
    value = json.loads(body.decode("utf-8", "replace"), object_pairs_hook=read, parse_int=len)
    return list(_paths(value, "")) if found else []


def _names_each_once(body: bytes, decoded: object) -> bool:
    """Return whether a JSON text certainly repeats no member name, for a quarter of the cost of a search.

    Decoding keeps one of each. Every lost member takes its colon with it, so the text that is encoded from the rest has
    fewer of them; it has the colons within strings again, if they are not escaped.
    """
    if rb"\u003" in body:
        return False
    try:
        return _encode(_decode(body) if decoded is None else decoded).count(b":") == body.count(b":")
    except (ValueError, RecursionError):
        return False


def _paths(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for position, one in enumerate(value):
            yield from _paths(one, f"{path}[{position}]")
    elif isinstance(value, dict):
        if isinstance(value, _Repeating):
            yield from (f"{path}.{name}" if path else name for name in value.names)
        for name, one in value.items():
            yield from _paths(one, f"{path}.{name}" if path else name)
