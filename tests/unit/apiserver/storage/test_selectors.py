"""Selectors in their text form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcr.api.selectors import LabelSelector, Requirement, matches, text
from kcr_devcluster.apiserver.protocol.responses import StatusError
from kcr_devcluster.apiserver.storage.selectors import FieldTerm, LabelTerm, parse_fields, parse_labels

WORDS = st.sampled_from(["a", "b-c", "x.io/y", "D_4"])
VALUES = st.sampled_from(["", "1", "v-w", "Z"])
REQUIREMENTS = st.one_of(
    st.builds(
        Requirement,
        key=WORDS,
        operator=st.sampled_from(["In", "NotIn"]),
        values=st.lists(VALUES, min_size=1, max_size=3).map(tuple),
    ),
    st.builds(Requirement, key=WORDS, operator=st.sampled_from(["Exists", "DoesNotExist"])),
)
SELECTORS = st.builds(
    LabelSelector,
    match_labels=st.dictionaries(WORDS, VALUES, max_size=2),
    match_expressions=st.lists(REQUIREMENTS, max_size=3).map(tuple),
)


@pytest.mark.parametrize(
    ("selector", "terms"),
    [
        pytest.param("", (), id="empty"),
        pytest.param("a", (LabelTerm("a", "exists"),), id="exists"),
        pytest.param("!a", (LabelTerm("a", "!"),), id="not-exists"),
        pytest.param("a=b", (LabelTerm("a", "=", ("b",)),), id="equal"),
        pytest.param("a==b", (LabelTerm("a", "=", ("b",)),), id="double-equal"),
        pytest.param("a=", (LabelTerm("a", "=", ("",)),), id="empty-value"),
        pytest.param("a!=b,c", (LabelTerm("a", "!=", ("b",)), LabelTerm("c", "exists")), id="two"),
        pytest.param(" a in ( b , c ) ", (LabelTerm("a", "in", ("b", "c")),), id="spaces"),
        pytest.param("a notin (,b)", (LabelTerm("a", "notin", ("", "b")),), id="empty-member"),
        pytest.param("a>5", (LabelTerm("a", ">", ("5",)),), id="greater"),
        pytest.param("x.io/in in (in)", (LabelTerm("x.io/in", "in", ("in",)),), id="words-as-names"),
    ],
)
def test_label_selectors_are_understood(selector: str, terms: tuple[LabelTerm, ...]) -> None:
    assert parse_labels(selector) == terms


@pytest.mark.parametrize(
    "selector",
    ["a in b", "a in (b", "=b", "a b", "a,", ",", "-a", "a=-", "a>x", "a=b=c", "(", "!", "a>1_0", "a<" + "9" * 5000],
)
def test_malformed_label_selectors_are_refused(selector: str) -> None:
    with pytest.raises(StatusError, match=r"found '|Invalid value") as caught:
        parse_labels(selector)
    assert caught.value.code == 400


@given(SELECTORS, st.dictionaries(WORDS, VALUES, max_size=3))
def test_text_form_selects_what_the_typed_one_does(selector: LabelSelector, labels: dict[str, str]) -> None:
    assert all(term.holds(labels) for term in parse_labels(text(selector))) == matches(selector, labels)


@pytest.mark.parametrize(
    ("value", "holds"),
    [
        ("6", True), ("5", False), ("x", False), (None, False), ("1_0", False), ("0" * 5000 + "6", True),
        ("9" * 20, False),
    ],
)  # fmt: skip
def test_order_compares_numbers(value: str | None, holds: bool) -> None:
    assert LabelTerm("a", ">", ("5",)).holds({} if value is None else {"a": value}) is holds


@pytest.mark.parametrize(
    ("selector", "terms"),
    [
        pytest.param("", (), id="empty"),
        pytest.param("a.b=c", (FieldTerm("a.b", "c", False),), id="equal"),
        pytest.param("a==", (FieldTerm("a", "", False),), id="empty-value"),
        pytest.param("a!=b,c=d", (FieldTerm("a", "b", True), FieldTerm("c", "d", False)), id="two"),
        pytest.param(r"a=b\,c\=d\\", (FieldTerm("a", "b,c=d\\", False),), id="escapes"),
    ],
)
def test_field_selectors_are_understood(selector: str, terms: tuple[FieldTerm, ...]) -> None:
    assert parse_fields(selector) == terms


def test_field_term_without_operator_is_refused() -> None:
    with pytest.raises(StatusError, match="invalid selector: 'a=b,c'; can't understand 'c'"):
        parse_fields("a=b,c")
