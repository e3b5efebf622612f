from contextlib import suppress
from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kcr_devcluster.apiserver.patch import strategic_patch
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.responses import StatusError
from kcr_devcluster.apiserver.schema.builtin import kind_shape

POD = kind_shape("v1", "Pod")
NAMES = st.sampled_from("abcd")
TEXTS = st.sampled_from("xyz")


def items(key: str, inner: st.SearchStrategy[Manifest]) -> st.SearchStrategy[list[Manifest]]:
    named = st.tuples(NAMES, inner).map(lambda pair: {key: pair[0], **pair[1]})
    return st.lists(named, max_size=4, unique_by=lambda item: item[key])


ENV = items("name", st.fixed_dictionaries({}, optional={"value": TEXTS}))
CONTAINERS = items("name", st.fixed_dictionaries({}, optional={"image": TEXTS, "env": ENV, "args": st.lists(TEXTS)}))
PODS = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries(
            {},
            optional={
                "labels": st.dictionaries(NAMES, TEXTS),
                "finalizers": st.lists(NAMES, unique=True),
                "ownerReferences": items("uid", st.fixed_dictionaries({}, optional={"name": TEXTS})),
            },
        ),
        "spec": st.fixed_dictionaries(
            {},
            optional={"containers": CONTAINERS, "nodeSelector": st.dictionaries(NAMES, TEXTS), "nodeName": TEXTS},
        ),
    },
)


def named(pod: Manifest) -> list[str]:
    return [container["name"] for container in pod.get("spec", {}).get("containers", [])]


DIRECTIVES = [
    "$patch", "$retainKeys", "$setElementOrder/containers", "$setElementOrder/finalizers",
    "$deleteFromPrimitiveList/finalizers", "$deleteFromPrimitiveList/containers",
]  # fmt: skip
MEMBERS = ["metadata", "spec", "containers", "finalizers", "ownerReferences", "labels", "name", "uid", "env"]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["a", "b", "delete", "replace", "merge"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(DIRECTIVES + MEMBERS), inner, max_size=4)
    ),
    max_leaves=8,
)
ANY_MAP = st.dictionaries(st.sampled_from([*DIRECTIVES, *MEMBERS]), ANYTHING, max_size=4)


@given(PODS, st.fixed_dictionaries({"metadata": ANY_MAP, "spec": ANY_MAP}))
def test_any_patch_applies_or_is_refused(target: Manifest, patch: Manifest) -> None:
    before = deepcopy(target)
    with suppress(StatusError):
        assert isinstance(strategic_patch(POD, target, patch), dict)
    assert target == before


@given(PODS, PODS)
def test_patch_without_directives_applies_once_and_for_all(target: Manifest, patch: Manifest) -> None:
    once = strategic_patch(POD, target, patch)
    assert strategic_patch(POD, once, patch) == once


@given(PODS)
def test_object_as_its_own_patch_changes_nothing(target: Manifest) -> None:
    assert strategic_patch(POD, target, target) == target
    assert strategic_patch(POD, target, {}) == target


@given(PODS, PODS)
def test_neither_target_nor_patch_is_touched(target: Manifest, patch: Manifest) -> None:
    before = deepcopy((target, patch))
    result: Any = strategic_patch(POD, target, patch)
    result.get("metadata", {}).setdefault("labels", {})["new"] = "yes"
    for container in result.get("spec", {}).get("containers", []):
        container["touched"] = True
    assert patch == before[1]
    assert strategic_patch(POD, before[0], patch) == strategic_patch(POD, before[0], before[1])


@given(PODS, PODS)
def test_merged_list_holds_every_item_once(target: Manifest, patch: Manifest) -> None:
    result = strategic_patch(POD, target, patch)
    assert sorted(named(result)) == sorted({*named(target), *named(patch)})


@given(PODS, PODS)
def test_items_of_patch_keep_their_order(target: Manifest, patch: Manifest) -> None:
    order = named(patch)
    assert [name for name in named(strategic_patch(POD, target, patch)) if name in order] == order


@given(PODS, PODS)
def test_items_only_on_server_keep_their_order(target: Manifest, patch: Manifest) -> None:
    order = [name for name in named(target) if name not in named(patch)]
    assert [name for name in named(strategic_patch(POD, target, patch)) if name in order] == order


@given(PODS, st.permutations("abcd"))
def test_order_directive_sorts_the_whole_list(target: Manifest, order: list[str]) -> None:
    target = {**target, "spec": {"containers": [{"name": name} for name in "abcd"]}}
    patch = {"spec": {"$setElementOrder/containers": [{"name": name} for name in order]}}
    assert named(strategic_patch(POD, target, patch)) == list(order)
