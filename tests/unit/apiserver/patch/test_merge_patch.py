from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kcr.apiserver.patch import merge_patch

NAMES = st.sampled_from("abc")
LEAVES = st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "x"])
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3))
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=3)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(one) for name, one in value.items() if one is not None}
    return value


@given(OBJECTS, OBJECTS)
def test_patch_applied_twice_is_the_same_as_once(target: dict[str, Any], patch: dict[str, Any]) -> None:
    once = merge_patch(target, patch)
    assert merge_patch(once, patch) == once


@given(OBJECTS)
def test_empty_patch_changes_nothing(target: dict[str, Any]) -> None:
    assert merge_patch(target, {}) == target


@given(OBJECTS)
def test_patch_on_nothing_is_itself_without_nulls(patch: dict[str, Any]) -> None:
    assert merge_patch({}, patch) == without_nulls(patch)


@given(OBJECTS, OBJECTS)
def test_what_patch_names_is_as_it_says(target: dict[str, Any], patch: dict[str, Any]) -> None:
    result = merge_patch(target, patch)
    for name in target.keys() | patch.keys():
        if name not in patch:
            assert result[name] == target[name]
        elif patch[name] is None:
            assert name not in result
        elif not isinstance(patch[name], dict):
            assert result[name] == patch[name]


@given(OBJECTS, OBJECTS)
def test_difference_as_patch_leads_from_one_to_other(target: dict[str, Any], wanted: dict[str, Any]) -> None:
    target, wanted = without_nulls(target), without_nulls(wanted)
    assert merge_patch(target, difference(target, wanted)) == wanted


def difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = dict.fromkeys(old.keys() - new.keys())
    for name, value in new.items():
        before = old.get(name)
        patch[name] = difference(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return patch
