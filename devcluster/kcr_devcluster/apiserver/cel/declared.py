"""The types that a structural schema declares for expressions, with the sizes that their values may have.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/cel/common/schemas.go, SchemaDeclType; pkg/cel/{types,limits}.go.
"""

from collections.abc import Mapping

from kcr_devcluster.apiserver.cel.escaping import RESERVED, escape
from kcr_devcluster.apiserver.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    CelType,
    list_of,
    map_of,
)
from kcr_devcluster.apiserver.schema.extensions import EMBEDDED, INT_OR_STRING, Schema

REQUEST_BYTES = 3 * 1024 * 1024
# Least bytes in a request, and most characters, of texts with a format.
_FORMATTED: Mapping[str, tuple[CelType, int, int]] = {
    "duration": (DURATION, 3, 32), "date": (TIMESTAMP, 12, 12), "date-time": (TIMESTAMP, 21, 32),
}  # fmt: skip
_SCALARS: Mapping[str, tuple[CelType, int]] = {"boolean": (BOOL, 4), "number": (DOUBLE, 1), "integer": (INT, 1)}
_ANY_TEXT: Schema = {"type": "string"}
_META: Schema = {"type": "object", "properties": {"name": _ANY_TEXT, "generateName": _ANY_TEXT}}


class Declared:
    """The type of the values of a schema; what is in them is looked at when it is asked for.

    Attributes:
        type: The type; objects are named by their place.
        most: How many items, entries or characters a value may have; 0 where that means nothing.
        least_bytes: How many bytes a value takes in a request at least.
        item: Of a list's items or a map's entries.
    """

    def __init__(
        self,
        of: CelType,
        most: int = 0,
        least_bytes: int = 1,
        *,
        item: "Declared | None" = None,
        schema: Schema | None = None,
    ) -> None:
        self.type, self.most, self.item = of, most, item
        self._least_bytes, self._schema = least_bytes, schema
        self._fields: dict[str, Declared | None] = {}
        self._names: Mapping[str, str] | None = None

    @property
    def key(self) -> "Declared | None":
        """The type of a map's keys."""
        return Declared(STRING, 0, 2) if self.type.kind == "map" else None

    @property
    def names(self) -> Mapping[str, str]:
        """The names of an object's fields, by those that expressions use."""
        if self._names is None:
            fields = (self._schema or {}).get("properties") or {}
            self._names = {escaped: name for name in fields if (escaped := escape(name))}
        return self._names

    @property
    def least_bytes(self) -> int:
        """How many bytes a value takes in a request at least."""
        if self._schema is None:
            return self._least_bytes
        fields, least = self._schema.get("properties") or {}, 2
        for name in self._schema.get("required") or ():
            found = _inner(fields.get(name), "")
            if found is not None and fields[name].get("default") is None:
                least += len(name.encode()) + found.least_bytes + 4
        return least

    def step(self, step: str) -> "Declared | None":
        """Return the type at a step of a path: `@items`, `@values`, `@keys` or the name of a field."""
        if step in ("@items", "@values"):
            return self.item
        return self.key if step == "@keys" else self.field(step)

    def field(self, escaped: str) -> "Declared | None":
        """Return the type of an object's field, by the name that expressions use; None for no such field."""
        if escaped not in self._fields:
            name = self.names.get(escaped)
            schema = None if name is None else (self._schema or {}).get("properties", {})[name]
            self._fields[escaped] = _inner(schema, f"{self.type.name}.{escaped}")
        return self._fields[escaped]


def with_metadata(schema: Schema) -> Schema:
    """Return the schema of a whole object, which has a kind, a version and a name whatever its schema says."""
    fields = schema.get("properties") or {}
    known = (fields.get("metadata") or {}).get("properties") or {}
    if all(name in known for name in _META["properties"]) and "kind" in fields and "apiVersion" in fields:
        return schema
    return {**schema, "properties": {**fields, "apiVersion": _ANY_TEXT, "kind": _ANY_TEXT, "metadata": _META}}


def declared(schema: Schema, *, is_root: bool = False, name: str = "selfType") -> Declared | None:
    """Return the type of a schema's values, None where it has none.

    Args:
        schema: The schema.
        is_root: Whether its values are whole objects.
        name: What its type is called if it is an object; what is in it is named after it.
    """
    if schema.get(INT_OR_STRING):
        return Declared(DYN, _most_characters(schema), 1)
    if is_root:
        schema = with_metadata(schema)
    match schema.get("type"):
        case "array":
            return _list(schema, name)
        case "object":
            return _object(schema, name)
        case "string":
            return _text(schema)
    found = _SCALARS.get(str(schema.get("type")))
    return None if found is None else Declared(found[0], 0, found[1])


