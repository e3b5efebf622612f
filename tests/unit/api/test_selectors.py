import pytest

from kcr.api.selectors import LabelSelector, Requirement, matches, text


def one(key: str, operator: str, *values: str) -> LabelSelector:
    return LabelSelector(match_expressions=(Requirement(key=key, operator=operator, values=values),))


@pytest.mark.parametrize(
    ("selector", "labels", "matched"),
    [
        pytest.param(LabelSelector(), {}, True, id="empty-matches-all"),
        pytest.param(LabelSelector(match_labels={"a": "b"}), {"a": "b", "c": "d"}, True, id="label"),
        pytest.param(LabelSelector(match_labels={"a": "b"}), {"a": "x"}, False, id="other-value"),
        pytest.param(one("a", "In", "b", "c"), {"a": "c"}, True, id="in"),
        pytest.param(one("a", "In", "b"), {}, False, id="in-needs-the-key"),
        pytest.param(one("a", "NotIn", "b"), {}, True, id="not-in-without-the-key"),
        pytest.param(one("a", "NotIn", "b"), {"a": "b"}, False, id="not-in"),
        pytest.param(one("a", "Exists"), {"a": ""}, True, id="exists"),
        pytest.param(one("a", "DoesNotExist"), {"a": ""}, False, id="does-not-exist"),
    ],
)
def test_selector_matches_labels(selector: LabelSelector, labels: dict[str, str], matched: bool) -> None:
    assert matches(selector, labels) is matched


def test_unknown_operator_is_an_error_and_no_match() -> None:
    with pytest.raises(ValueError, match="'Near' is not a valid label selector operator"):
        matches(one("a", "Near"), {"a": "b"})


def test_text_is_what_queries_use() -> None:
    selector = LabelSelector(
        match_labels={"b": "2", "a": "1"},
        match_expressions=(
            Requirement(key="c", operator="In", values=("y", "x")),
            Requirement(key="d", operator="NotIn", values=("z",)),
            Requirement(key="e", operator="Exists"),
            Requirement(key="f", operator="DoesNotExist"),
        ),
    )
    assert text(selector) == "a=1,b=2,c in (x,y),d notin (z),e,!f"
