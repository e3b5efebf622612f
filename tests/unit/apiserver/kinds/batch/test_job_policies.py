import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcr.api.indexset import IndexSet
from kcr_devcluster.apiserver.kinds.batch.job_policies import parse_indexes

SETS = st.sets(st.integers(0, 20), max_size=12)


def text_of(indexes: set[int]) -> str:
    """One item per index, or intervals where two follow each other."""
    items: list[list[int]] = []
    for index in sorted(indexes):
        if items and items[-1][-1] == index - 1:
            items[-1] = [items[-1][0], index]
        else:
            items.append([index])
    return ",".join("-".join(map(str, item)) for item in items)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("5", 'too large index: "5"', id="too-large"),
        pytest.param("0-5", 'too large index: "5"', id="end-too-large"),
        pytest.param("2-2", "non-increasing order, previous: 2, current: 2", id="interval-of-one"),
        pytest.param("1-0", "non-increasing order, previous: 1, current: 0", id="interval-backwards"),
        pytest.param("1,1", "non-increasing order, previous: 1, current: 1", id="repeated"),
        pytest.param("3,1", "non-increasing order, previous: 3, current: 1", id="backwards"),
        pytest.param("a", 'cannot convert string to integer for index: "a"', id="letter"),
        pytest.param("1-b", 'cannot convert string to integer for index: "b"', id="letter-at-end"),
        pytest.param("1,", 'cannot convert string to integer for index: ""', id="nothing-after-comma"),
        pytest.param("-1", 'cannot convert string to integer for index: ""', id="negative"),
        pytest.param(" 1", 'cannot convert string to integer for index: " 1"', id="blank"),
        pytest.param(
            "1-2-3",
            'the fragment "1-2-3" violates the requirement that an index interval can have at most two parts '
            "separated by '-'",
            id="three-parts",
        ),
    ],
)
def test_malformed_text_is_refused_in_upstreams_words(text: str, message: str) -> None:
    # BA 9.4
    with pytest.raises(ValueError) as caught:
        parse_indexes(text, 5)
    assert str(caught.value) == message


@given(SETS)
def test_text_of_indexes_means_just_these(indexes: set[int]) -> None:
    assert parse_indexes(text_of(indexes), 21) == IndexSet.of(indexes)
