"""How many pods to create or delete, the owners that may adopt, and the condition of failures."""

from datetime import timedelta

import pytest

from kcr import ForbiddenError, Key
from kcr.api.apps import ReplicaSet, ReplicaSetSpec
from kcr.api.core import Pod
from kcr.api.selectors import LabelSelector
from kcr.client import Client
from kcr.controller import OwnWrites
from kcr.dependents.replicas import (
    BURST_REPLICAS,
    Scaling,
    adopters,
    claim_selected,
    plan_scaling,
    set_replica_failure,
)
from kcr.informer import Store
from kcr.testing import FakeInformer, VirtualClock, build
from tests.kit.scripted_transport import Script

NOW = build.CREATED + timedelta(minutes=1)


def running(name: str, *, ready: bool = True, going: bool = False) -> Pod:
    return build.pod(name, "Running", ready=ready, deletion_timestamp=NOW if going else None)


def web(**labels: str) -> ReplicaSet:
    return ReplicaSet(metadata=build.metadata("web"), spec=ReplicaSetSpec(selector=LabelSelector(match_labels=labels)))


@pytest.mark.parametrize(
    ("replicas", "pods", "create", "delete"),
    [
        pytest.param(2, [], 2, [], id="none-yet"),
        pytest.param(2, [running("a"), running("b")], 0, [], id="as-wanted"),
        pytest.param(2, [running("a"), running("b", going=True)], 1, [], id="terminating-is-replaced"),
        pytest.param(1, [build.pod("a", "Succeeded")], 1, [], id="finished-is-replaced"),
        pytest.param(1, [running("a"), running("b", ready=False)], 0, ["b"], id="not-ready-first"),
        pytest.param(0, [], 0, [], id="none-wanted"),
        pytest.param(BURST_REPLICAS + 1, [], BURST_REPLICAS, [], id="burst"),
    ],
)
def test_pods_are_created_or_deleted_until_the_number_is_right(
    replicas: int, pods: list[Pod], create: int, delete: list[str]
) -> None:
    found = plan_scaling(web(), pods, replicas)
    assert (found.create, [pod.metadata.name for pod in found.delete]) == (create, delete)


def test_pods_of_a_deleted_owner_are_left_to_the_garbage_collector() -> None:
    going = ReplicaSet(metadata=build.metadata("web", deletion_timestamp=NOW))
    assert plan_scaling(going, [running("a")], 0) == Scaling()


def test_owner_may_adopt_what_it_selects_and_nothing_controls() -> None:
    store: Store[ReplicaSet] = Store()
    store.put(web(app="web"))
    may_adopt = adopters(store, lambda owner: owner.spec.selector)
    assert list(may_adopt(build.pod("a", labels={"app": "web"}))) == [Key("default", "web")]
    assert list(may_adopt(build.pod("a", labels={"app": "db"}))) == []
    assert list(may_adopt(build.pod("a", labels={"app": "web"}, owner=web()))) == []


@pytest.mark.kcr_virtual
async def test_pod_that_was_deleted_is_not_claimed_though_the_store_shows_it(kcr_clock: VirtualClock) -> None:
    owner, selector, own_writes = web(app="web"), LabelSelector(match_labels={"app": "web"}), OwnWrites()
    pods = FakeInformer(Pod)
    for name in ("a", "b", "finished"):
        pods.add(build.pod(name, labels={"app": "web"}, owner=owner))
    (deleted,) = (pod for pod in pods.store.snapshot() if pod.metadata.name == "a")
    own_writes.of(owner).expect_deletion(pods.store, deleted)
    claimed = await claim_selected(
        Client(Script()), owner, selector, pods.store, own_writes, among=lambda pod: pod.metadata.name != "finished"
    )
    assert [pod.metadata.name for pod in claimed] == ["b"]


def test_failure_is_a_condition_until_it_is_over() -> None:
    scaling = Scaling(create=2)
    failed = set_replica_failure((), scaling, ForbiddenError(403, "Forbidden", "quota of web-a"), NOW)
    assert [(one.type, one.reason, one.message) for one in failed] == [
        ("ReplicaFailure", "FailedCreate", "quota of web-a")
    ]
    # A new message alone changes nothing: the status would change with each retry.
    again = set_replica_failure(failed, scaling, ForbiddenError(403, "Forbidden", "quota of web-b"), NOW)
    assert again is failed
    assert set_replica_failure(failed, scaling, None, NOW) == ()
