from typing import Any

import pytest

from kcr_devcluster.apiserver.kinds.strategy import UndecodableError, conform
from kcr_devcluster.apiserver.protocol.manifests import semantic_equal
from kcr_devcluster.apiserver.schema.builtin import kind_shape


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(None, [], id="null-and-empty-list"),
        pytest.param({"a": None}, {}, id="null-and-absent"),
        pytest.param({"a": {"b": []}}, {"a": {}}, id="deep"),
        pytest.param([{"a": None}, 1], [{}, 1], id="in-lists"),
        pytest.param({"a": 1, "b": 2}, {"b": 2, "a": 1}, id="any-order"),
    ],
)
def test_nothing_null_and_emptiness_are_one(one: Any, other: Any) -> None:
    assert semantic_equal(one, other)
    assert semantic_equal(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(None, 0, id="zero-is-something"),
        pytest.param({"a": False}, {}, id="false-is-something"),
        pytest.param([1, 2], [2, 1], id="order-of-lists"),
        pytest.param([1], [1, None], id="length-of-lists"),
        pytest.param({"a": 1}, {"a": 2}, id="values"),
    ],
)
def test_what_differs_upstream_differs_here(one: Any, other: Any) -> None:
    assert not semantic_equal(one, other)


def test_object_that_does_not_fit_is_refused_in_words_of_the_server() -> None:
    words = "json: cannot unmarshal string into Go struct field JobSpec.spec.parallelism of type int32"
    with pytest.raises(UndecodableError) as caught:
        conform(kind_shape("batch/v1", "Job"), {"spec": {"parallelism": "3"}})
    assert caught.value.text == words
    assert str(caught.value) == f'Job in version "v1" cannot be handled as a Job: {words}'
