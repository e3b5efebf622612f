"""Rules for the schema of a CustomResourceDefinition, besides being structural.

Source: kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go,
ValidateCustomResourceDefinitionOpenAPISchema; pkg/apiserver/schema/defaulting/validation.go.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from kcr_devcluster.apiserver.kinds.definitions.structural_rules import structural_errors, visit
from kcr_devcluster.apiserver.protocol.field_errors import FieldError, forbidden, invalid, not_supported, required
from kcr_devcluster.apiserver.schema.extensions import EMBEDDED, LIST_MAP_KEYS, LIST_TYPE, MAP_TYPE, PRESERVES, Schema
from kcr_devcluster.apiserver.schema.formats import is_known
from kcr_devcluster.apiserver.schema.shape import ABSENT
from kcr_devcluster.apiserver.structural.list_types import embedded_errors, list_type_errors
from kcr_devcluster.apiserver.structural.rules import definition_errors, rule_errors
from kcr_devcluster.apiserver.structural.shapes import field_of
from kcr_devcluster.apiserver.structural.validation import compile_schema

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_META_FIELDS = ("metadata", "kind", "apiVersion")
_TEXT: Schema = {"type": "string"}
# The most characters in metadata; what is generated has one more at least.
_LONGEST_NAMES = {"name": 253, "generateName": 252}
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
# Fields that may stand at the root beside a status subresource, by the names that Go has for them.
_AT_ROOT: Mapping[str, str] = {
    "description": "Description", "type": "Type", "format": "Format", "title": "Title", "maximum": "Maximum",
    "exclusiveMaximum": "ExclusiveMaximum", "minimum": "Minimum", "exclusiveMinimum": "ExclusiveMinimum",
    "maxLength": "MaxLength", "minLength": "MinLength", "pattern": "Pattern", "maxItems": "MaxItems",
    "minItems": "MinItems", "uniqueItems": "UniqueItems", "multipleOf": "MultipleOf", "required": "Required",
    "items": "Items", "properties": "Properties", "externalDocs": "ExternalDocs", "example": "Example",
    PRESERVES: "XPreserveUnknownFields", "x-kubernetes-validations": "XValidations",
}  # fmt: skip


def schema_errors(schema: Schema, path: str, *, has_status: bool, caps_names: bool = False) -> list[FieldError]:
    """Return the errors of a schema.

    Args:
        schema: The `openAPIV3Schema`.
        path: Its path in the definition.
        has_status: Whether there is a status subresource, whose part of the schema is used alone.
        caps_names: Whether names have a length in the estimate of the rules' costs.
    """
    errors = _root_errors(schema, path) if has_status else []
    if schema.get("nullable"):
        errors.append(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    structural = structural_errors(schema, path)
    errors += structural or _default_errors(schema, path)
    rules = list(_rules(schema, path, is_root=True))
    errors += rules
    # The expressions of a schema with errors are not checked: their errors could not be understood.
    ruled = _with_capped_names(schema, is_root=True) if caps_names else schema
    return errors or definition_errors(ruled, path) or _ruled_default_errors(schema, path)


def _ruled_default_errors(schema: Schema, path: str) -> list[FieldError]:
    """Return the errors of defaults by the rules of their schemas."""
    return [
        error._replace(field=_below(f"{where}.default", error.field))
        for where, one in visit(schema, path)
        if one.get("default") is not None
        for error in rule_errors(one, _defaulted(one))
    ]


def _defaulted(schema: Schema) -> Any:
    """Return the default of a schema, as an object gets it: with the defaults in it."""
    return field_of({**schema, "default": None}).type.conform(deepcopy(schema["default"]))


def _root_errors(schema: Schema, path: str) -> list[FieldError]:
    if schema.get("type") not in (None, "", "object"):
        words = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        return [invalid(f"{path}.type", schema["type"], words)]
    if all(name in _AT_ROOT for name, value in schema.items() if value not in (None, False, "", [], {})):
        return []
    shown = " ".join(_AT_ROOT.values())
    words = f"only [{shown}] fields are allowed at the root of the schema if the status subresource is enabled"
    return [invalid(path, schema, words)]


def _default_errors(schema: Schema, path: str) -> list[FieldError]:
    """Return the errors of defaults, which must be values that the schema allows."""
    errors: list[FieldError] = []
    for where, one in visit(schema, path):
        default, here = one.get("default"), f"{where}.default"
        if default is None:
            continue
        pruned = _defaulted(one)
        if pruned != default and _without_defaults(one, default) != default:
            errors.append(invalid(here, default, "must not have unknown fields"))
        found: list[FieldError] = []
        compile_schema(one)(pruned, "", ABSENT, found)
        found += [*embedded_errors(one, pruned), *list_type_errors(one, pruned)]
        errors += [error._replace(field=_below(here, error.field)) for error in found]
    return errors


def _below(path: str, field: str) -> str:
    if field in ("", "<nil>"):
        return path
    return f"{path}{field}" if field.startswith("[") else f"{path}.{field}"


def _without_defaults(schema: Schema, value: Any) -> Any:
    """Return a value as pruning alone leaves it."""
    unknown = field_of({**schema, "default": None}).type
    if not unknown.has_fields:
        return value
    for shape, obj, _ in unknown.objects(value, ""):
        if any(True for _ in shape.unknown(obj)):
            return ABSENT
    return value


def _rules(
    schema: Schema, path: str, *, is_root: bool = False, meta: bool = False, why: str = ""
) -> Iterator[FieldError]:
    """Yield the errors of a schema and those in it.

    Args:
        schema: The schema.
        path: Its path in the definition.
        is_root: Whether it is that of the whole object.
        meta: Whether it is inside of metadata.
        why: Why there may be no defaults, `""` where there may be.
    """
    yield from _own_errors(schema, path, meta=meta, why=why)
    fields, other = schema.get("properties") or {}, schema.get("additionalProperties")
    if other is not None and fields and other is not True:
        words = "additionalProperties and properties are mutual exclusive"
        yield forbidden(f"{path}.additionalProperties", words)
    if isinstance(other, Mapping):
        inner = "inside additionalProperties applying to object metadata" if meta else why
        yield from _rules(other, f"{path}.additionalProperties", meta=meta, why=inner)
    for name, one in fields.items():
        is_meta = (is_root or bool(schema.get(EMBEDDED))) and name in _META_FIELDS
        inner = f"in top-level {name}" if is_meta and is_root else why
        yield from _rules(one, f"{path}.properties[{name}]", meta=meta or is_meta, why=inner)
    nested = [
        (f"{name}[{at}]", one) for name in ("allOf", "oneOf", "anyOf") for at, one in enumerate(schema.get(name) or ())
    ]
    for name, one in [("not", schema.get("not")), *nested, ("items", schema.get("items"))]:
        if isinstance(one, Mapping):
            yield from _rules(one, f"{path}.{name}", meta=meta, why=why)


def _own_errors(schema: Schema, path: str, *, meta: bool, why: str) -> Iterator[FieldError]:
    type_name = schema.get("type") or ""
    if type_name and type_name not in _TYPES:
        yield not_supported(f"{path}.type", type_name, _TYPES)
        if type_name == "null":
            yield forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if schema.get("default") is not None and why:
        yield forbidden(f"{path}.default", f"must not be set {why}")
    for name in _UNSUPPORTED:
        if schema.get(name):
            yield forbidden(f"{path}.{name}", f"{name} is not supported")
    if isinstance(schema.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if meta and schema.get(EMBEDDED):
        yield forbidden(f"{path}.{EMBEDDED}", "must not be used inside of resource meta")
    if schema.get("uniqueItems"):
        words = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", words)
    if schema.get(PRESERVES) is False:
        yield invalid(f"{path}.{PRESERVES}", False, "must be true or undefined")
    yield from _extension_errors(schema, path, MAP_TYPE, "object", ("atomic", "granular"))
    yield from _extension_errors(schema, path, LIST_TYPE, "array", ("atomic", "set", "map"))
    yield from _list_errors(schema, path)


def _extension_errors(
    schema: Schema, path: str, extension: str, wanted: str, known: Sequence[str]
) -> Iterator[FieldError]:
    value, type_name = schema.get(extension), schema.get("type") or ""
    if value is None:
        return
    if type_name != wanted:
        words = f"must be {wanted} if {extension} is specified"
        yield invalid(f"{path}.type", type_name, words) if type_name else required(f"{path}.type", words)
    if value not in known:
        yield not_supported(f"{path}.{extension}", value, known)


def _list_errors(schema: Schema, path: str) -> Iterator[FieldError]:
    list_type, keys, item = schema.get(LIST_TYPE), schema.get(LIST_MAP_KEYS) or [], schema.get("items")
    if keys and list_type != "map":
        words = f"must be map if {LIST_MAP_KEYS} is non-empty"
        yield invalid(f"{path}.{LIST_TYPE}", list_type, words) if list_type else required(f"{path}.{LIST_TYPE}", words)
    if list_type == "map" and not keys:
        yield required(f"{path}.{LIST_MAP_KEYS}", f"must not be empty if {LIST_TYPE} is map")
    if list_type not in ("set", "map"):
        return
    if not isinstance(item, Mapping):
        if list_type == "map":
            yield required(f"{path}.items", f"must have a schema if {LIST_TYPE} is map")
        return
    if item.get("nullable"):
        yield forbidden(f"{path}.items.nullable", f"cannot be nullable when {LIST_TYPE} is {list_type}")
    if list_type == "map":
        yield from _map_errors(item, keys, path)
        return
    words = f"must be atomic as item of a list with {LIST_TYPE}=set"
    if item.get("type") == "array" and item.get(LIST_TYPE) not in (None, "atomic"):
        yield invalid(f"{path}.items.{LIST_TYPE}", item[LIST_TYPE], words)
    if item.get("type") == "object" and item.get(MAP_TYPE) != "atomic":
        yield invalid(f"{path}.items.{MAP_TYPE}", item.get(MAP_TYPE), words)


def _map_errors(item: Schema, keys: Sequence[str], path: str) -> Iterator[FieldError]:
    """Yield the errors of the keys of a list of type `map`."""
    if item.get("type") != "object":
        words = f"must be object if parent array's {LIST_TYPE} is map"
        yield invalid(f"{path}.items.type", item.get("type", ""), words)
        return
    fields = item.get("properties") or {}
    for position, key in enumerate(keys):
        place, field = f"{path}.items.properties[{key}]", fields.get(key)
        if key in keys[:position]:
            yield invalid(f"{path}.{LIST_MAP_KEYS}", keys, "must not contain duplicate entries")
        if field is None:
            yield invalid(f"{path}.{LIST_MAP_KEYS}", keys, "entries must all be names of item properties")
            continue
        if field.get("type") in ("array", "object"):
            words = f"must be a scalar type if parent array's {LIST_TYPE} is map"
            yield invalid(f"{place}.type", item["type"], words)
        if key not in (item.get("required") or ()) and field.get("default") is None:
            words = f"this property is in {LIST_MAP_KEYS}, so it must have a default or be a required property"
            yield required(f"{place}.default", words)
        if field.get("nullable"):
            yield forbidden(f"{place}.nullable", f"this property is in {LIST_MAP_KEYS}, so it cannot be nullable")


def format_warnings(schema: Schema) -> Iterator[str]:
    """Yield the warnings about formats that are not known, and have no effect."""
    for _, one in visit(schema, ""):
        if (name := one.get("format")) and not is_known(one.get("type") or "", name):
            yield f'unrecognized format "{name}"'


def set_warnings(schema: Schema) -> Iterator[str]:
    """Yield the warnings about sets of objects and lists."""
    for _, one in visit(schema, ""):
        item = one.get("items")
        if one.get(LIST_TYPE) == "set" and isinstance(item, Mapping) and item.get("type") in ("object", "array"):
            yield (
                f'{LIST_TYPE}: set for items of type "{item["type"]}" is not supported by server-side apply or CEL '
                "validation rules"
            )


def _with_capped_names(schema: Schema, *, is_root: bool) -> Schema:
    """Return a schema whose objects with metadata have names of limited length; the parts of it are not changed.

    Args:
        schema: The schema.
        is_root: Whether its values are whole objects.
    """
    fields = schema.get("properties")
    made: dict[str, Any] = dict(schema)
    if isinstance(fields, Mapping):
        made["properties"] = {name: _with_capped_names(one, is_root=False) for name, one in fields.items()}
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), Mapping):
            made[name] = _with_capped_names(schema[name], is_root=False)
    if not is_root and not schema.get(EMBEDDED):
        return made
    metadata = made.get("properties", {}).get("metadata") or {"type": "object"}
    names = metadata.get("properties") or {}
    capped = {name: _capped(names.get(name) or {}, most) for name, most in _LONGEST_NAMES.items()}
    whole = {"metadata": {**metadata, "properties": {**names, **capped}}}
    return {**made, "properties": {"apiVersion": _TEXT, "kind": _TEXT, **made.get("properties", {}), **whole}}


def _capped(schema: Schema, most: int) -> Schema:
    return {"type": "string", **schema, "maxLength": min(schema.get("maxLength", most), most)}
