"""Classes of the kinds that CustomResourceDefinitions declare.

A schema that a class cannot say stays beside the type, in `msgspec.Meta(extra_json_schema=…)`, so that
`kcr.crd_manifest` of the classes has it again. Objects with unknown fields are carried as bytes.
"""

from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from kcr.api.markers import Quantity
from kcr.errors import ConfigError
from kcr_devcluster.codegen import model
from kcr_devcluster.codegen.model import (
    CallExpr,
    Class,
    ClassField,
    Expr,
    Pair,
    Text,
    class_name,
    field_name,
    field_names,
)
from kcr_devcluster.codegen.schemas import Schema, constraints, enumerated, is_opaque, scalar

# Keywords that hold values.
_VALUES = ("default", "enum", "example")
_TYPE_META = ("apiVersion", "kind", "metadata")
# The fields of kcr.Condition in the schema of metav1's; a default need not have those that have one there.
_CONDITION = {
    "type": ClassField("type", "type", "str"),
    "status": ClassField("status", "status", "str"),
    **{
        wire: ClassField(field_name(wire), wire, of, model.NONE)
        for wire, of in (
            ("reason", "str"), ("message", "str"), ("observedGeneration", "int"), ("lastTransitionTime", "datetime"),
        )
    },
}  # fmt: skip


class _Names(msgspec.Struct):
    kind: str
    plural: str


class _VersionName(msgspec.Struct):
    name: str
    storage: bool


class _Spec(msgspec.Struct):
    group: str
    names: _Names
    versions: list[_VersionName]


class _Definition(msgspec.Struct):
    """The used fields of a CustomResourceDefinition; others are ignored."""

    spec: _Spec


def crd_classes(manifest: Mapping[str, Any], wanted: str = "", found: dict[str, Class] | None = None) -> list[Class]:
    """Return the classes of a kind.

    Args:
        manifest: A CustomResourceDefinition.
        wanted: A version, `all` for all of them, or empty for the one that is stored.
        found: Other classes of the same module by name, to which those of the kind are added.

    Raises:
        ConfigError: The manifest is no definition, or has no such version, or no schema that a class can have.
    """
    try:
        names = msgspec.convert(manifest, _Definition).spec
    except msgspec.ValidationError as error:
        raise ConfigError(f"this is not a CustomResourceDefinition: {error}") from error
    shown = f"{names.names.plural}.{names.group}"
    spec = _without_nulls(manifest["spec"])
    versions = [one for one in spec["versions"] if wanted in (one["name"], "all") or (not wanted and one["storage"])]
    if not versions:
        known = ", ".join(one.name for one in names.versions)
        raise ConfigError(f"{shown} has no version {wanted or 'that is stored'}: it has {known}")
    found = {} if found is None else found
    others = set(found)
    for one in versions:
        is_main = one["storage"] or len(versions) == 1
        name = class_name(names.names.kind) if is_main else class_name(names.names.kind, one["name"])
        if name in found:
            raise ConfigError(f"{shown}: there is another class {name}: write the types of each to a file of its own")
        _Version(name, found).add_kind(spec, one, several=len(versions) > 1)
    return [one for name, one in found.items() if name not in others]


