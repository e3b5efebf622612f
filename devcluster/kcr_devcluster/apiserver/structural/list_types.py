"""Lists that are sets or maps have no duplicates, and embedded resources have a kind and valid metadata.

Source: kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/{listtype,objectmeta}/validation.go.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kcr_devcluster.apiserver.protocol.field_errors import FieldError, as_json, duplicate, invalid, required
from kcr_devcluster.apiserver.protocol.names import check_annotations, check_labels, dns_1035_label, path_segment
from kcr_devcluster.apiserver.schema.builtin import type_shape
from kcr_devcluster.apiserver.schema.extensions import EMBEDDED, LIST_MAP_KEYS, LIST_TYPE, Schema

Visitor = Callable[[Schema, Any, str], Iterator[FieldError]]


def list_type_errors(schema: Schema, value: Any) -> list[FieldError]:
    """Return the errors of duplicates in lists of type `set` or `map`."""
    return list(_visit(_duplicates, schema, value, ""))


def embedded_errors(schema: Schema, value: Any) -> list[FieldError]:
    """Return the errors of embedded resources."""
    return list(_visit(_malformed, schema, value, ""))


def has(schema: Schema, names: Sequence[str]) -> bool:
    """Return whether a schema, or one in it, has one of these extensions."""
    if any(schema.get(name) for name in names):
        return True
    inner = [schema.get("items"), schema.get("additionalProperties"), *(schema.get("properties") or {}).values()]
    return any(has(one, names) for one in inner if isinstance(one, Mapping))


def _visit(visitor: Visitor, schema: Schema, value: Any, path: str) -> Iterator[FieldError]:
    yield from visitor(schema, value, path)
    if isinstance(value, list):
        inner = schema.get("items") or {}
        for position, one in enumerate(value):
            yield from _visit(visitor, inner, one, f"{path}[{position}]")
    elif isinstance(value, dict):
        fields, other = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, one in value.items():
            if name in fields:
                yield from _visit(visitor, fields[name], one, f"{path}.{name}" if path else name)
            elif isinstance(other, Mapping):
                yield from _visit(visitor, other, one, f"{path}[{name}]")


def _duplicates(schema: Schema, value: Any, path: str) -> Iterator[FieldError]:
    if not isinstance(value, list) or schema.get(LIST_TYPE) not in ("set", "map"):
        return
    shown = value
    if schema[LIST_TYPE] == "map":
        for position, item in enumerate(value):
            if not isinstance(item, dict | None):
                yield invalid(f"{path}[{position}]", item, "must be an object for an array of list-type map")
                return
        keys = schema.get(LIST_MAP_KEYS) or ()
        shown = [{key: item[key] for key in keys if key in item} if item else {} for item in value]
    times: dict[str, int] = {}
    for position, item in enumerate(shown):
        text = as_json(item)
        times[text] = times.get(text, 0) + 1
        # The third of a kind is not reported again.
        if times[text] == 2:
            yield duplicate(f"{path}[{position}]", item)


def _malformed(schema: Schema, value: Any, path: str) -> Iterator[FieldError]:
    if not schema.get(EMBEDDED) or not isinstance(value, dict):
        return
    prefix = f"{path}." if path else ""
    for name in ("apiVersion", "kind"):
        if name not in value:
            yield required(prefix + name)
        elif not isinstance(value[name], str):
            yield invalid(prefix + name, value[name], "must be a string")
        elif not value[name]:
            yield invalid(prefix + name, "", "must not be empty")
    version, kind = value.get("apiVersion"), value.get("kind")
    if isinstance(version, str) and version.count("/") > 1:
        yield invalid(f"{prefix}apiVersion", version, f"unexpected GroupVersion string: {version}")
    if isinstance(kind, str) and kind and (reasons := dns_1035_label(kind.lower())):
        words = f"may have mixed case, but should otherwise match: {','.join(reasons)}"
        yield invalid(f"{prefix}kind", kind, words)
    if value.get("metadata") is not None:
        yield from _metadata_errors(value["metadata"], f"{prefix}metadata")


def embedded_faults(schema: Schema, value: Any) -> list[FieldError]:
    """Return the errors of metadata of embedded resources that cannot be decoded."""
    return list(_visit(_undecodable, schema, value, ""))


def _undecodable(schema: Schema, value: Any, path: str) -> Iterator[FieldError]:
    metadata = value.get("metadata") if schema.get(EMBEDDED) and isinstance(value, dict) else None
    try:
        _decoded(metadata)
    except ValueError as error:
        yield invalid(f"{path}.metadata" if path else "metadata", metadata, str(error))


def _decoded(metadata: Any) -> Any:
    if metadata is None:
        return {}
    return type_shape("meta.v1.ObjectMeta").conform(dict(metadata) if isinstance(metadata, dict) else metadata)


def _metadata_errors(metadata: Any, path: str) -> Iterator[FieldError]:
    try:
        known = _decoded(metadata)
    except ValueError as error:
        yield invalid(path, metadata, str(error))
        return
    yield from (invalid(f"{path}.name", known["name"], why) for why in path_segment(known.get("name", "")))
    yield from check_labels(known.get("labels") or {}, f"{path}.labels")
    yield from check_annotations(known.get("annotations") or {}, f"{path}.annotations")
