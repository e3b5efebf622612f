import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcr.api.indexset import IndexSet

INDEXES = st.frozensets(st.integers(0, 60))


@pytest.mark.parametrize(
    ("indexes", "text"),
    [
        pytest.param((), "", id="empty"),
        pytest.param((7,), "7", id="one"),
        pytest.param((0, 1), "0,1", id="two-in-a-row"),
        pytest.param((0, 1, 2), "0-2", id="three-in-a-row"),
        pytest.param((7, 5, 3, 4, 1), "1,3-5,7", id="row-72"),
    ],
)
def test_runs_of_three_are_written_as_ranges(indexes: tuple[int, ...], text: str) -> None:
    # Row 72; job-controller §19.2.
    assert str(IndexSet.of(indexes)) == text


@pytest.mark.parametrize(
    ("text", "indexes"),
    [
        pytest.param("", (), id="empty"),
        pytest.param("x,2", (2,), id="no-number"),
        pytest.param("2,10,3", (2,), id="beyond-the-end-stops"),
        pytest.param("2-x,4", (4,), id="no-end"),
        pytest.param("8-99", (8, 9), id="cut-at-the-end"),
        pytest.param("1-2,3", (1, 2, 3), id="runs-join"),
        pytest.param("3,99999999999999999999,5", (3, 5), id="more-than-64-bits"),
        pytest.param("0-99999999999999999999,5", (5,), id="end-of-more-than-64-bits"),
        pytest.param("0-9223372036854775807,5", tuple(range(10)), id="largest-end"),
        pytest.param("0-2-4,6", (0, 1, 2, 6), id="two-dashes"),
        pytest.param("3-1,5", (3, 5), id="end-before-start"),
        pytest.param("3--5,6", (6,), id="negative-end"),
        pytest.param("-1,-3-5,6", (6,), id="negative-start"),
        pytest.param("+1-+3,1_0,\N{ARABIC-INDIC DIGIT SEVEN}, 5", (1, 2, 3), id="signs-underscores-scripts-spaces"),
        pytest.param("0" * 5000 + "1," + "0" * 5000 + "2-" + "0" * 5000 + "3", (1, 2, 3), id="leading-zeros"),
        pytest.param("9" * 5000 + ",2", (2,), id="more-digits-than-python-reads"),
    ],
)
def test_text_is_read_as_far_as_it_makes_sense(text: str, indexes: tuple[int, ...]) -> None:
    # job-controller §19.3.
    assert IndexSet.parse(text, 10) == IndexSet.of(indexes)


PARTS = st.one_of(
    st.from_regex(r"[+-]?0{0,3}[0-9]{1,20}(-[+-]?[0-9]{0,20}){0,2}", fullmatch=True),
    st.sampled_from(["", "x", "1-x", "x-1", "9" * 5000, "0-" + "9" * 5000]),
)


@given(st.lists(PARTS, max_size=8), st.integers(0, 12))
def test_any_text_is_read_as_indexes_that_it_names(parts: list[str], below: int) -> None:
    found = IndexSet.parse(",".join(parts), below)
    starts = {part.split("-")[0] for part in parts}
    assert all(0 <= first <= last < below for first, last in found.intervals)
    # A run begins where a part does: what is not understood adds nothing.
    assert all(
        any(start.lstrip("+0") == (str(first) if first else "") for start in starts) for first, _ in found.intervals
    )


@given(INDEXES)
def test_text_reads_back_as_the_same_set(indexes: frozenset[int]) -> None:
    made = IndexSet.of(indexes)
    assert IndexSet.parse(str(made), 61) == made
    assert len(made) == len(indexes)


@given(INDEXES, INDEXES)
def test_sets_behave_as_sets_do(one: frozenset[int], other: frozenset[int]) -> None:
    assert IndexSet.of(one) | IndexSet.of(other) == IndexSet.of(one | other)
    assert IndexSet.of(one) & IndexSet.of(other) == IndexSet.of(one & other)
    assert {index for index in range(70) if index in IndexSet.of(one)} == one


@given(INDEXES, st.integers(0, 70))
def test_gaps_are_all_that_is_missing(indexes: frozenset[int], below: int) -> None:
    assert list(IndexSet.of(indexes).gaps(below)) == [index for index in range(below) if index not in indexes]
