"""Scalar types: strings, numbers, quantities, times, bytes.

Source: Go's encoding/json; kubernetes/staging/src/k8s.io/apimachinery/pkg/util/intstr, pkg/api/resource.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from kcr_devcluster.apiserver.protocol.gojson import kind_of
from kcr_devcluster.apiserver.schema.base64 import canonical_base64
from kcr_devcluster.apiserver.schema.quantities import SYNTAX, canonical, in_thousandths
from kcr_devcluster.apiserver.schema.shape import Type, TypeMismatchError, text_of
from kcr_devcluster.apiserver.schema.times import micro, whole_seconds
from kcr_devcluster.go_numbers import as_go_writes, with_go_numbers, without_texts


def _exactly(kind: type) -> Type:
    wanted = {str: "string", bool: "bool"}[kind]

    def conform(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeMismatchError.of(value, wanted)
        return value

    return Type(wanted, conform, kind, python=kind)


def _integer(wanted: str, least: int, most: int) -> Type:
    def conform(value: Any) -> Any:
        if type(value) is not int or not least <= value <= most:
            raise TypeMismatchError.of_number(value, wanted)
        return value

    return Type(wanted, conform, int)


def _text(name: str, rule: Callable[[str], str], wanted: str = "string") -> Type:
    def conform(value: Any) -> Any:
        if type(value) is not str:
            raise TypeMismatchError.of(value, wanted)
        return rule(value)

    return Type(name, conform)


_base64 = _text("[]uint8", canonical_base64, "[]uint8").conform


def _bytes(value: Any) -> Any:
    if type(value) is not list:
        return _base64(value)
    return b64encode(bytes(_BYTE.conform(one) for one in value)).decode()


def _float(value: Any) -> Any:
    if not isinstance(value, int | float) or type(value) is bool:
        raise TypeMismatchError.of(value, "float64")
    if not isfinite(value):
        raise TypeMismatchError.of_number(value, "float64")
    return as_go_writes(value if type(value) is int else float(value))


def _quantity(rule: Callable[[str], str]) -> Type:
    def conform(value: Any) -> Any:
        if type(value) is str:
            return rule(value.strip(" "))
        if kind_of(value) != "number":
            raise ValueError(SYNTAX)
        return rule(text_of(value))

    return Type("resource.Quantity", conform, lambda: "0")


def _int_or_string(value: Any) -> Any:
    return value if type(value) is str else _INT32.conform(value)


_BYTE, _INT32 = _integer("uint8", 0, 255), _integer("int32", -(2**31), 2**31 - 1)


def as_given(value: Any) -> Any:
    """Return a value as it is, one that needs no conforming."""
    return value


ANY = Type("interface {}", as_given, lambda: None)

SCALARS: Mapping[str, Type] = {
    # The values of resource lists.
    "amount": _quantity(in_thousandths),
    "any": ANY._replace(conform=without_texts),
    "bool": _exactly(bool),
    "bytes": Type("[]uint8", _bytes),
    "float64": Type("float64", _float, float),
    # Values that a schema holds.
    "json": ANY._replace(name="v1.JSON", conform=with_go_numbers),
    "int-or-string": Type("intstr.IntOrString", _int_or_string, int),
    "int32": _INT32,
    "int64": _integer("int64", -(2**63), 2**63 - 1),
    "microtime": _text("v1.MicroTime", micro),
    "quantity": _quantity(canonical),
    "string": _exactly(str),
    "time": _text("v1.Time", whole_seconds),
}
