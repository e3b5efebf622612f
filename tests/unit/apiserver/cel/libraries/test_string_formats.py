import math
from typing import Any

import pytest

from kcr_devcluster.apiserver.cel.values import Duration, Optional, Timestamp, Type, Uint
from tests.kit.cel_functions import call, same

DURING = "error: error during formatting: "
PARSING = "error: could not parse formatting clause: "


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("format", ("%s", [1]), "1"),
        ("format", ("%s", [Uint(1)]), "1"),
        ("format", ("%s", [1.0]), "1"),
        ("format", ("%s", [1000000.0]), "1e+06"),
        ("format", ("%s", ["a"]), "a"),
        ("format", ("%s", [b"ab"]), "ab"),
        ("format", ("%s", [True]), "true"),
        ("format", ("%s", [None]), "null"),
        ("format", ("%s", [Timestamp(0)]), "1970-01-01T00:00:00Z"),
        ("format", ("%s", [Duration(1500000000)]), "1.5s"),
        ("format", ("%s", [Type("int")]), "int"),
        ("format", ("%s", [{"b": [1], "a": 1.5}]), '{"a":1.500000, "b":[1]}'),
        ("format", ("%s", [{1: "x"}]), '{1:"x"}'),
        ("format", ("%s", [{1.5: 1}]), DURING + "no formatting function for map key of type double"),
        ("format", ("%s", [[Optional(True, 1)]]), DURING + "no formatting function for optional_type"),
        ("format", ("%d", [1]), "1"),
        ("format", ("%d", [-1]), "-1"),
        ("format", ("%d", [Uint(18446744073709551615)]), "18446744073709551615"),
        ("format", ("%d", [1.5]), DURING + "decimal clause can only be used on integers, was given double"),
        ("format", ("%d", ["a"]), DURING + "decimal clause can only be used on integers, was given string"),
        ("format", ("%.2f", [1234567.0]), "1,234,567.00"),
        ("format", ("%.2f", [0.125]), "0.12"),
        ("format", ("%.2f", [1.005]), "1.00"),
        ("format", ("%.2f", [-0.0]), "0.00"),
        ("format", ("%.2f", [-0.001]), "-0.00"),
        ("format", ("%.2f", [math.nan]), "NaN"),
        ("format", ("%.2f", [math.inf]), "∞"),
        ("format", ("%.2f", [-math.inf]), "-∞"),
        ("format", ("%.2f", ["NaN"]), "NaN"),
        ("format", ("%.2f", ["-Infinity"]), "-∞"),
        ("format", ("%.2f", ["x"]), DURING + "fixed-point clause can only be used on doubles, was given string"),
        ("format", ("%.2f", [1]), DURING + "fixed-point clause can only be used on doubles, was given int"),
        ("format", ("%f", [0.1]), "0.100000"),
        ("format", ("%f", [1e21]), "1,000,000,000,000,000,000,000.000000"),
        ("format", ("%.0f", [0.5]), "0"),
        ("format", ("%.0f", [1.5]), "2"),
        ("format", ("%.0f", [2.5]), "2"),
        ("format", ("%e", [1234.5]), "1.234500\u00d710⁰³"),
        ("format", ("%e", [0.0]), "0.000000\u00d710⁰⁰"),
        ("format", ("%e", [1e100]), "1.000000\u00d710¹⁰⁰"),
        ("format", ("%e", [-1e-07]), "-1.000000\u00d710⁻⁰⁷"),
        ("format", ("%e", ["NaN"]), "   NaN"),
        ("format", ("%e", [math.inf]), "     ∞"),
        ("format", ("%e", [1]), DURING + "scientific clause can only be used on doubles, was given int"),
        ("format", ("%.20e", [1.0]), "       1.000000\u00d710⁰⁰"),
        ("format", ("%.2e", [1.0]), "1.000000\u00d710⁰⁰"),
        ("format", ("%b", [-5]), "-101"),
        ("format", ("%b", [True]), "1"),
        ("format", ("%b", [Uint(5)]), "101"),
        ("format", ("%b", ["a"]), DURING + "only integers and bools can be formatted as binary, was given string"),
        ("format", ("%o", [-8]), "-10"),
        ("format", ("%o", ["a"]), DURING + "octal clause can only be used on integers, was given string"),
        ("format", ("%x", [-255]), "-ff"),
        ("format", ("%x", ["é"]), "c3a9"),
        ("format", ("%x", [b"\xff"]), "ff"),
        ("format", ("%x", [Uint(255)]), "ff"),
        ("format", ("%X", [255]), "FF"),
        ("format", ("%X", ["é"]), "C3A9"),
        ("format", ("%%", []), "%"),
        ("format", ("é%sé", ["ü"]), "éüé"),
        ("format", ("%d %s", [1]), "error: index 1 out of range"),
        ("format", ("%", [1]), "error: unexpected end of string"),
        ("format", ("%", []), "error: unexpected end of string"),
        ("format", ("%z", [1]), PARSING + 'unrecognized formatting clause "z"'),
        ("format", ("%é", [1]), PARSING + 'unrecognized formatting clause "Ã"'),
        ("format", ("%.2s", ["abc"]), "abc"),
        ("format", ("%s", [1, 2]), "1"),
    ],
)
def test_clauses_show_values_as_cel_go_does(name: str, arguments: tuple[Any, ...], answer: Any) -> None:
    assert same(call(name, *arguments), answer)
