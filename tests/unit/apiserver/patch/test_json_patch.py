from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kcr.apiserver.patch import json_patch
from kcr.apiserver.responses import StatusError

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
    operations = [
        {"op": "add", "path": "/a", "value": {"deep": value}},
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "add", "path": "/a/deep", "value": 1},
    ]
    assert json_patch(target, operations)["b"] == {"deep": value}
