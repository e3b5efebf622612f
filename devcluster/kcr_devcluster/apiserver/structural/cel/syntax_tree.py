"""Syntax trees of parsed expressions, rewritten into trees that the library can evaluate.

The library has neither types of ours nor lazy variables. So `Object.spec{replicas: 1}` becomes a map with an entry for
the type, and `variables.x` becomes a call that returns the variable's value when it is first needed.

Source: github.com/google/cel-spec/proto/cel/expr/syntax.proto; kubernetes/staging/src/k8s.io/apiserver/pkg/cel/
{lazy/lazy,mutation/typeresolver}.go.
"""

from collections.abc import Callable, Iterator
from itertools import count

from kcr_devcluster.apiserver.schema.protobuf import read_fields
from kcr_devcluster.apiserver.schema.protobuf_encoder import write_bytes, write_varint

# The entry of a constructed object that names its type; no field has such a name.
TYPE = "@type"
VARIABLES = "variables"
# The function that returns a variable, and the library's variable that identifies the evaluation.
VARIABLE_FUNCTION, EVALUATION = "variable__", "evaluation__"

# Numbers of fields in cel.expr's messages.
_ANY_VALUE, _EXPR = 2, 2
_ID, _CONSTANT, _IDENT, _SELECT, _CALL, _LIST, _STRUCT, _COMPREHENSION = 2, 3, 4, 5, 6, 7, 8, 9
_TEXT_CONSTANT = 6
# Where the expressions inside of one are, by its form.
_OPERANDS = {_SELECT: (1,), _CALL: (1, 3), _LIST: (1,), _COMPREHENSION: (2, 4, 5, 6, 7)}
_MESSAGE_NAME, _ENTRIES = 1, 2
_FIELD_KEY, _MAP_KEY, _VALUE = 2, 3, 4
# Above all ids of the parser.
_FIRST_ID = 1_000_000

Fields = list[tuple[int, int | bytes]]
Rule = Callable[[bytes], bytes]


def rewritten(serialized: bytes) -> bytes:
    """Return a parsed expression, as the library serializes it, without constructed types and lazy variables."""
    ids = count(_FIRST_ID)

    def parsed(data: bytes) -> bytes:
        return _mapped(data, {_EXPR: lambda one: _expr(one, ids)})

    return _mapped(serialized, {_ANY_VALUE: parsed})


def constructed_type(serialized: bytes) -> str | None:
    """Return the type of the objects that an expression constructs, such as `Object` or `list(JSONPatch)`.

    Returns:
        None where the tree does not show it.
    """
    parsed = dict(read_fields(_bytes(dict(read_fields(serialized))[_ANY_VALUE])))
    return _type_of(_bytes(parsed[_EXPR]))


def _bytes(value: int | bytes) -> bytes:
    return bytes(value) if not isinstance(value, int) else b""


def _write(fields: Fields) -> bytes:
    return b"".join(
        write_varint(number << 3) + write_varint(value) if isinstance(value, int) else write_bytes(number, bytes(value))
        for number, value in fields
    )


def _mapped(data: bytes, rules: dict[int, Rule]) -> bytes:
    """Return a message with some of its fields changed."""
    return _write([
        (number, rules[number](_bytes(value)) if number in rules else value) for number, value in read_fields(data)
    ])  # fmt: skip


def _expr(data: bytes, ids: Iterator[int]) -> bytes:
    fields: Fields = []
    for number, value in read_fields(data):
        if number == _SELECT and (name := _variable(_bytes(value))):
            fields.append((_CALL, _variable_call(name, ids)))
        elif number == _STRUCT:
            fields.append((number, _struct(_bytes(value), ids)))
        elif number in _OPERANDS:
            inner = dict.fromkeys(_OPERANDS[number], lambda one: _expr(one, ids))
            fields.append((number, _mapped(_bytes(value), inner)))
        else:
            fields.append((number, value))
    return _write(fields)


def _variable(select: bytes) -> str:
    """Return the variable that a selection names, `""` where it selects something else; `has` only tests."""
    fields = dict(read_fields(select))
    operand = dict(read_fields(_bytes(fields.get(1, b""))))
    ident = dict(read_fields(_bytes(operand.get(_IDENT, b""))))
    if fields.get(3) or _bytes(ident.get(1, b"")) != VARIABLES.encode():
        return ""
    return _bytes(fields[2]).decode()


def _variable_call(name: str, ids: Iterator[int]) -> bytes:
    evaluation = _write([(_ID, next(ids)), (_IDENT, write_bytes(1, EVALUATION.encode()))])
    return _write([(2, VARIABLE_FUNCTION.encode()), (3, evaluation), (3, _text(name, ids))])


def _text(text: str, ids: Iterator[int]) -> bytes:
    return _write([(_ID, next(ids)), (_CONSTANT, write_bytes(_TEXT_CONSTANT, text.encode()))])


def _struct(data: bytes, ids: Iterator[int]) -> bytes:
    """Return a map in place of a constructed object; maps stay maps."""
    name, entries = "", Fields()
    for number, value in read_fields(data):
        if number == _MESSAGE_NAME:
            name = _bytes(value).decode()
        elif number == _ENTRIES:
            entries.append((_ENTRIES, _entry(_bytes(value), ids)))
    if name:
        kind: Fields = [(1, next(ids)), (_MAP_KEY, _text(TYPE, ids)), (_VALUE, _text(name, ids))]
        entries.insert(0, (_ENTRIES, _write(kind)))
    return _write(entries)


def _entry(data: bytes, ids: Iterator[int]) -> bytes:
    fields: Fields = []
    for number, value in read_fields(data):
        if number == _FIELD_KEY:
            fields.append((_MAP_KEY, _text(_bytes(value).decode(), ids)))
        elif number in (_MAP_KEY, _VALUE):
            fields.append((number, _expr(_bytes(value), ids)))
        else:
            fields.append((number, value))
    return _write(fields)


def _type_of(expr: bytes) -> str | None:
    for number, value in read_fields(expr):
        inner = list(read_fields(_bytes(value)))
        match number:
            case _ if number == _STRUCT:
                return next((_bytes(one).decode() for at, one in inner if at == _MESSAGE_NAME), None)
            case _ if number == _LIST:
                item = next((_type_of(_bytes(one)) for at, one in inner if at == 1), None)
                return f"list({item})" if item else None
            case _ if number == _CALL:
                return _call_type(dict(inner).get(2), [_bytes(one) for at, one in inner if at == 3])
            case _ if number == _COMPREHENSION:
                return _type_of(_bytes(dict(inner)[6]))
    return None


def _call_type(function: int | bytes | None, arguments: list[bytes]) -> str | None:
    """Return the type of a choice or a sum, which is that of its parts."""
    if function is None or _bytes(function) not in (b"_?_:_", b"_+_"):
        return None
    return next((found for one in arguments if (found := _type_of(one))), None)
