"""Patches from raw to raw: only the changes, and nothing of what a type does not know."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcr.api.equality import same_json
from kcr.serving.webhooks.handlers import json_patch, rebase

SCALARS = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a", "b~/", "~1"]) | st.just(1.0)
NAMES = st.sampled_from(["name", "a", "b", "~", "x/y"])
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4))
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=5)


def applied(patch: list[dict[str, Any]], value: Any) -> Any:
    """Return the result of a patch as RFC 6902 defines it; an impossible operation fails."""
    root = {"": value}
    for operation in patch:
        *parents, last = [""] + [one.replace("~1", "/").replace("~0", "~") for one in operation["path"].split("/")[1:]]
        target: Any = root
        for name in parents:
            target = target[int(name)] if isinstance(target, list) else target[name]
        if isinstance(target, list):
            if operation["op"] == "add":
                assert last == "-"
                target.append(operation["value"])
            else:
                target[int(last)] = operation["value"]
        elif operation["op"] == "remove":
            del target[last]
        else:
            assert (last in target) is (operation["op"] == "replace")
            target[last] = operation["value"]
    return root[""]


@given(OBJECTS, OBJECTS)
def test_patch_turns_the_old_value_into_the_new(old: Any, new: Any) -> None:
    copied = copy.deepcopy(old)
    assert same_json(applied(json_patch(old, new), copied), new)


@given(OBJECTS, OBJECTS, OBJECTS)
def test_rebase_without_unknown_fields_gives_the_changed_value(before: Any, after: Any, raw: Any) -> None:
    assert same_json(rebase(before, before, after), after)
    assert same_json(rebase(raw, before, before), raw)


@given(OBJECTS, OBJECTS, st.integers())
def test_unknown_field_survives_every_change(before: Any, after: Any, value: int) -> None:
    assert rebase({**before, "unknown": value}, before, after) == {**after, "unknown": value}


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        pytest.param({"a": 1}, {"a": 1}, [], id="no-change"),
        pytest.param({"a": 1}, {"a": True}, [{"op": "replace", "path": "/a", "value": True}], id="true-is-not-one"),
        pytest.param({"a": {"b/c~": 1}}, {"a": {}}, [{"op": "remove", "path": "/a/b~1c~0"}], id="escaped"),
        pytest.param({"a": [1]}, {"a": [1, 2]}, [{"op": "add", "path": "/a/-", "value": 2}], id="appended"),
        pytest.param(
            {"a": [{"b": 1}, {"b": 2}]}, {"a": [{"b": 1}, {"b": 3}]},
            [{"op": "replace", "path": "/a/1/b", "value": 3}], id="one-item",
        ),
        pytest.param(
            {"a": [{"b": 1}, {"b": 2}]}, {"a": [{"b": 0}, {"b": 1}, {"b": 2}]},
            [{"op": "replace", "path": "/a", "value": [{"b": 0}, {"b": 1}, {"b": 2}]}], id="inserted-first",
        ),
        pytest.param({"a": [1, 2]}, {"a": [2]}, [{"op": "replace", "path": "/a", "value": [2]}], id="shorter"),
    ],
)  # fmt: skip
def test_patch_has_only_the_changes(old: Any, new: Any, patch: list[dict[str, Any]]) -> None:
    assert json_patch(old, new) == patch


RAW = [{"name": "a", "x": 1, "image": "1"}, {"name": "b", "x": 2, "image": "2"}]
TYPED = [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        pytest.param([TYPED[1], TYPED[0]], [RAW[1], RAW[0]], id="reordered"),
        pytest.param([{"name": "c", "image": "3"}, *TYPED], [{"name": "c", "image": "3"}, *RAW], id="inserted-first"),
        pytest.param(
            [{"name": "b", "image": "9"}], [{"name": "b", "x": 2, "image": "9"}], id="one-removed-the-other-changed"
        ),
        pytest.param([{"name": "z", "image": "1"}, TYPED[1]], [{"name": "z", "image": "1"}, RAW[1]], id="replaced"),
    ],
)
def test_items_keep_their_own_unknown_fields(after: Any, expected: Any) -> None:
    assert rebase(RAW, TYPED, after) == expected


def test_items_without_names_are_matched_by_place() -> None:
    raw = [{"from": "x", "unknown": 1}, {"from": "y", "unknown": 2}]
    before = [{"from": "x"}, {"from": "y"}]
    assert rebase(raw, before, [{"from": "z"}, {"from": "y"}]) == [{"from": "z", "unknown": 1}, raw[1]]


def test_default_that_the_object_lacks_is_not_written() -> None:
    # Both sides have the default of the class, so that no difference reaches the object.
    before = {"spec": {"image": "a", "replicas": 1}, "status": {}}
    after = {"spec": {"image": "b", "replicas": 1}, "status": {}}
    assert rebase({"spec": {"image": "a"}}, before, after) == {"spec": {"image": "b"}}


def test_change_inside_a_default_that_the_object_lacks_is_written_alone() -> None:
    before, after = {"limits": {"cpu": 1, "memory": 2}}, {"limits": {"cpu": 1, "memory": 3}}
    assert json_patch({}, rebase({}, before, after)) == [{"op": "add", "path": "/limits", "value": {"memory": 3}}]


@pytest.mark.parametrize(
    ("raw", "changed", "expected"),
    [
        pytest.param(
            [{"key": "k", "a": 1, "x": 1}, {"key": "k", "a": 2, "x": 2}],
            [{"key": "k", "a": 3}],
            [{"key": "k", "a": 3}],
            id="key-that-two-items-have",
        ),
        pytest.param(
            [{"key": "k", "a": 1, "x": 1}, {"key": "k", "a": 2, "x": 2}],
            [{"key": "k", "a": 1}, {"key": "k", "a": 3}],
            [{"key": "k", "a": 1, "x": 1}, {"key": "k", "a": 3, "x": 2}],
            id="changed-at-its-place",
        ),
        pytest.param(
            [{"a": 1, "x": 1}], [{"a": 0}, {"a": 2}], [{"a": 0}, {"a": 2}], id="inserted-before-a-changed-one"
        ),
    ],
)
def test_unknown_fields_never_move_to_another_item(raw: list[Any], changed: list[Any], expected: list[Any]) -> None:
    before = [{name: value for name, value in item.items() if name != "x"} for item in raw]
    assert rebase({"items": raw}, {"items": before}, {"items": changed}) == {"items": expected}


@pytest.mark.timeout(5)
@pytest.mark.parametrize("name", [{}, {"name": "n"}], ids=["nameless", "named"])
def test_change_of_ten_thousand_items_takes_no_time(name: dict[str, str]) -> None:
    before = [{"a": number, **{one: f"{value}{number}" for one, value in name.items()}} for number in range(10_000)]
    raw = [{**item, "x": item["a"]} for item in before]
    after = [{**item, "b": 1} for item in before]
    assert rebase(raw, before, after) == [{**item, "b": 1} for item in raw]
