"""Field sets. Source: sigs.k8s.io/structured-merge-diff, fieldpath/{set,serialize}_test.go."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcr_devcluster.apiserver.apply import fieldpath
from kcr_devcluster.apiserver.apply.fieldpath import LEAF, FieldSet, difference, intersection, union

ELEMENTS = st.sampled_from(["f:a", "f:b", 'k:{"name":"c"}', 'v:"x"'])
BELOW = st.recursive(
    st.just(LEAF),
    lambda inner: st.builds(
        lambda rest, member: {**rest, **(LEAF if member else {})},
        st.dictionaries(ELEMENTS, inner, min_size=1, max_size=3),
        st.booleans(),
    ),
    max_leaves=8,
)
SETS: st.SearchStrategy[FieldSet] = st.dictionaries(ELEMENTS, BELOW, max_size=3)


def members(fields: FieldSet, prefix: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """Return the paths of a set as a set of Python: the model of it."""
    found: set[tuple[str, ...]] = set()
    for element, inner in fields.items():
        found |= {prefix} if element == "." else members(inner, (*prefix, element))
    return found


@given(SETS, SETS)
def test_operations_are_those_of_sets_of_paths(one: FieldSet, other: FieldSet) -> None:
    assert members(union(one, other)) == members(one) | members(other)
    assert members(difference(one, other)) == members(one) - members(other)
    assert members(intersection(one, other)) == members(one) & members(other)


@given(SETS, SETS)
def test_equal_sets_are_equal_values(one: FieldSet, other: FieldSet) -> None:
    assert union(one, other) == union(other, one)
    assert union(difference(one, other), intersection(one, other)) == one
    assert difference(one, one) == {}


@given(SETS)
def test_encoded_sets_are_decoded(fields: FieldSet) -> None:
    assert fieldpath.decode(fieldpath.encode(fields)) == fields


@pytest.mark.parametrize(
    ("fields_v1", "shown"),
    [
        pytest.param({"f:data": {"f:a": {}, "f:b": {}}}, [".data.a", ".data.b"], id="fields"),
        pytest.param({"f:labels": {".": {}, "f:x": {}}}, [".labels", ".labels.x"], id="member-with-members"),
        pytest.param(
            {"f:ports": {'k:{"protocol":"TCP","port":80}': {".": {}, "f:name": {}}}},
            ['.ports[port=80,protocol="TCP"]', '.ports[port=80,protocol="TCP"].name'],
            id="keys-in-order",
        ),
        pytest.param({"f:finalizers": {'v:"a/b"': {}}}, ['.finalizers[="a/b"]'], id="value"),
        pytest.param({"f:rules": {"i:0": {}}}, [".rules[0]"], id="index"),
    ],
)
def test_paths_are_shown_as_in_messages(fields_v1: FieldSet, shown: list[str]) -> None:
    # AS 11.2, 11.4
    assert list(fieldpath.paths(fieldpath.decode(fields_v1))) == shown


@pytest.mark.parametrize(
    "fields_v1", ["x", {"a": {}}, {"x:a": {}}, {"k:[]": {}}, {"v:{": {}}, {"f:a": None}, {"f:a": {"f:b": 1}}]
)
def test_what_is_no_set_is_refused(fields_v1: Any) -> None:
    with pytest.raises(ValueError):  # each of them with words of its own
        fieldpath.decode(fields_v1)
