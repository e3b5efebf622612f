"""How values merge. Source: sigs.k8s.io/structured-merge-diff, typed/merge_test.go and merge/*_test.go."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcr_devcluster.apiserver.apply import fieldpath
from kcr_devcluster.apiserver.apply.merge import merge, prune
from kcr_devcluster.apiserver.apply.typed import all_paths, field_set
from kcr_devcluster.apiserver.schema.builtin import kind_shape
from kcr_devcluster.apiserver.schema.shape import Field

POD = Field(kind_shape("v1", "Pod").type)
NAMES = st.sampled_from("abcdef")
LISTS = st.lists(NAMES, unique=True)


def named(names: Any, **members: Any) -> Any:
    return {"spec": {"volumes": [{"name": name, **members} for name in names]}}


def finalizers(*names: str) -> Any:
    return {"metadata": {"finalizers": list(names)}}


@pytest.mark.parametrize(
    ("live", "config", "result"),
    [
        pytest.param({}, named("a"), named("a"), id="absent"),
        pytest.param({"spec": {"a": 1, "b": 1}}, {"spec": {"b": 2}}, {"spec": {"a": 1, "b": 2}}, id="by-name"),
        pytest.param(
            {"spec": {"nodeSelector": {"a": "1"}}}, {"spec": {"nodeSelector": {"b": "1"}}},
            {"spec": {"nodeSelector": {"b": "1"}}}, id="atomic-map-is-replaced",
        ),
        pytest.param(
            {"spec": {"tolerations": [{"key": "a"}]}}, {"spec": {"tolerations": []}}, {"spec": {"tolerations": []}},
            id="atomic-list-is-replaced",
        ),
        pytest.param(named("a"), {"spec": {"volumes": None}}, named("a"), id="null-says-nothing-of-a-list"),
        pytest.param(
            {"metadata": {"labels": {"a": "1"}}}, {"metadata": {"labels": None}}, {"metadata": {"labels": {"a": "1"}}},
            id="null-says-nothing-of-a-map",
        ),
        pytest.param({"x": {"a": 1}}, {"x": 5}, {"x": 5}, id="scalar-replaces-what-no-schema-names"),
        pytest.param({"spec": {"priority": 1}}, {"spec": {"priority": None}}, {"spec": {"priority": None}}, id="null"),
        pytest.param(named("ab", x=1), named("b", y=1), {"spec": {"volumes": [
            {"name": "a", "x": 1}, {"name": "b", "x": 1, "y": 1},
        ]}}, id="items-by-key"),
        pytest.param(finalizers("a", "b"), finalizers("b", "c"), finalizers("a", "b", "c"), id="set"),
        pytest.param(named("ab"), named("ba"), named("ba"), id="order-of-the-configuration"),
        pytest.param(named("abc"), named("d"), named("abcd"), id="new-items-last"),
        pytest.param(named("axb"), named("nb"), named("axnb"), id="new-items-before-the-next-common-one"),
        pytest.param(named("bax"), named("ab"), named("axb"), id="others-keep-their-place"),
    ],
)  # fmt: skip
def test_values_merge_by_their_types(live: Any, config: Any, result: Any) -> None:
    # AS 10.6, 11.3
    assert merge(POD, live, config) == result


@given(LISTS, LISTS)
def test_merged_lists_keep_the_order_of_the_configuration(live: list[str], config: list[str]) -> None:
    found = [item["name"] for item in merge(POD, named(live), named(config))["spec"]["volumes"]]
    assert [name for name in found if name in config] == config
    assert [name for name in found if name not in config] == [name for name in live if name not in config]


@given(LISTS, LISTS, LISTS)
def test_pruning_removes_what_is_left_out_and_nobody_owns(last: list[str], config: list[str], other: list[str]) -> None:
    live = named(dict.fromkeys([*last, *config, *other]))
    mine, theirs = field_set(POD, named(config)), field_set(POD, named(other))
    pruned = prune(POD, live, field_set(POD, named(last)), fieldpath.union(mine, theirs))
    left = {item["name"] for item in pruned["spec"].get("volumes", [])} if "spec" in pruned else set()
    assert left == set(config) | set(other)


@given(LISTS, LISTS)
def test_what_is_applied_exists_and_applies_again_without_effect(live: list[str], config: list[str]) -> None:
    once = merge(POD, named(live), named(config))
    assert merge(POD, once, named(config)) == once
    owned = field_set(POD, named(config))
    assert fieldpath.intersection(owned, all_paths(POD, once)) == owned


@pytest.mark.parametrize(
    ("last", "owned", "left"),
    [
        pytest.param({"spec": {"a": 1}}, {}, {}, id="with-what-held-it"),
        pytest.param({"spec": {"a": 1}}, {"spec": {"b": 1}}, {"spec": {"b": 2}}, id="beside-what-is-owned"),
        pytest.param({"spec": {"a": 1}}, {"spec": {"a": 1}}, {"spec": {"a": 1, "b": 2}}, id="shared"),
    ],
)
def test_fields_stay_while_something_below_is_owned(last: Any, owned: Any, left: Any) -> None:
    found = prune(POD, {"spec": {"a": 1, "b": 2}}, field_set(POD, last), field_set(POD, owned))
    assert found == left


@pytest.mark.parametrize(
    ("others", "left"), [pytest.param({}, {}, id="alone"), pytest.param({"b": "2"}, {"b": "2"}, id="with-another")]
)
def test_granular_map_is_emptied(others: dict[str, str], left: dict[str, str]) -> None:
    def labels(entries: dict[str, str]) -> Any:
        return {"metadata": {"labels": entries}}

    merged = merge(POD, labels({"a": "1", **others}), labels({}))
    owned = fieldpath.union(field_set(POD, labels({})), field_set(POD, labels(others)) if others else {})
    assert prune(POD, merged, field_set(POD, labels({"a": "1"})), owned) == labels(left)


def test_items_go_with_what_others_own_in_them() -> None:
    # Who sets the image of a container does not own the container.
    live = named("a", image="x")
    theirs = {"f:spec": {"f:volumes": {'k:{"name":"a"}': {"f:image": fieldpath.LEAF}}}}
    assert prune(POD, live, field_set(POD, named("a")), theirs) == {"spec": {}}
