"""Upstream's own table of rules, read from a checkout of Kubernetes that `KUBERNETES_SOURCE` names.

Nothing of it is kept: a small reader takes the literals of `TestValidationExpressions` from the Go source at run time,
and each rule is evaluated by our validation. Costs of evaluation, which some rows also tell, are not compared.

Source: apiextensions-apiserver/pkg/apiserver/schema/cel/validation_test.go.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kcr_devcluster.apiserver.schema.shape import ABSENT
from kcr_devcluster.apiserver.structural.rules import compile_rules, definition_errors

VARIABLE = "KUBERNETES_SOURCE"
_FILE = "pkg/apiserver/schema/cel/validation_test.go"
# Where it is in a checkout of kubernetes, and of kubernetes/apiextensions-apiserver.
_FOLDERS = ("staging/src/k8s.io/apiextensions-apiserver", "")
_TABLE = re.compile(r"func TestValidationExpressions\(.*?\n\t}(?=\{)", re.DOTALL)
_TOKEN = re.compile(
    r"""//[^\n]*|\s+|(?P<raw>`[^`]*`)|(?P<text>"(?:\\.|[^"\\])*")|(?P<number>\d[\d.eE+x_]*)|(?P<name>[A-Za-z_][\w.]*)
    |(?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
# What the message about a definition that is refused shows of a rule; the table compiles rules without definitions.
_REFUSED = re.compile(r'Invalid value: \{"Rule":.*"OptionalOldSelf":\w+\}: ', re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|(.))")


class Row(NamedTuple):
    """One rule of the table.

    Attributes:
        name: The name of its test.
        schema: The schema, without the rule.
        rule: The rule.
        value: The value, and the old one where there is one.
        old: The old value, ABSENT for none.
        error: What each error contains, None where there is none.
        is_root: Whether the schema is that of a whole object.
    """

    name: str
    schema: dict[str, Any]
    rule: str
    value: Any
    old: Any
    error: str | None
    is_root: bool


def rows(source: Path) -> list[Row]:
    """Return the rows of the table.

    Args:
        source: The checkout.

    Raises:
        FileNotFoundError: It has no such table.
    """
    files = [file for folder in _FOLDERS if (file := source / folder / _FILE).is_file()]
    if not files:
        raise FileNotFoundError(f"{VARIABLE} names {source}, which has no {_FILE}")
    text = files[0].read_text(encoding="utf-8")
    head = _TABLE.search(text)
    if head is None:
        raise FileNotFoundError(f"{files[0]} has no table TestValidationExpressions")
    return [row for test in _Reader(text[head.end() :]).value() for row in _rows(test)]


def _rows(test: Mapping[str, Any]) -> Iterator[Row]:
    schema, value = test["schema"], test["obj"]
    old, is_root = test.get("oldObj", ABSENT), test.get("isRoot", False)
    for rule in test.get("valid", ()):
        yield Row(test["name"], schema, rule, value, old, None, is_root)
    for rule, error in test.get("errors", {}).items():
        yield Row(test["name"], schema, rule, value, old, error, is_root)


def difference(row: Row) -> str:
    """Return how our errors of a row differ from upstream's, `""` for not at all."""
    rule = {"rule": row.rule} | ({"message": "lines"} if "\n" in row.rule else {})
    schema = row.schema | {"x-kubernetes-validations": [rule]}
    value, old = row.value, row.old
    if not row.is_root:
        schema, value = {"type": "object", "properties": {"root": schema}}, {"root": value}
        old = ABSENT if old is ABSENT else {"root": old}
    # What an estimate of costs says is not asked.
    errors = [error for error in definition_errors(schema, "schema") if error.reason != "FieldValueForbidden"]
    told = [_REFUSED.sub("rule compile error: ", error.message) for error in errors]
    if not errors and (check := compile_rules(schema)) is not None:
        errors = check(value, old).errors
        told = [error.message for error in errors]
    if row.error is None:
        return "; ".join(told)
    if not told:
        return f"accepted, not refused with {row.error!r}"
    return "; ".join(one for one in told if row.error not in one)


class _Reader:
    """Reads one literal of Go, and calls the helpers of the table by their names."""

    def __init__(self, text: str) -> None:
        self._tokens = ((one.lastgroup or "", one[0]) for one in _TOKEN.finditer(text) if one.lastgroup)
        self._next = next(self._tokens)

    def value(self) -> Any:
        """Return the value of an expression."""
        kind, text = self._take()
        match kind:
            case "raw":
                return text[1:-1]
            case "text":
                return _ESCAPE.sub(_unescaped, text[1:-1])
            case "number":
                return int(text) if text.isdigit() else float(text)
            case "name" if text == "map":
                self._type_behind_map()
                return self._braces() or {}
            case "name":
                # The name of a field is its own value.
                return text if self._next[1] == ":" else self._named(text)
        if text == "[":
            self._expect("]")
            self._type()
            return self._braces()
        if text == "{":
            return _structural(self._inside_braces())
        if text == "-":
            return -self.value()
        assert text == "&", text
        return self.value()

    def _take(self) -> tuple[str, str]:
        taken, self._next = self._next, next(self._tokens, ("", ""))
        return taken

    def _expect(self, mark: str) -> None:
        _, text = self._take()
        assert text == mark, f"{mark!r} expected, not {text!r}"

    def _has(self, mark: str) -> bool:
        if self._next[1] == mark:
            self._take()
            return True
        return False

    def _type(self) -> None:
        _, text = self._take()
        if text == "[":
            self._expect("]")
            self._type()
        elif text == "*":
            self._type()
        elif text == "map":
            self._type_behind_map()
        elif text == "interface":
            self._expect("{")
            self._expect("}")

    def _type_behind_map(self) -> None:
        self._expect("[")
        self._type()
        self._expect("]")
        self._type()

    def _braces(self) -> Any:
        self._expect("{")
        return self._inside_braces()

    def _inside_braces(self) -> Any:
        """Return a dict of what has keys, else a list."""
        entries: dict[Any, Any] = {}
        items: list[Any] = []
        while not self._has("}"):
            one = self.value()
            if self._has(":"):
                entries[one] = self.value()
            else:
                items.append(one)
            self._has(",")
        return entries or items

    def _named(self, name: str) -> Any:
        if self._has("("):
            arguments = []
            while not self._has(")"):
                arguments.append(self.value())
                self._has(",")
            return _CALLS[name](*arguments)
        if self._has("{"):
            return _structural(self._inside_braces())
        return _CONSTANTS[name]


def _unescaped(found: re.Match[str]) -> str:
    for group, base in ((1, 16), (2, 16), (3, 16), (4, 8)):
        if found[group]:
            return chr(int(found[group], base))
    return _ESCAPES.get(found[5], found[5])


def _structural(found: Any) -> Any:
    """Return the schema of a struct that is one; its type is left out where it is that of all elements."""
    return _schema_of(found) if isinstance(found, dict) and found.keys() & {"Generic", "Extensions"} else found


def _schema_of(struct: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a struct, whose fields are named as in Go."""
    found: dict[str, Any] = {}
    for name, value in struct.items():
        match name:
            case "Generic" | "ValueValidation" | "Extensions":
                found |= _schema_of(value)
            case "Properties" | "Items":
                found[name.lower()] = value
            case "Enum":
                found["enum"] = [one["Object"] for one in value]
            case "XPreserveUnknownFields" | "XEmbeddedResource":
                found["x-kubernetes-" + re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name[1:]).lower()] = value
            case _:
                assert name == "Type", name
                found["type"] = value
    return found


def _object_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


def _list_of(items: Any, list_type: str = "atomic", **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, "x-kubernetes-list-type": list_type, **more}


def _numbered(*values: Any) -> dict[str, Any]:
    return {f"val{number}": value for number, value in enumerate(values, 1)}


def _literal(first: str, second: str, literal: str) -> str:
    return f"{first} == {literal} && {literal} == {first} && {first} == {second}"


# What the helpers of the table do.
_CALLS: dict[str, Callable[..., Any]] = {
    "objs": _numbered,
    "schemas": lambda *values: _object_of(_numbered(*values)),
    "objectType": _object_of,
    "listType": _list_of,
    "listSetType": lambda items: _list_of(items, "set"),
    "listMapType": lambda keys, items: _list_of(items, "map", **{"x-kubernetes-list-map-keys": keys}),
    "mapType": lambda values: {"type": "object", "additionalProperties": values},
    "intOrStringType": lambda: {"x-kubernetes-int-or-string": True},
    "withNullable": lambda nullable, schema: schema | {"nullable": nullable},
    "withDefault": lambda value, schema: schema | {"default": value},
    "nilInterfaceOfStringSlice": lambda: None,
    "ValsEqualThemselvesAndDataLiteral": _literal,
    "fmt.Sprintf": lambda form, *values: form.replace("%v", "%s") % values,
    "int32": int, "int64": int, "float32": float, "float64": float,
}  # fmt: skip
_CALLS |= {f"{name}Ptr": _CALLS[name] for name in ("objectType", "listType", "listMapType", "mapType", "withNullable")}
_CONSTANTS: dict[str, Any] = {
    "nil": None, "true": True, "false": False, "math.MaxInt32": (1 << 31) - 1, "math.MaxInt64": (1 << 63) - 1,
    "math.MaxFloat32": float.fromhex("0x1.fffffep+127"), "math.MaxFloat64": float.fromhex("0x1.fffffffffffffp+1023"),
} | {
    name: {"type": kind} | ({"format": form} if form else {})
    for name, kind, form in (
        ("integerType", "integer", ""), ("int32Type", "integer", "int32"), ("int64Type", "integer", "int64"),
        ("numberType", "number", ""), ("floatType", "number", "float"), ("doubleType", "number", "double"),
        ("stringType", "string", ""), ("byteType", "string", "byte"), ("booleanType", "boolean", ""),
        ("durationFormat", "string", "duration"), ("dateFormat", "string", "date"),
        ("dateTimeFormat", "string", "date-time"),
    )
}  # fmt: skip
