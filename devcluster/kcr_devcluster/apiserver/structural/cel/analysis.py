"""Fields that an expression selects and the schema does not have, and operators between values of different types.

The library takes objects with fields for maps of anything, so both would be found when a rule is evaluated. Here the
syntax tree of a compiled expression is walked beside the schema; where a type is unknown (of the results of most
functions, of most list and map literals), no error is reported.

Source: github.com/google/cel-go/checker/checker.go, checkSelectField; github.com/google/cel-spec/proto/cel/expr/
{syntax,checked}.proto; kubernetes/staging/src/k8s.io/apiserver/pkg/cel/common/schemas.go, SchemaDeclType.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from kcr.api.durations import parse_duration
from kcr_devcluster.apiserver.schema.patterns import compile_pattern
from kcr_devcluster.apiserver.schema.protobuf import read_fields
from kcr_devcluster.apiserver.structural.cel.costs import most_items
from kcr_devcluster.apiserver.structural.cel.values import escape, temporal, type_of
from kcr_devcluster.apiserver.structural.shapes import EMBEDDED, INT_OR_STRING, Schema

# Numbers of fields in cel.expr's messages.
_ANY_VALUE, _POSITIONS = 2, 4
# The tree and its positions, in an expression whose types are checked and in one that is only parsed.
_CHECKED, _PARSED = (4, 5), (2, 3)
_ID, _CONSTANT, _IDENT, _SELECT, _CALL, _LIST, _STRUCT, _COMPREHENSION = 2, 3, 4, 5, 6, 7, 8, 9
# The schema of values that may be of any type, as those of objects of any kind: unlike one of which nothing is known.
DYN: Schema = {"x-kcr-any-type": True}
_TEXT: Schema = {"type": "string"}
_METADATA: Schema = {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}}
_RESOURCE: Mapping[str, Schema] = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": _METADATA}

# Operators whose two sides have one type; numbers of different types can be compared, though not for equality.
_OPERATORS = frozenset({"_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "_+_", "_-_", "_*_", "_/_", "_%_"})
_COMPARED = frozenset({"_<_", "_<=_", "_>_", "_>=_"})
_SCALARS = frozenset({"int", "double", "string", "bool"})
# The types of constants, by their numbers in the message.
_CONSTANTS: Mapping[int, Schema] = {
    2: {"type": "boolean"}, 3: {"type": "integer"}, 5: {"type": "number"}, 6: _TEXT,
}  # fmt: skip

# Stands for how often something is done that may be done without end.
BOUNDLESS = 10**18
# Functions whose result is about as long as their receiver, and those that read a field or an entry.
_BOUNDED = frozenset({"lowerAscii", "upperAscii", "substring", "trim", "replace", "split", "join", "find", "findAll"})
_ACCESS = frozenset({"_[_]", "_?._", "_[?_]", "orValue", "value"})
_TEXT_TYPES = frozenset({"string"})
_NO_SUMMANDS = frozenset({"string", "bool", "bytes"})


def _check_moment(text: str) -> None:
    if not isinstance(temporal(text), datetime):
        raise ValueError(text)


# The checks of constant arguments by function: `matches` has a pattern.
_LITERALS: Mapping[str, Callable[[str], object]] = {
    "matches": compile_pattern, "duration": parse_duration, "timestamp": _check_moment,
}  # fmt: skip

Message = dict[int, list[Any]]


class _Found(NamedTuple):
    """One error, with the id of its expression."""

    expression: int
    error: str


class Analysis(NamedTuple):
    """The result of walking an expression's tree.

    Attributes:
        errors: Its errors, with cel-go's messages.
        rounds: The rounds of its macros.
        schema: The schema of its value, None where it is not known.
    """

    errors: list[str]
    rounds: int
    schema: Schema | None


def analyse(serialized: bytes, text: str, scope: Mapping[str, Schema | None], *, is_root: bool = False) -> Analysis:
    """Walk through an expression.

    Args:
        serialized: The compiled expression, as the library serializes it.
        text: The expression.
        scope: The schemas of the variables.
        is_root: Whether they are whole objects, which have a kind and metadata.
    """
    tree = _message(_message(serialized)[_ANY_VALUE][0])
    expr, source = _CHECKED if _CHECKED[0] in tree else _PARSED
    known = {name: _as_resource(schema) if is_root and schema else schema for name, schema in scope.items()}
    walk = _Walk()
    schema = walk.infer(_message(tree[expr][0]), known)
    entries = (_message(entry) for entry in _message(tree[source][0]).get(_POSITIONS, ()))
    positions = {entry.get(1, [0])[0]: entry.get(2, [0])[0] for entry in entries}
    found = sorted((positions.get(one.expression, 0), one.error) for one in walk.found)
    return Analysis([error_at(text, offset, error) for offset, error in found], walk.rounds, schema)


def error_at(text: str, offset: int, words: str) -> str:
    """Return an error as cel-go shows it, with the line that it is in."""
    before = text[:offset]
    line, column = before.count("\n") + 1, offset - (before.rfind("\n") + 1)
    shown = text.split("\n")[line - 1]
    return f"ERROR: <input>:{line}:{column + 1}: {words}\n | {shown}\n | {'.' * column}^"


def _message(data: Any) -> Message:
    found: Message = {}
    for number, value in read_fields(data):
        found.setdefault(number, []).append(value)
    return found


def _text(message: Message, number: int) -> str:
    return bytes(message[number][0]).decode() if number in message else ""


def _as_resource(schema: Schema) -> Schema:
    return {**schema, "properties": {**(schema.get("properties") or {}), **_RESOURCE}}


def _entry(schema: Schema | None) -> Schema | None:
    """Return the schema of the items of a list or of the entries of a map."""
    if schema is DYN:
        return DYN
    inner = None if schema is None else schema.get("items") or schema.get("additionalProperties")
    return inner if isinstance(inner, Mapping) else None


class _Walk:
    """One walk through an expression; schemas are None where nothing is known."""

    def __init__(self) -> None:
        self.found: list[_Found] = []
        self.rounds = 1
        # How often the expression at hand is evaluated.
        self._times = 1
        # Whether literals may have items of different types here: those that `format` shows.
        self._is_formatted = False

    def infer(self, expr: Message, scope: Mapping[str, Schema | None]) -> Schema | None:
        """Return the schema of an expression's value, and add the fields that are not there."""
        if _IDENT in expr:
            return scope.get(_text(_message(expr[_IDENT][0]), 1))
        if _SELECT in expr:
            select = _message(expr[_SELECT][0])
            return self._select(expr, self._operand(select, scope), _text(select, 2))
        if _CALL in expr:
            return self._call(expr, _message(expr[_CALL][0]), scope)
        if _COMPREHENSION in expr:
            return self._comprehension(_message(expr[_COMPREHENSION][0]), scope)
        if _LIST in expr or _STRUCT in expr:
            return self._literal(expr, scope)
        constant = _message(expr[_CONSTANT][0]) if _CONSTANT in expr else {}
        return next((_CONSTANTS[number] for number in constant if number in _CONSTANTS), None)

    def _literal(self, expr: Message, scope: Mapping[str, Schema | None]) -> Schema | None:
        """Return the schema of a list or a map literal, whose items, keys and values have one type each.

        Source: github.com/google/cel-go/cel/validator.go, homogeneousAggregateLiteralValidator.
        """
        groups = [[(one, self.infer(one, scope)) for one in group] for group in _literals(expr)]
        is_object = _STRUCT in expr and bool(_text(_message(expr[_STRUCT][0]), 1))
        for group in [] if is_object or self._is_formatted else groups:
            self._check_same([(inner, kind) for inner, schema in group if (kind := _known_type(schema))])
        items = [schema for _, schema in groups[0]] if _LIST in expr else []
        is_known = bool(items) and all(one is not None and one == items[0] for one in items)
        return {"type": "array", "items": items[0]} if is_known else None

    def _check_same(self, found: Sequence[tuple[Message, str]]) -> None:
        for inner, kind in found[1:]:
            if kind != found[0][1]:
                words = f"expected type '{found[0][1]}' but found '{kind}'"
                self.found.append(_Found(inner.get(_ID, [0])[0], words))
                return

    def _operand(self, select: Message, scope: Mapping[str, Schema | None]) -> Schema | None:
        return self.infer(_message(select[1][0]), scope) if 1 in select else None

    def _select(self, expr: Message, schema: Schema | None, field: str) -> Schema | None:
        if schema is DYN:
            return DYN
        if schema is None or schema.get(INT_OR_STRING) or schema.get("type") != "object":
            return None
        fields, other = schema.get("properties") or {}, schema.get("additionalProperties")
        if other is not None and not fields:
            return other if isinstance(other, Mapping) else None
        if schema.get(EMBEDDED):
            fields = {**fields, **_RESOURCE}
        known = {escape(name): one for name, one in fields.items()} | dict(fields)
        if field in known:
            found: Schema = known[field]
            return found
        self.found.append(_Found(expr.get(_ID, [0])[0], f"undefined field '{field}'"))
        return None

    def _check_operator(self, expr: Message, operator: str, schemas: Sequence[Schema | None]) -> None:
        types = [type_of(schema) if schema else "dyn" for schema in schemas]
        if len(types) != 2 or types[0] == types[1] or not _SCALARS.issuperset(types):
            return
        if operator in _COMPARED and "string" not in types and "bool" not in types:
            return
        words = f"found no matching overload for '{operator}' applied to '({types[0]}, {types[1]})'"
        self.found.append(_Found(expr.get(_ID, [0])[0], words))

    def _call(self, expr: Message, call: Message, scope: Mapping[str, Schema | None]) -> Schema | None:
        target = self.infer(_message(call[1][0]), scope) if 1 in call else None
        arguments = [_message(one) for one in call.get(3, ())]
        function = _text(call, 2)
        self._is_formatted, outer = self._is_formatted or function == "format", self._is_formatted
        schemas = [self.infer(one, scope) for one in arguments]
        self._is_formatted = outer
        if function in _OPERATORS:
            self._check_operator(expr, function, schemas)
        if function == "_+_" and _TEXT_TYPES.issuperset(one.get("type") for one in schemas if one) and any(schemas):
            if any(map(_is_unbounded, arguments)):
                self.rounds += self._times * BOUNDLESS
        elif function == "sum" and _entry(target) is not None and type_of(_entry(target) or {}) in _NO_SUMMANDS:
            words = f"found no matching overload for 'sum' applied to '{type_of(target or {})}.()'"
            self.found.append(_Found(expr.get(_ID, [0])[0], words))
        self._check_literal(function, arguments)
        match function:
            case "_[_]":
                return _entry(schemas[0])
            case "_?._":
                return self._select(expr, schemas[0], _constant(arguments[1]))
            case "_?_:_":
                return _choice(schemas[1], schemas[2])
            case "orValue" | "value":
                return target
            case "string" | "format":
                return _TEXT
        return None

    def _check_literal(self, function: str, arguments: Sequence[Message]) -> None:
        """Check a constant that a function would refuse whenever it is called.

        Source: github.com/google/cel-go/cel/validator.go, formatValidator.
        """
        rule = _LITERALS.get(function)
        if rule is None or not arguments or not (text := _constant(arguments[-1])):
            return
        try:
            rule(text)
        except ValueError:
            self.found.append(_Found(arguments[-1].get(_ID, [0])[0], f"invalid {function} argument"))

    def _comprehension(self, body: Message, scope: Mapping[str, Schema | None]) -> Schema | None:
        ranged = self.infer(_message(body[2][0]), scope)
        is_map = ranged is not None and ranged.get("type") == "object"
        first = _TEXT if is_map else _entry(ranged)
        inner = {**scope, _text(body, 1): first, _text(body, 3): None}
        if 8 in body:
            inner |= {_text(body, 1): None, _text(body, 8): _entry(ranged)}
        times = self._times
        if ranged is not None and ranged is not DYN:
            self._times *= max(most_items(ranged), 1)
            self.rounds += self._times
        for number in (4, 5, 6, 7):
            if number in body:
                self.infer(_message(body[number][0]), inner)
        self._times = times
        # `filter` is the macro that adds the items it ranges over to a list, on a condition.
        step, start = _message(body[6][0]), _message(body[4][0])
        is_filter = _LIST in start and _CALL in step and _text(_message(step[_CALL][0]), 2) == "_?_:_"
        if is_filter and ranged is DYN:
            return {"type": "array", "items": DYN}
        return ranged if is_filter and not is_map else None


