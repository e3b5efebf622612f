"""The types that have nothing inside them: texts, numbers, amounts, moments.

Source: Go's encoding/json; kubernetes/staging/src/k8s.io/apimachinery/pkg/util/intstr, pkg/api/resource.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kcr.apiserver.schema.quantities import canonical
from kcr.apiserver.schema.shape import MisfitError, Type
from kcr.apiserver.schema.times import micro, whole_seconds


def _exactly(kind: type) -> Type:
    wanted = {str: "string", bool: "bool"}[kind]

    def conform(value: Any) -> Any:
        if type(value) is not kind:
            raise MisfitError.of(value, wanted)
        return value

    return Type(wanted, conform, kind)


def _integer(wanted: str, bits: int) -> Type:
    limit = 1 << (bits - 1)

    def conform(value: Any) -> Any:
        if type(value) is not int or not -limit <= value < limit:
            raise MisfitError.of_number(value, wanted)
        return value

    return Type(wanted, conform, int)


def _text(wanted: str, rule: Callable[[str], str]) -> Type:
    def conform(value: Any) -> Any:
        if type(value) is not str:
            raise MisfitError.of(value, wanted)
        return rule(value)

    return Type(wanted, conform)


def _float(value: Any) -> Any:
    if type(value) not in (int, float):
        raise MisfitError.of(value, "float64")
    return value


def _quantity(value: Any) -> Any:
    if type(value) in (int, float):
        return canonical(msgspec.json.encode(value).decode())
    if type(value) is not str:
        raise MisfitError.of(value, "resource.Quantity")
    return canonical(value)


def _int_or_string(value: Any) -> Any:
    if type(value) not in (int, str):
        raise MisfitError.of(value, "intstr.IntOrString")
    return value


ANY = Type("interface {}", lambda value: value, lambda: None)

SCALARS: Mapping[str, Type] = {
    "any": ANY,
    "bool": _exactly(bool),
    # Base64 is text here: the kinds that hold it look into it.
    "bytes": _exactly(str),
    "float64": Type("float64", _float, float),
    "int-or-string": Type("intstr.IntOrString", _int_or_string, int),
    "int32": _integer("int32", 32),
    "int64": _integer("int64", 64),
    "microtime": _text("v1.MicroTime", micro),
    "quantity": Type("resource.Quantity", _quantity, lambda: "0"),
    "string": _exactly(str),
    "time": _text("v1.Time", whole_seconds),
}
