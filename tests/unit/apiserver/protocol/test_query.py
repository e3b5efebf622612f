"""Queries."""

import pytest

from kcr_devcluster.apiserver.protocol.query import Query, parse_integer
from kcr_devcluster.apiserver.protocol.responses import StatusError


@pytest.mark.parametrize(
    ("text", "is_true"),
    [
        ("", False),
        ("watch", True),
        ("watch=0", False),
        ("watch=False", False),
        ("watch=1", True),
        ("watch=banana", True),
    ],
)
def test_anything_but_false_is_true(text: str, is_true: bool) -> None:
    assert Query(text).flag("watch") is is_true


@pytest.mark.parametrize(("text", "number"), [("7", 7), ("+7", 7), ("-7", -7), ("0" * 5000 + "7", 7)])
def test_numbers_are_read_as_go_reads_them(text: str, number: int) -> None:
    assert parse_integer(text, "ParseInt") == number


@pytest.mark.parametrize(
    ("text", "function", "words"),
    [
        (str(2**63), "ParseInt", "value out of range"),
        (str(2**64), "ParseUint", "value out of range"),
        ("9" * 5000, "ParseInt", "value out of range"),
        ("1_0", "ParseInt", "invalid syntax"),
        ("-1", "ParseUint", "invalid syntax"),
    ],
)
def test_other_texts_are_refused_in_the_words_of_go(text: str, function: str, words: str) -> None:
    with pytest.raises(StatusError, match=f'strconv.{function}: parsing "{text}": {words}'):
        parse_integer(text, function)


def test_query_is_percent_decoded() -> None:
    query = Query("labelSelector=a+in+%28b%2Cc%29&x")
    assert query.text("labelSelector") == "a in (b,c)"
    assert query.has("x")
    assert query.integer("limit") is None


def test_parameters_of_features_that_are_off_are_ignored() -> None:
    query = Query("shardSelector=x&limit=1", ("shardSelector",))
    assert (query.text("shardSelector"), query.has("shardSelector"), query.integer("limit")) == ("", False, 1)
