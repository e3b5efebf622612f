import math
from typing import Any

import pytest

from tests.kit.cel_functions import call, same


@pytest.mark.parametrize(
    ("text", "name", "others", "answer"),
    [
        ("9223372036854775807", "isInteger", (), False),
        ("9223372036854775807", "asInteger", (), "error: cannot convert value to integer"),
        ("922337203685477580", "isInteger", (), True),
        ("922337203685477580", "asInteger", (), 922337203685477580),
        ("10Ei", "isInteger", (), False),
        ("10Ei", "asInteger", (), "error: cannot convert value to integer"),
        ("1Pi", "isInteger", (), False),
        ("1Pi", "asInteger", (), "error: cannot convert value to integer"),
        ("2000m", "isInteger", (), False),
        ("2000m", "asInteger", (), "error: cannot convert value to integer"),
        ("1000k", "isInteger", (), True),
        ("1000k", "asInteger", (), 1000000),
        ("1.0", "isInteger", (), False),
        ("1.0", "asInteger", (), "error: cannot convert value to integer"),
        ("1.5G", "isInteger", (), True),
        ("1.5G", "asInteger", (), 1500000000),
        ("1e18", "isInteger", (), True),
        ("1e18", "asInteger", (), 1000000000000000000),
        ("1e19", "isInteger", (), False),
        ("1e19", "asInteger", (), "error: cannot convert value to integer"),
        ("100e-2", "isInteger", (), False),
        ("100e-2", "asInteger", (), "error: cannot convert value to integer"),
        ("1.5Gi", "isInteger", (), False),
        ("1.5Gi", "asInteger", (), "error: cannot convert value to integer"),
        ("-1Ki", "isInteger", (), True),
        ("-1Ki", "asInteger", (), -1024),
        (".", "isInteger", (), True),
        (".", "asInteger", (), 0),
        ("99999999999Ki", "isInteger", (), True),
        ("99999999999Ki", "asInteger", (), 102399999998976),
        ("1.5", "asApproximateFloat", (), 1.5),
        ("1.5", "sign", (), 1),
        ("0.1", "asApproximateFloat", (), 0.1),
        ("0.1", "sign", (), 1),
        ("1.5Gi", "asApproximateFloat", (), 1610612736.0),
        ("1.5Gi", "sign", (), 1),
        ("0.0000000001", "asApproximateFloat", (), 1e-09),
        ("0.0000000001", "sign", (), 1),
        ("1e400", "asApproximateFloat", (), math.inf),
        ("1e400", "sign", (), 1),
        ("10Ei", "asApproximateFloat", (), 9.223372036854776e18),
        ("10Ei", "sign", (), 1),
        ("9223372036854775808", "asApproximateFloat", (), 9.223372036854776e18),
        ("9223372036854775808", "sign", (), 1),
        ("123n", "asApproximateFloat", (), 1.23e-07),
        ("123n", "sign", (), 1),
        ("-1", "asApproximateFloat", (), -1.0),
        ("-1", "sign", (), -1),
        ("200M", "compareTo", ("0.2G",), 0),
        ("200M", "isLessThan", ("0.2G",), False),
        ("200M", "isGreaterThan", ("0.2G",), False),
        ("50M", "compareTo", ("50Mi",), -1),
        ("50M", "isLessThan", ("50Mi",), True),
        ("50M", "isGreaterThan", ("50Mi",), False),
        ("100Ei", "compareTo", ("8Ei",), 0),
        ("100Ei", "isLessThan", ("8Ei",), False),
        ("100Ei", "isGreaterThan", ("8Ei",), False),
        ("1n", "compareTo", ("0.0000000001",), 0),
        ("1n", "isLessThan", ("0.0000000001",), False),
        ("1n", "isGreaterThan", ("0.0000000001",), False),
        ("-1", "compareTo", ("1m",), -1),
        ("-1", "isLessThan", ("1m",), True),
        ("-1", "isGreaterThan", ("1m",), False),
        ("1e400", "compareTo", ("1",), 1),
        ("1e400", "isLessThan", ("1",), False),
        ("1e400", "isGreaterThan", ("1",), True),
    ],
)
def test_amounts_are_asked_as_in_go(text: str, name: str, others: tuple[Any, ...], answer: Any) -> None:
    others = tuple(call("quantity", one) if isinstance(one, str) else one for one in others)
    assert same(call(name, call("quantity", text), *others), answer)


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("isQuantity", ("",), False),
        ("isQuantity", (".",), True),
        ("isQuantity", ("+",), True),
        ("isQuantity", ("1K",), False),
        ("isQuantity", ("1Ki",), True),
        ("isQuantity", ("1e",), False),
        ("isQuantity", ("--1",), False),
        ("isQuantity", ("1.2.3",), False),
        ("isQuantity", (" 1",), False),
        ("isQuantity", ("00",), True),
        ("isQuantity", ("5.",), True),
        ("isQuantity", ("1E",), True),
        ("isQuantity", ("1Ex",), False),
        ("isQuantity", ("1,3G",), False),
        ("isQuantity", ("1e99999999999999999999",), False),
    ],
)
def test_texts_are_amounts_if_go_reads_them(name: str, arguments: tuple[Any, ...], answer: Any) -> None:
    assert same(call(name, *arguments), answer)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1.2.3", "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
        ("1K", "unable to parse quantity's suffix"),
        ("--1", "unable to parse quantity's suffix"),
    ],
)
def test_text_that_is_no_amount_is_refused_in_words_of_go(text: str, why: str) -> None:
    assert call("quantity", text) == f"error: {why}"


def test_amounts_are_added_and_subtracted_exactly() -> None:
    amount = call("add", call("quantity", "50k"), 20)
    amount = call("sub", call("sub", amount, call("quantity", "100k")), -50_000)
    assert amount == call("quantity", "20")
    assert hash(amount) == hash(call("quantity", "20.0"))
    assert call("isInteger", amount)


def test_sum_with_fractions_is_no_integer_even_if_it_is_whole() -> None:
    amount = call("sub", call("add", call("quantity", "1"), call("quantity", "500m")), call("quantity", "500m"))
    assert amount == call("quantity", "1")
    assert not call("isInteger", amount)
