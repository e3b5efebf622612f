"""Sizes of a Deployment's ReplicaSets.

Source: kubernetes/pkg/controller/deployment, rolling_test.go and sync_test.go (TestScale); the rows are written anew.
"""

import pytest

from kcr.api.apps import DeploymentStatus, DeploymentStrategy, ReplicaSet
from kcr_devcluster.cluster.workloads.revisions import History
from kcr_devcluster.cluster.workloads.rollout import (
    Resize,
    is_scaled,
    max_surge,
    max_unavailable,
    new_size,
    resize_in_proportion,
    resize_new,
    resize_old,
)
from tests.kit.workloads import deployed, sized

RECREATE = DeploymentStrategy(type="Recreate")


def sizes(resizes: tuple[Resize, ...]) -> dict[str, int]:
    return {resize.replica_set.metadata.name: resize.replicas for resize in resizes}


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "bounds"),
    [
        pytest.param(10, "25%", "25%", (3, 2), id="surge-rounds-up"),
        pytest.param(1, "25%", "25%", (1, 0), id="one-pod-is-never-missing"),
        pytest.param(10, 0, "1%", (0, 1), id="one-moves-at-least"),
        pytest.param(2, 0, 5, (0, 2), id="no-more-than-there-are"),
        pytest.param(0, "25%", "25%", (0, 0), id="none"),
        pytest.param(3, 1, 0, (1, 0), id="numbers"),
    ],
)
def test_percentages_are_of_the_desired_number(
    replicas: int, surge: int | str, unavailable: int | str, bounds: tuple[int, int]
) -> None:
    web = deployed(replicas, surge=surge, unavailable=unavailable)
    assert (max_surge(web), max_unavailable(web)) == bounds


@pytest.mark.parametrize(
    ("replicas", "surge", "old", "new", "size"),
    [
        pytest.param(10, 0, 10, 0, 0, id="no-room"),
        pytest.param(10, 2, 10, 0, 2, id="as-much-as-the-surge"),
        pytest.param(10, 2, 5, 0, 7, id="as-old-ones-leave"),
        pytest.param(10, 2, 10, 2, 2, id="room-is-used-up"),
        pytest.param(10, 2, 2, 8, 10, id="up-to-the-end"),
        pytest.param(2, 1, 10, 2, 2, id="many-old-ones"),
    ],
)
def test_new_pods_come_as_far_as_the_surge_allows(replicas: int, surge: int, old: int, new: int, size: int) -> None:
    web, history = deployed(replicas, surge=surge), History(sized("v2", new), (sized("v1", old),))
    assert new_size(web, history) == size
    assert sizes(resize_new(web, history)) == ({} if size == new else {"v2": size})


def test_new_pods_that_are_too_many_are_taken_away_at_once() -> None:
    assert sizes(resize_new(deployed(2), History(sized("v2", 5), ()))) == {"v2": 2}


@pytest.mark.parametrize(
    ("unavailable", "old", "new", "expected"),
    [
        pytest.param(0, [(10, 10)], (0, 0), {}, id="none-may-be-missing"),
        pytest.param(2, [(10, 10)], (0, 0), {"old-0": 8}, id="as-many-as-may-be-missing"),
        pytest.param(2, [(8, 8)], (2, 0), {}, id="new-ones-are-not-available-yet"),
        pytest.param(2, [(8, 8)], (4, 2), {"old-0": 6}, id="new-ones-are"),
        pytest.param(2, [(10, 8)], (0, 0), {"old-0": 8}, id="unhealthy-first"),
        pytest.param(2, [(2, 2), (10, 8)], (0, 0), {"old-1": 8, "old-0": 0}, id="unhealthy-then-oldest"),
        pytest.param(0, [(0, 0)], (10, 10), {}, id="done"),
        # The status lags behind the spec: more are available than wanted.
        pytest.param(2, [(8, 10)], (3, 0), {}, id="status-lags"),
    ],
)
def test_old_pods_go_without_too_few_being_available(
    unavailable: int, old: list[tuple[int, int]], new: tuple[int, int], expected: dict[str, int]
) -> None:
    older = tuple(sized(f"old-{number}", *counts) for number, counts in enumerate(old))
    found = resize_old(deployed(10, surge=5, unavailable=unavailable), History(sized("v2", *new), older))
    assert sizes(found) == expected


@pytest.mark.parametrize(
    ("replicas", "surge", "old", "new", "expected"),
    [
        pytest.param(12, 0, [], 10, {"v2": 12}, id="one-grows"),
        pytest.param(0, 0, [], 10, {"v2": 0}, id="to-zero"),
        pytest.param(20, 0, [5], 5, {"v2": 10, "old-0": 10}, id="halves-grow"),
        pytest.param(5, 0, [5], 5, {"v2": 3, "old-0": 2}, id="rounding-is-at-the-oldest"),
        pytest.param(12, 0, [3], 7, {"v2": 8, "old-0": 4}, id="shares-are-rounded"),
        pytest.param(0, 0, [3], 7, {"v2": 0, "old-0": 0}, id="all-to-zero"),
        pytest.param(20, 2, [10], 2, {"old-0": 18, "v2": 4}, id="the-surge-grows-with-it"),
        pytest.param(10, 0, [8], 2, {"old-0": 8, "v2": 2}, id="only-annotations"),
    ],
)
def test_scaling_in_the_middle_of_a_rollout_keeps_the_proportions(
    replicas: int, surge: int, old: list[int], new: int, expected: dict[str, int]
) -> None:
    before = sum(old) + new
    older = tuple(sized(f"old-{number}", size, desired=before - surge, most=before) for number, size in enumerate(old))
    newest = sized("v2", new, desired=before - surge, most=before)
    web = deployed(replicas, surge=surge, unavailable=1, status=DeploymentStatus(replicas=before))
    assert sizes(resize_in_proportion(web, History(newest, older))) == expected


def test_old_pods_all_go_once_the_new_ones_are_complete() -> None:
    history = History(sized("v2", 3, desired=3), (sized("v1", 1, desired=2),))
    assert sizes(resize_in_proportion(deployed(3), history)) == {"v1": 0}


def test_paused_deployment_without_pods_scales_its_newest_replica_set() -> None:
    history = History(None, (sized("v0", 0), sized("v1", 0)))
    assert sizes(resize_in_proportion(deployed(3), history)) == {"v1": 3}
    assert resize_in_proportion(deployed(3), History(None, ())) == ()


@pytest.mark.parametrize(
    ("replica_set", "expected"),
    [
        pytest.param(sized("v2", 3, desired=5), True, id="another-number"),
        pytest.param(sized("v2", 3, desired=3), False, id="the-same"),
        pytest.param(sized("v2", 3), False, id="unknown"),
        pytest.param(sized("v2", 0, desired=5), False, id="not-active"),
    ],
)
def test_deployment_is_scaled_when_its_number_has_changed(replica_set: ReplicaSet, expected: bool) -> None:
    assert is_scaled(deployed(3), History(replica_set, ())) is expected


def test_recreate_allows_neither_more_nor_fewer_pods() -> None:
    web = deployed(3, strategy=RECREATE)
    assert (max_surge(web), max_unavailable(web), new_size(web, History(None, ()))) == (0, 0, 3)
