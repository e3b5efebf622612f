"""The decisions by themselves: values in, values out."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from examples.replicaset.api import ReplicaSet, ReplicaSetSpec
from examples.replicaset.decide import (
    BURST_REPLICAS,
    Plan,
    available_in,
    compute_status,
    failed,
    next_availability,
    plan,
)
from kcr import ForbiddenError
from kcr.api.core import Pod
from kcr.testing import build

NOW = build.CREATED + timedelta(minutes=1)


def owner(replicas: int | None = 2, *, min_ready_seconds: int = 0) -> ReplicaSet:
    return ReplicaSet(
        metadata=build.metadata("web", generation=3),
        spec=ReplicaSetSpec(replicas=replicas, min_ready_seconds=min_ready_seconds),
    )


def running(name: str, *, ready: bool = True) -> Pod:
    return build.pod(name, "Running", ready=ready)


def terminating(name: str) -> Pod:
    pod = running(name)
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp=NOW))


@pytest.mark.parametrize(
    ("replicas", "pods", "create", "delete"),
    [
        pytest.param(2, [], 2, [], id="none-yet"),
        pytest.param(None, [], 1, [], id="one-by-default"),
        pytest.param(2, [running("a"), running("b")], 0, [], id="as-wanted"),
        pytest.param(2, [running("a"), terminating("b")], 1, [], id="terminating-is-replaced"),
        pytest.param(1, [build.pod("a", "Succeeded")], 1, [], id="finished-is-replaced"),
        pytest.param(1, [running("a"), build.pod("b")], 0, ["b"], id="unscheduled-first"),
        pytest.param(1, [running("a"), running("b", ready=False)], 0, ["b"], id="not-ready-first"),
        pytest.param(0, [], 0, [], id="none-wanted"),
        pytest.param(BURST_REPLICAS + 1, [], BURST_REPLICAS, [], id="burst"),
    ],
)
def test_pods_are_created_or_deleted_until_the_number_is_right(
    replicas: int | None, pods: list[Pod], create: int, delete: list[str]
) -> None:
    found = plan(owner(replicas), pods)
    assert (found.create, [pod.metadata.name for pod in found.delete]) == (create, delete)


def test_pods_of_a_deleted_owner_are_left_to_the_garbage_collector() -> None:
    web = owner(0)
    assert plan(replace(web, metadata=replace(web.metadata, deletion_timestamp=NOW)), [running("a")]) == Plan()


@pytest.mark.parametrize(
    ("seconds", "ready", "wait"),
    [
        pytest.param(0, True, timedelta(), id="at-once"),
        pytest.param(60, True, timedelta(), id="just-now"),
        pytest.param(90, True, timedelta(seconds=30), id="later"),
        pytest.param(90, False, None, id="not-ready"),
    ],
)
def test_pod_is_available_once_it_has_been_ready_for_long_enough(
    seconds: int, ready: bool, wait: timedelta | None
) -> None:
    assert available_in(owner(min_ready_seconds=seconds), running("a", ready=ready), NOW) == wait


def test_status_counts_pods_by_what_they_are() -> None:
    web = owner(min_ready_seconds=90)
    status = compute_status(web, [running("a"), running("b", ready=False), terminating("c")], None, NOW)
    counts = (status.replicas, status.ready_replicas, status.available_replicas, status.terminating_replicas)
    assert counts == (2, 1, 0, 1)
    assert status.observed_generation == 3
    assert next_availability(web, [running("a"), running("b", ready=False)], NOW) == timedelta(seconds=30)


def test_failure_is_a_condition_until_it_is_over() -> None:
    web, todo = owner(), Plan(create=2)
    status = compute_status(web, [], failed(todo, ForbiddenError(403, "Forbidden", "quota of web-a")), NOW)
    assert [(one.type, one.reason, one.message) for one in status.conditions] == [
        ("ReplicaFailure", "FailedCreate", "quota of web-a")
    ]
    web = replace(web, status=status)
    # A new message alone changes nothing: the status would change with each retry.
    assert compute_status(web, [], failed(todo, ForbiddenError(403, "Forbidden", "quota of web-b")), NOW) == status
    assert compute_status(web, [], failed(todo, None), NOW).conditions == ()