class _Version:
    """Makes the classes of one version of a kind."""

    def __init__(self, prefix: str, found: dict[str, Class]) -> None:
        """Begin with the classes of other versions.

        Args:
            prefix: The first part of the names of classes: the class of the kind.
            found: All classes by name; those of this version are added.
        """
        self._prefix = prefix
        self._found = found
        # The classes of equal schemas under equal fields are one.
        self._shared: dict[tuple[str, bytes], str] = {}
        # Whether the status is written apart, so that objects are created without one.
        self._has_status = False

    def add_kind(self, spec: Mapping[str, Any], version: Mapping[str, Any], *, several: bool) -> None:
        """Add the class of the kind, and those that it is made of."""
        where = f"{spec['names']['plural']}.{spec['group']} {version['name']}"
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if not schema or is_opaque(schema):
            remedy = f"kcr.unstructured({spec['group']}/{version['name']}, {spec['names']['kind']}, …) has all of them"
            raise ConfigError(f"{where}: its schema does not say which fields there are: {remedy}")
        self._has_status = "status" in (version.get("subresources") or {})
        others = set(self._found)
        self._found[self._prefix] = Class(self._prefix, "FullResource", "", ())
        fields = self._fields({**schema, "properties": _without_type_meta(schema)}, (), of_kind=True)
        kind = self._found[self._prefix] = self._class(self._prefix, "FullResource", schema, fields)
        made = (field for name, one in self._found.items() if name not in others for field in one.fields)
        self._found[self._prefix] = kind._replace(
            keywords=_kind_keywords(self._prefix, spec, version, schema, several=several),
            holds_raw=any(model.OPAQUE in model.flat(field.type) for field in made),
        )

    def _class(self, name: str, base: str, schema: Schema, fields: tuple[ClassField, ...]) -> Class:
        refers = {one for field in fields for one in model.names_in(field.type)} & self._found.keys()
        rules = schema.get("x-kubernetes-validations")
        options = (Pair("validations", _validations(rules)),) if rules else ()
        return Class(name, base, schema.get("description", ""), fields, options, frozenset(refers))

    def _fields(self, schema: Schema, path: tuple[str, ...], *, of_kind: bool = False) -> tuple[ClassField, ...]:
        properties: Mapping[str, Schema] = schema.get("properties", {})
        names, required = field_names(properties, of_kind=of_kind), schema.get("required", ())
        return tuple(
            self._field(names[wire], wire, one, (*path, wire), required=wire in required)
            for wire, one in properties.items()
        )

    def _field(self, name: str, wire: str, schema: Schema, path: tuple[str, ...], *, required: bool) -> ClassField:
        of = self._type(schema, path)
        text = "" if _is_class(schema) else schema.get("description", "")
        default = self._value(of, schema, schema.get("default"))
        nullable = schema.get("nullable", False)
        if nullable and (default is not None or not required):
            of = _marked(of, {}, {"nullable": True})
        if default is not None:
            return ClassField(name, wire, _with(of, model.NONE) if nullable else of, default, text)
        if required:
            return ClassField(name, wire, _with(of, model.NONE) if nullable else of, None, text)
        if path == ("status",) and self._has_status and _is_class(schema) and not schema.get("required"):
            return ClassField(name, wire, of, model.flat(CallExpr(_bare(of), ())), text)
        if _bare(of) == model.OPAQUE:
            return ClassField(name, wire, _with(of, "msgspec.UnsetType"), model.UNSET, text)
        if nullable:
            return ClassField(name, wire, _with(of, model.NONE), model.NONE, text)
        empty = {"array": model.EMPTY_LIST, "object": model.EMPTY_MAP}.get(schema.get("type", ""), model.NONE)
        if empty == model.NONE or _is_class(schema):
            return ClassField(name, wire, _with(of, model.NONE), model.NONE, text)
        return ClassField(name, wire, of, empty, text)

    def _type(self, schema: Schema, path: tuple[str, ...]) -> Expr:
        """Return the type of values that fit a schema, with its limits."""
        of, limits, extra = self._unlimited(schema, path)
        own = dict(extra)
        marks: list[Expr] = []
        listed = {name: own.pop(f"x-kubernetes-list-{name}", None) for name in ("type", "map-keys")}
        if listed["type"] and of != model.list_of("Condition"):
            keys = (Pair("keys", model.literal(listed["map-keys"])),) if listed["map-keys"] else ()
            marks.append(CallExpr("ListType", (Text(listed["type"]), *keys)))
        rules = own.pop("x-kubernetes-validations", None)
        if rules and not _is_class(schema):
            marks += _validations(rules).items
        return model.annotated(_marked(of, limits, own), *marks)

    def _unlimited(self, schema: Schema, path: tuple[str, ...]) -> tuple[Expr, Schema, Schema]:
        """Return the type of values, the limits that msgspec checks, and its other keywords."""
        if _is_class(schema):
            return self._object(schema, path), *constraints(schema, "")
        if "enum" in schema and enumerated(schema):
            return enumerated(schema), *constraints(schema, "")
        limits, extra = constraints(schema, scalar(schema) or schema["type"])
        if extra.get("pattern") == _QUANTITY and scalar(schema) == "IntOrString":
            del extra["pattern"]
            return "Quantity", limits, extra
        if scalar(schema):
            return scalar(schema), limits, extra
        if schema["type"] == "array":
            return self._list(schema, path), limits, extra
        values = schema["additionalProperties"]
        return model.map_of(self._item(values, path) if isinstance(values, Mapping) else model.OPAQUE), limits, extra

    def _list(self, schema: Schema, path: tuple[str, ...]) -> Expr:
        items = schema.get("items", {})
        is_condition = items.get("properties", {}).keys() == _CONDITION.keys() and len(items.get("required", ())) == 5
        if is_condition and schema.get("x-kubernetes-list-map-keys") == ["type"]:
            return model.list_of("Condition")
        return model.list_of(self._item(items, path))

    def _item(self, schema: Schema, path: tuple[str, ...]) -> Expr:
        of = self._type(schema, path)
        text = "" if _is_class(schema) else " ".join(schema.get("description", "").split())
        if schema.get("nullable"):
            of = _with(_marked(of, {}, {"nullable": True}), model.NONE)
        return _marked(of, {"description": text} if text else {}, {})

    def _object(self, schema: Schema, path: tuple[str, ...]) -> str:
        """Return the name of the class of an object, and make the class when there is none."""
        key = (path[-1], msgspec.json.encode(schema, order="deterministic"))
        if key not in self._shared:
            candidates = (class_name(self._prefix, *path[-count:]) for count in range(1, len(path) + 1))
            numbered = (class_name(self._prefix, *path, str(count)) for count in range(2, 1000))
            name = next(one for some in (candidates, numbered) for one in some if one not in self._found)
            self._shared[key] = name
            # The name is taken before those of the classes inside.
            self._found[name] = Class(name, "Object", "", ())
            self._found[name] = self._class(name, "Object", schema, self._fields(schema, path))
        return self._shared[key]

    def _value(self, of: Expr, schema: Schema, value: Any) -> Expr | None:
        """Return a default as an expression; None where there is none, or none that the class can have."""
        if value is None:
            return None
        bare = _bare(of)
        if _is_class(schema):
            return self._made(bare, schema, value)
        if bare == model.OPAQUE:
            return CallExpr("msgspec.Raw", (repr(msgspec.json.encode(value)),))
        if bare == "datetime":
            return CallExpr("datetime.fromisoformat", (Text(value),))
        if bare == "bytes":
            return repr(b64decode(value))
        items, values = schema.get("items"), schema.get("additionalProperties")
        if isinstance(value, list) and items and items.get("type") in ("array", "object"):
            return CallExpr("", tuple(self._value(_items_of(of)[0], items, one) or model.NONE for one in value))
        if isinstance(value, Mapping) and isinstance(values, Mapping):
            inner = _items_of(of)[1]
            return CallExpr("", tuple(Pair(model.flat(Text(name)), self._value(inner, values, one) or model.NONE, ": ")
                                  for name, one in value.items()), "{}")  # fmt: skip
        return model.literal(value)

    def _made(self, name: str, schema: Schema, value: Mapping[str, Any]) -> Expr | None:
        fields = _CONDITION
        if name != "Condition":
            fields = {field.wire: field for field in self._found[name].fields}
        if not isinstance(value, Mapping) or any(
            one.default is None and wire not in value for wire, one in fields.items()
        ):
            return None
        given = ((fields[wire], schema["properties"][wire], one) for wire, one in value.items() if wire in fields)
        return CallExpr(name, tuple(Pair(field.name, self._value(field.type, inner, one) or model.NONE)
                                for field, inner, one in given))  # fmt: skip


