from collections.abc import Mapping
from typing import Any

import pytest

from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.api.selectors import LabelSelector, Requirement
from kcr.controller import (
    Predicate,
    Source,
    all_of,
    annotations_changed,
    any_of,
    finalizers_changed,
    generation_changed,
    labels_changed,
    labels_match,
    none_of,
    owned,
    resource_version_changed,
    watch,
)
from kcr.controller.sources import EnqueueRequests
from kcr.testing import build


def pod(version: str = "1", **metadata: Any) -> Pod:
    return build.pod("pod", resource_version=version, **{"generation": 1} | metadata)


def yes(old: Pod | None, new: Pod | None) -> bool:
    return True


def no(old: Pod | None, new: Pod | None) -> bool:
    return False


CHANGES = [resource_version_changed, generation_changed, labels_changed, annotations_changed, finalizers_changed]


@pytest.mark.parametrize(
    ("changed", "passing"),
    [
        pytest.param(pod(), [], id="same-again"),
        pytest.param(pod("2"), [resource_version_changed], id="status"),
        pytest.param(pod("2", generation=2), [resource_version_changed, generation_changed], id="spec"),
        pytest.param(pod("2", labels={"a": "b"}), [resource_version_changed, labels_changed], id="labels"),
        pytest.param(
            pod("2", annotations={"a": "b"}), [resource_version_changed, annotations_changed], id="annotations"
        ),
        pytest.param(pod("2", finalizers=("a/b",)), [resource_version_changed, finalizers_changed], id="finalizers"),
    ],
)
def test_each_predicate_sees_its_own_part(changed: Pod, passing: list[Predicate]) -> None:  # CM-17
    assert [predicate for predicate in CHANGES if predicate(pod(), changed)] == passing


@pytest.mark.parametrize("predicate", CHANGES)
def test_coming_and_going_are_changes_of_every_kind(predicate: Predicate) -> None:  # CM-17
    assert predicate(None, pod())
    assert predicate(pod(), None)


@pytest.mark.parametrize(
    ("old", "new", "passes"),
    [
        pytest.param(None, pod(labels={"app": "web"}), True, id="created"),
        pytest.param(None, pod(), False, id="created-without"),
        pytest.param(pod(labels={"app": "web"}), pod(), True, id="leaving"),
        pytest.param(pod(), pod(labels={"app": "web"}), True, id="joining"),
        pytest.param(pod(labels={"app": "web"}), None, True, id="deleted"),
    ],
)
@pytest.mark.parametrize(
    "selector",
    [
        pytest.param({"app": "web"}, id="labels"),
        pytest.param(
            LabelSelector(match_expressions=(Requirement(key="app", operator="Exists"),)), id="whole-selector"
        ),
    ],
)
def test_object_that_leaves_a_selection_is_noticed(
    selector: LabelSelector | Mapping[str, str], old: Pod | None, new: Pod | None, passes: bool
) -> None:  # CM-17
    assert labels_match(selector)(old, new) == passes


@pytest.mark.parametrize(
    ("predicate", "passes"),
    [
        pytest.param(all_of(yes, yes), True, id="all-pass"),
        pytest.param(all_of(yes, no), False, id="not-all-pass"),
        pytest.param(any_of(no, yes), True, id="one-passes"),
        pytest.param(any_of(no, no), False, id="none-passes"),
        pytest.param(none_of(no, no), True, id="negated"),
        pytest.param(none_of(no, yes), False, id="negated-one-passes"),
        pytest.param(all_of(any_of(no, yes), none_of(no)), True, id="nested"),
    ],
)
def test_predicates_combine(predicate: Predicate, passes: bool) -> None:  # CM-17
    assert predicate(None, pod()) == passes


@pytest.mark.parametrize(
    "source", [watch(Pod, predicate=no), owned(Pod, by=Pod, only_controller_owner=False, predicate=no)]
)
def test_change_that_does_not_matter_brings_no_key(source: Source) -> None:  # CM-17
    added: list[Key] = []
    handler = EnqueueRequests("web", source, lambda key, *_: added.append(key))
    handler.on_add(pod(), False)
    handler.on_update(pod(), pod("2"))
    handler.on_delete(pod(), False)
    assert added == []


def test_predicate_is_told_what_was_and_what_is() -> None:
    told: list[tuple[Pod | None, Pod | None]] = []

    def note(old: Pod | None, new: Pod | None) -> bool:
        told.append((old, new))
        return True

    added: list[Key] = []
    handler = EnqueueRequests("web", watch(Pod, predicate=note), lambda key, *_: added.append(key))
    first, second = pod(), pod("2")
    handler.on_add(first, False)
    handler.on_update(first, second)
    handler.on_delete(second, False)
    assert told == [(None, first), (first, second), (second, None)]
    assert added == [Key("default", "pod")] * 3


@pytest.mark.parametrize(("version", "passes"), [("2", True), ("1", False)])
def test_update_of_a_kind_without_generations_passes_with_a_new_version(version: str, passes: bool) -> None:
    assert generation_changed(pod("1", generation=None), pod(version, generation=None)) is passes
