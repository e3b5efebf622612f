"""Objects that a strategic merge patch leaves, read into the types of their fields.

Upstream's patch works on maps, and a converter reads the result: it takes whole numbers that are written with a
fraction for integers, cuts those that are too long, and refuses other values in words of its own.

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/runtime/converter.go, fromUnstructured.
"""

from typing import Any

import msgspec

from kcr_devcluster.apiserver.protocol.gojson import kind_of
from kcr_devcluster.apiserver.protocol.gotexts import go_kind
from kcr_devcluster.apiserver.schema.scalars import ANY
from kcr_devcluster.apiserver.schema.shape import Shape, Type
from kcr_devcluster.go_numbers import with_go_numbers

_BITS = {"int32": 32, "int64": 64}
_EXACT = {"string": str, "bool": bool}
_LONGEST = 1 << 63
# What unmarshallers of their own expect where a value is no text.
_UNMARSHALLED = {"v1.Time": "string", "v1.MicroTime": "string", "intstr.IntOrString": "int32"}


def read(value: Any, of: Type, text: str = "") -> Any:
    """Return a value as it is read into a type, changed in place where it can be.

    Args:
        value: The value.
        of: The type.
        text: The name of the type in Go, where that is another one than the type's own.

    Raises:
        ValueError: It cannot be read; the message is the converter's.
    """
    if type(value) is _EXACT.get(of.name) or value is None or of.name.startswith("v1.JSONSchemaPropsOr"):
        return value
    if of.shape is not None:
        return _read_fields(value, of.shape)
    if of.items is not None:
        return _read_items(value, of, of.items, text.partition("]")[2])
    if of.name in ("string", "bool", "int32", "int64", "float64"):
        return _read_scalar(value, of.name, text)
    if of.name == "[]uint8":
        return _read_bytes(value, of)
    return _unmarshalled(value, of)


def _read_fields(value: Any, shape: Shape) -> Any:
    if type(value) is not dict:
        raise ValueError(f"cannot restore struct from: {go_kind(value)}")
    fields = shape.fields
    try:
        for name, given in value.items():
            if (field := fields.get(name)) is not None:
                value[name] = read(given, field.type, field.go_type)
    except ValueError:
        # Of several, the first in the order of the fields is refused.
        for name, field in fields.items():
            if name in value:
                value[name] = read(value[name], field.type, field.go_type)
    return value


def _read_items(value: Any, of: Type, items: Type, text: str) -> Any:
    if type(value) is not of.zero:
        raise ValueError(f"cannot restore {'slice' if of.zero is list else 'map'} from {go_kind(value)}")
    for place in range(len(value)) if type(value) is list else value:
        value[place] = read(value[place], items, text)
    return value


def _read_scalar(value: Any, wanted: str, text: str) -> Any:
    found = type(value)
    if found is int and not -_LONGEST <= value < _LONGEST:
        found = float
    bits = _BITS.get(wanted, 0)
    if bits and (found is int or (found is float and float(value).is_integer())):
        return (int(value) + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
    if found is _EXACT.get(wanted) or (wanted == "float64" and found in (int, float)):
        return value
    if (found, wanted) == (int, "string") or (found is float and bits):
        raise ValueError(f"cannot convert {go_kind(value)} to {text or wanted}")
    raise ValueError(f"unrecognized type: {wanted}")


def _read_bytes(value: Any, of: Type) -> Any:
    if type(value) is not str:
        raise ValueError(f"cannot restore slice from {go_kind(value)}")
    try:
        return of.conform(value)
    except ValueError as error:
        raise ValueError(f"error decoding from json: {error}") from None


def _unmarshalled(value: Any, of: Type) -> Any:
    if of is ANY:
        return with_go_numbers(value)
    wanted = _UNMARSHALLED.get(of.name)
    if wanted is not None and type(value) is not str and (type(value) is not int or wanted == "string"):
        shown = f"number {msgspec.json.encode(value).decode()}" if wanted == "int32" and type(value) is float else ""
        raise ValueError(f"json: cannot unmarshal {shown or kind_of(value)} into Go value of type {wanted}")
    if wanted != "int32":
        # A refusal of these is the unmarshaller's own.
        of.conform(value)
    return value