_QUANTITY = Quantity.__metadata__[0].extra_json_schema["pattern"]  # type: ignore[attr-defined]  # an Annotated


def _without_nulls(value: Any) -> Any:
    """Return a part of a definition without the members that are null, which are absent; values stay as they are."""
    match value:
        case Mapping():
            some = {name: one for name, one in value.items() if one is not None}
            return {name: one if name in _VALUES else _without_nulls(one) for name, one in some.items()}
        case list():
            return [_without_nulls(one) for one in value]
    return value


def _is_class(schema: Schema) -> bool:
    return schema.get("type") == "object" and not is_opaque(schema) and not schema.get("additionalProperties")


def _without_type_meta(schema: Schema) -> dict[str, Schema]:
    return {name: one for name, one in schema.get("properties", {}).items() if name not in _TYPE_META}


def _bare(of: Expr) -> str:
    """Return a type without marks and alternatives, as text."""
    while True:
        match of:
            case CallExpr("Annotated", (inner, *_)):
                of = inner
            case model.Either((inner, *_)):
                of = inner
            case _:
                return model.flat(of)


def _items_of(of: Expr) -> tuple[Expr, ...]:
    while isinstance(of, CallExpr) and of.head == "Annotated":
        of = of.items[0]
    return of.items if isinstance(of, CallExpr) else (of, of)


