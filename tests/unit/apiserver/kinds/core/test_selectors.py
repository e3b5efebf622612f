import pytest

from kcr.apiserver.kinds.core.selectors import check_selector, selects
from kcr.apiserver.kinds.strategy import Manifest
from tests.kit.manifests import texts


def requirement(operator: str, *values: str, key: str = "a") -> Manifest:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "fault"),
    [
        pytest.param(
            requirement("In"), "values: Required value: must be specified when `operator` is 'In' or 'NotIn'", id="in"
        ),
        pytest.param(
            requirement("Exists", "b"),
            "values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            id="exists",
        ),
        pytest.param(requirement("Foo"), 'operator: Invalid value: "Foo": not a valid selector operator', id="unknown"),
    ],
)
def test_requirement_is_refused_in_upstreams_words(selector: Manifest, fault: str) -> None:
    assert texts(check_selector(selector, "spec.selector")) == [f"spec.selector.matchExpressions[0].{fault}"]


def test_labels_of_selector_are_checked() -> None:
    (fault,) = check_selector({"matchLabels": {"a": "b c"}}, "spec.selector")
    assert fault.field == "spec.selector.matchLabels"


def test_selector_picks_by_labels_and_requirements() -> None:
    assert check_selector(requirement("In", "b", "c"), "spec.selector") == []
    assert selects(requirement("In", "b", "c"), {"a": "b"})
    assert not selects({"matchLabels": {"a": "b"}, **requirement("DoesNotExist", key="x")}, {"a": "b", "x": ""})
    assert selects({}, {"anything": "goes"})
