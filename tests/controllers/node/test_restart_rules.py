"""Containers with restart policies and restart rules of their own on the node, in virtual time (KEP-5307, KEP-5532)."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kcr.api.conditions import find_condition
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import FOREVER, RunResult
from kcr_devcluster.cluster.node.pods import KubeletPod
from tests.kit.node_pods import History, create, delete, get, names, state

pytestmark = pytest.mark.kcr_virtual

Container = dict[str, object]


def runs(cluster: EmbeddedCluster, outcome_of: Callable[[str, int], RunResult]) -> None:
    assert cluster.node is not None
    cluster.node.on_run = lambda pod, container, attempt: outcome_of(container, attempt)


def container(name: str, policy: str, *codes: int, action: str = "Restart") -> Container:
    rules = [{"action": action, "exitCodes": {"operator": "In", "values": list(codes)}}] if codes else []
    own = {"name": name, "image": "app:1", "command": ["run"], "restartPolicy": policy}
    return own | ({"restartPolicyRules": rules} if rules else {})


def restarts(pod: KubeletPod) -> dict[str, int]:
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return {status.name: status.restart_count for status in statuses}


def condition(pod: KubeletPod) -> tuple[str, str]:
    found = find_condition(pod.status.conditions, "AllContainersRestarting")
    return ("", "") if found is None else (found.status, found.reason)


async def test_pod_that_never_restarts_does_so_by_a_rule(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, history: History
) -> None:
    runs(kcr_cluster, lambda name, attempt: RunResult(exit_code=42 if attempt < 2 else 3, run_for=5))
    await create(kcr_cluster.client, "a", containers=[container("main", "Never", 42)])
    await kcr_clock.advance(5 + 5 + 10 + 5)
    assert history.lines[3:] == [
        "Running running 0", "Running Error 42 0",
        "Running running 1", "Running Error 42 1", "Running CrashLoopBackOff 1",
        "Running running 2", "Failed Error 3 2",
    ]  # fmt: skip


async def test_containers_of_one_pod_have_policies_of_their_own(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    runs(kcr_cluster, lambda name, attempt: RunResult(exit_code=1 if attempt < 1 else 0, run_for=5))
    both = [container("once", "Never"), container("again", "OnFailure")]
    await create(kcr_cluster.client, "a", policy="OnFailure", containers=both)
    await kcr_clock.advance(6)
    pod = await get(kcr_cluster.client, "a")
    assert (pod.status.phase, state(pod, 0), state(pod, 1)) == ("Running", "Error 1", "running")
    await kcr_clock.advance(5)
    pod = await get(kcr_cluster.client, "a")
    assert (pod.status.phase, restarts(pod)) == ("Failed", {"once": 0, "again": 1})


async def test_init_container_is_tried_again_by_a_rule_until_it_succeeds(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    runs(kcr_cluster, lambda name, attempt: RunResult(exit_code=7 if (name, attempt) == ("init", 0) else 0, run_for=1))
    await create(kcr_cluster.client, "a", initContainers=[container("init", "Never", 7, 0)])
    await kcr_clock.advance(5)
    pod = await get(kcr_cluster.client, "a")
    assert (pod.status.phase, restarts(pod)) == ("Succeeded", {"init": 1, "main": 0})


def watched() -> dict[str, Any]:
    """A pod whose sidecar has all containers restarted when it exits with 88."""
    return {
        "initContainers": [container("init", "Never"), container("watch", "Always", 88, action="RestartAllContainers")],
        "containers": [container("main", "Never"), container("side", "Never")],
    }


def outcome(name: str, attempt: int) -> RunResult:
    if name == "watch" and attempt == 0:
        return RunResult(exit_code=88, run_for=10)
    times = {"init": 2.0, "watch": FOREVER, "main": 20.0, "side": 1.0}
    return RunResult(run_for=times[name], ignore_sigterm=name == "main")


async def test_rule_restarts_all_containers_from_the_first_one_on(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, history: History
) -> None:
    runs(kcr_cluster, outcome)
    await create(kcr_cluster.client, "a", **watched())
    await kcr_clock.advance(11)
    assert condition(await get(kcr_cluster.client, "a")) == ("False", "")
    await kcr_clock.advance(2)
    pod = await get(kcr_cluster.client, "a")
    # The main container is killed though it ignores SIGTERM, and the init container runs again.
    assert (pod.status.phase, state(pod)) == ("Pending", "RestartingAllContainers")
    assert pod.status.init_container_statuses[0].state.running is not None
    assert restarts(pod) == {"init": 1, "watch": 1, "main": 1, "side": 1}
    assert "Running Error 137 0" in history.lines
    initialized = find_condition(pod.status.conditions, "Initialized")
    assert initialized is not None and initialized.status == "True"
    await kcr_clock.advance(40)
    pod = await get(kcr_cluster.client, "a")
    assert (pod.status.phase, restarts(pod)) == ("Succeeded", {"init": 1, "watch": 1, "main": 1, "side": 1})
    assert condition(pod) == ("False", "PodCompleted")


async def test_pod_that_restarts_all_its_containers_can_be_deleted(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    runs(kcr_cluster, outcome)
    await create(kcr_cluster.client, "a", grace=5, **watched())
    await kcr_clock.advance(12.5)
    await delete(kcr_cluster.client, "a")
    await kcr_clock.advance(10)
    assert await names(kcr_cluster.client) == set()


async def test_restart_that_a_node_did_not_live_to_see_is_counted_once(kcr_clock: VirtualClock, tmp_path: Path) -> None:
    def failing(pod: KubeletPod, name: str, attempt: int) -> RunResult:
        return RunResult(exit_code=88 if attempt < 2 else 0, run_for=5)

    async with EmbeddedCluster(clock=kcr_clock, random=Random(1), on_run=failing, data_dir=tmp_path) as before:
        await create(before.client, "a", containers=[container("main", "Never", 88, action="RestartAllContainers")])
        await kcr_clock.advance(15)
        pod = await get(before.client, "a")
        assert (state(pod), restarts(pod)) == ("RestartingAllContainers", {"main": 2})
    async with EmbeddedCluster(clock=kcr_clock, random=Random(2), on_run=failing, data_dir=tmp_path) as after:
        await kcr_clock.advance(10)
        pod = await get(after.client, "a")
        assert (pod.status.phase, restarts(pod)) == ("Succeeded", {"main": 2})
