from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kcr_devcluster.apiserver.patch import json_patch, merge_patch
from kcr_devcluster.apiserver.protocol.responses import StatusError

NAMES = st.sampled_from(["a", "b", "x/y", "m~n"])
LEAVES = st.none() | st.booleans() | st.integers(0, 3)
OBJECTS = st.dictionaries(
    NAMES, st.recursive(LEAVES, lambda one: st.lists(one, max_size=2) | st.dictionaries(NAMES, one))
)
TOKENS = st.sampled_from(["a", "b", "x~1y", "m~0n", "0", "1", "-", "-1"])
PATHS = st.lists(TOKENS, min_size=1, max_size=3).map(lambda tokens: "".join(f"/{token}" for token in tokens))
OPERATIONS = st.fixed_dictionaries(
    {
        "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]),
        "path": PATHS,
        "from": PATHS,
        "value": LEAVES,
    }
)


@given(OBJECTS, st.lists(OPERATIONS, max_size=4))
def test_patch_applies_wholly_or_not_at_all(target: dict[str, Any], operations: list[dict[str, Any]]) -> None:
    before = deepcopy(target)
    try:
        result = json_patch(target, operations)
    except StatusError as error:
        assert error.code == 422
    else:
        assert isinstance(result, dict)
    assert target == before


@given(OBJECTS, NAMES, LEAVES)
def test_added_member_can_be_tested_and_removed(target: dict[str, Any], name: str, value: Any) -> None:
    path = "/" + name.replace("~", "~0").replace("/", "~1")
    added = json_patch(
        target, [{"op": "add", "path": path, "value": value}, {"op": "test", "path": path, "value": value}]
    )
    assert added == {**target, name: value}
    assert json_patch(added, [{"op": "remove", "path": path}]) == {k: v for k, v in target.items() if k != name}


@given(OBJECTS, OBJECTS)
def test_copied_value_is_no_alias(target: dict[str, Any], value: dict[str, Any]) -> None:
    operations: list[dict[str, Any]] = [
        {"op": "add", "path": "/a", "value": {"deep": value}},
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "add", "path": "/a/deep", "value": 1},
    ]
    assert json_patch(target, operations)["b"] == {"deep": value}


KEYS = st.sampled_from("abc")
SCALARS = st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "x"])
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3))
TREES = st.dictionaries(KEYS, VALUES, max_size=3)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(one) for name, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


@given(TREES, TREES)
def test_patch_applied_twice_is_the_same_as_once(target: dict[str, Any], patch: dict[str, Any]) -> None:
    once = merge_patch(target, patch)
    # A list in the place of an object keeps its nulls, and loses them the next time, as upstream does.
    assert without_nulls(merge_patch(once, patch)) == without_nulls(once)


@given(TREES)
def test_empty_patch_changes_nothing(target: dict[str, Any]) -> None:
    assert merge_patch(target, {}) == target


@given(TREES)
def test_patch_on_nothing_is_itself_without_nulls(patch: dict[str, Any]) -> None:
    assert merge_patch({}, patch) == without_nulls(patch)


@given(TREES, TREES)
def test_what_patch_names_is_as_it_says(target: dict[str, Any], patch: dict[str, Any]) -> None:
    result = merge_patch(target, patch)
    for name in target.keys() | patch.keys():
        if name not in patch:
            assert result[name] == target[name]
        elif patch[name] is None:
            assert name not in result
        elif not isinstance(patch[name], dict):
            assert without_nulls(result[name]) == without_nulls(patch[name])


@given(TREES, TREES)
def test_difference_as_patch_leads_from_one_to_other(target: dict[str, Any], wanted: dict[str, Any]) -> None:
    target, wanted = without_nulls(target), without_nulls(wanted)
    assert merge_patch(target, difference(target, wanted)) == wanted


def difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = dict.fromkeys(old.keys() - new.keys())
    for name, value in new.items():
        before = old.get(name)
        patch[name] = difference(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return patch