def _choice(one: Schema | None, other: Schema | None) -> Schema | None:
    """Return the schema of a value that is one of two."""
    if one is DYN or other is DYN:
        return DYN
    return one if one == other else None


def _known_type(schema: Schema | None) -> str:
    """Return the type of a schema's values, `""` where some of it is not known."""
    if schema is None or schema is DYN:
        return "dyn" if schema is DYN else ""
    found = type_of(schema)
    return "" if "dyn" in found else found


def _is_unbounded(expr: Message) -> bool:
    """Return whether the length of a text is unknown to upstream's estimator: that of most functions' results.

    Source: github.com/google/cel-go/checker/cost.go, functionCost; kubernetes/staging/src/k8s.io/apiserver/pkg/cel/
    library/cost.go, EstimateCallCost.
    """
    if _CALL not in expr:
        return False
    call = _message(expr[_CALL][0])
    function, arguments = _text(call, 2), [_message(one) for one in call.get(3, ())]
    target = [_message(call[1][0])] if 1 in call else []
    if function in ("_+_", "dyn"):
        return any(map(_is_unbounded, arguments))
    if function == "_?_:_":
        return any(map(_is_unbounded, arguments[1:]))
    return any(map(_is_unbounded, target)) if function in _BOUNDED else function not in _ACCESS


def _literals(expr: Message) -> Iterator[list[Message]]:
    """Yield the items of a list literal, or the keys and the values of a map literal."""
    if _LIST in expr:
        yield [_message(one) for one in _message(expr[_LIST][0]).get(1, ())]
        return
    entries = [_message(entry) for entry in _message(expr[_STRUCT][0]).get(2, ())]
    for number in (3, 4):
        yield [_message(entry[number][0]) for entry in entries if number in entry]


def _constant(expr: Message) -> str:
    # Of the kinds of constants, texts are number 6.
    return _text(_message(expr[_CONSTANT][0]), 6) if _CONSTANT in expr else ""
