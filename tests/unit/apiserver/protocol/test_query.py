"""Queries."""

import pytest

from kcr_devcluster.apiserver.protocol.query import Query


@pytest.mark.parametrize(
    ("text", "is_true"),
    [
        ("", False),
        ("watch", False),
        ("watch=0", False),
        ("watch=False", False),
        ("watch=1", True),
        ("watch=banana", True),
    ],
)
def test_anything_but_false_is_true(text: str, is_true: bool) -> None:
    assert Query(text).flag("watch") is is_true


def test_query_is_percent_decoded() -> None:
    query = Query("labelSelector=a+in+%28b%2Cc%29&x")
    assert query.text("labelSelector") == "a in (b,c)"
    assert query.has("x")
    assert query.integer("limit") is None


def test_parameters_of_features_that_are_off_are_ignored() -> None:
    query = Query("shardSelector=x&limit=1", ("shardSelector",))
    assert (query.text("shardSelector"), query.has("shardSelector"), query.integer("limit")) == ("", False, 1)