def _inner(schema: object, name: str) -> Declared | None:
    if not isinstance(schema, Mapping):
        return None
    return declared(schema, is_root=bool(schema.get(EMBEDDED)), name=name)


def _list(schema: Schema, name: str) -> Declared | None:
    item = _inner(schema.get("items"), f"{name}.@idx")
    if item is None:
        return None
    bound = schema.get("maxItems")
    most = (REQUEST_BYTES - 2) // (item.least_bytes + 1) if bound is None else max(int(bound), 0)
    return Declared(list_of(item.type), most, 2, item=item)


def _object(schema: Schema, name: str) -> Declared | None:
    if not isinstance(schema.get("additionalProperties"), Mapping):
        return Declared(CelType("struct", name), schema=schema)
    entry = _inner(schema["additionalProperties"], f"{name}.@elem")
    if entry is None:
        return None
    bound = schema.get("maxProperties")
    most = (REQUEST_BYTES - 2) // (entry.least_bytes + 6) if bound is None else max(int(bound), 0)
    return Declared(map_of(STRING, entry.type), most, 2, item=entry)


def _text(schema: Schema) -> Declared:
    kind = schema.get("format", "")
    if (found := _FORMATTED.get(kind)) is not None:
        of, least, most = found
        return Declared(of, most, least)
    if kind == "byte":
        bound = schema.get("maxLength")
        return Declared(BYTES, REQUEST_BYTES - 2 if bound is None else max(int(bound), 0), 2)
    return Declared(STRING, _most_characters(schema), 2)


def _most_characters(schema: Schema) -> int:
    if (bound := schema.get("maxLength")) is not None:
        # A character takes up to four bytes.
        return max(int(bound), 0) * 4
    values = schema.get("enum")
    if values and not schema.get(INT_OR_STRING):
        return max((len(one.encode()) for one in values if isinstance(one, str)), default=0)
    return REQUEST_BYTES - 2


class DeclaredTypes:
    """The types of objects that an environment knows.

    Attributes:
        constructs: Whether expressions construct objects: of the type `Object` and those below it, and `JSONPatch`.
    """

    def __init__(
        self,
        roots: Mapping[str, Declared],
        *,
        fixed: Mapping[str, Mapping[str, CelType]] | None = None,
        constructs: bool = False,
    ) -> None:
        """Know the types that variables have.

        Args:
            roots: Declared types, by the names of the variables.
            fixed: The types of fields, by their names, of types that no schema declares.
            constructs: Whether expressions construct objects.
        """
        self.constructs = constructs
        self._fixed = fixed or {}
        self._known: dict[str, Declared] = {}
        for root in roots.values():
            self._keep(root)

    def _keep(self, of: Declared) -> None:
        while of.item is not None:
            of = of.item
        if of.type.kind == "struct":
            self._known.setdefault(of.type.name, of)

    def field(self, type_name: str, field: str) -> CelType | None:
        """Return the type of a field of an object, None for a field that there is not.

        Args:
            type_name: The name of the object's type.
            field: The name of the field, as expressions write it.
        """
        if (fixed := self._fixed.get(type_name)) is not None:
            return fixed.get(field)
        if type_name == _PATCH:
            return _PATCH_FIELDS.get(field)
        if (known := self._known.get(type_name)) is None:
            return DYN if self.constructed(type_name) is not None else None
        found = known.field(field)
        if found is None and field in RESERVED:
            # Such fields are known by both names.
            found = known.field(escape(field))
        if found is None:
            return None
        self._keep(found)
        return found.type

    def constructed(self, type_name: str) -> CelType | None:
        """Return the type that an expression constructs by a name, None for no such type."""
        if self.constructs and (type_name in (_CONFIGURATION, _PATCH) or type_name.startswith(f"{_CONFIGURATION}.")):
            return CelType("struct", type_name)
        return None

    def property_name(self, type_name: str, field: str) -> str | None:
        """Return the name that a field has in an object of a schema, None for other objects: their nulls are values.

        Args:
            type_name: The name of the object's type.
            field: The name of the field, as expressions write it.
        """
        known = self._known.get(type_name)
        if known is None:
            return None
        return known.names.get(field) or known.names.get(escape(field))


_CONFIGURATION, _PATCH = "Object", "JSONPatch"
_PATCH_FIELDS: Mapping[str, CelType] = {"op": STRING, "path": STRING, "from": STRING, "value": DYN}