def _with(of: Expr, other: Expr) -> Expr:
    """Return a type or another. Marks stay with the first: msgspec takes limits of None for a mistake."""
    return model.Either((of, other))


def _marked(of: Expr, limits: Mapping[str, Any], extra: Mapping[str, Any]) -> Expr:
    """Return a type with the schema's further constraints, if any."""
    given = [Pair(name, model.literal(one)) for name, one in limits.items()]
    if extra:
        given.append(Pair("extra_json_schema", model.literal(extra)))
    return model.annotated(of, CallExpr("msgspec.Meta", tuple(given))) if given else of


def _validations(rules: Iterable[Mapping[str, Any]]) -> CallExpr:
    return CallExpr("", tuple(_validation(one) for one in rules))


def _validation(rule: Mapping[str, Any]) -> CallExpr:
    rest = {field_name(name): said for name, said in rule.items() if name != "rule"}
    given = (Pair(name, model.literal(said)) for name, said in rest.items())
    return CallExpr("Validation", (Text(rule["rule"]), *given))


def _kind_keywords(
    name: str, spec: Mapping[str, Any], version: Mapping[str, Any], schema: Schema, *, several: bool
) -> tuple[Pair, ...]:
    """Return the keywords of the class of a kind."""
    names = spec["names"]
    found = {
        "kind": names["kind"] if names["kind"] != name else "",
        "api_version": f"{spec['group']}/{version['name']}",
        "plural": names["plural"],
        "singular": "" if names.get("singular", "") in ("", names["kind"].lower()) else names["singular"],
        "short_names": names.get("shortNames"),
        "categories": names.get("categories"),
        "selectable_fields": [one["jsonPath"] for one in version.get("selectableFields", ())],
    }
    return (*model.keywords(found), *_more_keywords(spec, version, schema, several=several))


def _more_keywords(
    spec: Mapping[str, Any], version: Mapping[str, Any], schema: Schema, *, several: bool
) -> Iterator[Pair]:
    if spec.get("scope") == "Cluster":
        yield Pair("namespaced", "False")
    if version.get("additionalPrinterColumns"):
        yield Pair("columns", CallExpr("", tuple(_column(one) for one in version["additionalPrinterColumns"])))
    scale = (version.get("subresources") or {}).get("scale")
    if scale:
        paths = ("spec", "specReplicasPath"), ("status", "statusReplicasPath"), ("selector", "labelSelectorPath")
        given = (Pair(f"{word}_path", Text(scale[path])) for word, path in paths if scale.get(path))
        yield Pair("scale", CallExpr("ScaleSubresource", tuple(given)))
    if schema.get("x-kubernetes-validations"):
        yield Pair("validations", _validations(schema["x-kubernetes-validations"]))
    if several and version["storage"]:
        yield Pair("storage", "True")
    if not version.get("served", True):
        yield Pair("served", "False")
    if version.get("deprecated"):
        yield Pair("deprecation_warning", Text(version.get("deprecationWarning") or ""))


def _column(column: Mapping[str, Any]) -> CallExpr:
    rest = {name: column.get(name) for name in ("type", "description", "priority", "format") if column.get(name)}
    return CallExpr("PrinterColumn", (Text(column["name"]), Text(column["jsonPath"]), *model.keywords(rest)))
