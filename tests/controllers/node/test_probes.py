"""Probes and lifecycle hooks on the node, in virtual time."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from kcr.api.conditions import find_condition
from kcr.api.meta import Key
from kcr.client import Client
from kcr.testing import VirtualClock
from kcr_devcluster.cluster.node import FOREVER, RunResult
from kcr_devcluster.cluster.node.pods import KubeletPod
from tests.kit.node_pods import create, delete, events, get, names, state
from tests.kit.probed_node import NO, OK, Answers, does, probed_node

pytestmark = pytest.mark.kcr_virtual

Run = Callable[..., Awaitable[None]]


@pytest_asyncio.fixture
async def answers() -> Answers:
    return Answers(ready=OK, alive=OK, up=OK, hook=OK)


@pytest_asyncio.fixture
async def client(kcr_clock: VirtualClock, answers: Answers) -> AsyncIterator[Client]:
    async with probed_node(kcr_clock, answers) as client:
        yield client


async def run(client: Client, *, policy: str = "Always", sidecar: bool = False, **container: object) -> None:
    """Create pod `a` whose container (or sidecar) has these probes and hooks."""
    main = {"name": "main", "image": "app:1", "command": ["run"]}
    if sidecar:
        side = {**main, "name": "side", "restartPolicy": "Always", **container}
        await create(client, "a", policy=policy, nodeName="n", containers=[main], initContainers=[side])
    else:
        await create(client, "a", policy=policy, nodeName="n", containers=[main | container])


async def said(client: Client, *reasons: str) -> list[tuple[str, int, str]]:
    return [event for event in await events(client, "a") if event[0] in reasons]


def flags(pod: KubeletPod) -> tuple[bool | None, bool, str, str]:
    """`started` and `ready` of the container, and the conditions ContainersReady and Ready."""
    status = pod.status.container_statuses[0]
    found = [find_condition(pod.status.conditions, kind) for kind in ("ContainersReady", "Ready")]
    ready, pod_ready = (condition.status if condition else "" for condition in found)
    return status.started, status.ready, ready, pod_ready


async def test_readiness_follows_its_probe(client: Client, answers: Answers, kcr_clock: VirtualClock) -> None:
    answers.set("ready", NO)
    await run(client, readinessProbe=does("ready", periodSeconds=5, failureThreshold=2))
    await kcr_clock.advance(1)
    assert flags(await get(client, "a")) == (True, False, "False", "False")
    answers.set("ready", OK)
    await kcr_clock.advance(5)
    assert flags(await get(client, "a")) == (True, True, "True", "True")
    answers.set("ready", NO)
    await kcr_clock.advance(5)
    assert flags(await get(client, "a"))[1]
    await kcr_clock.advance(5)
    assert flags(await get(client, "a")) == (True, False, "False", "False")
    assert answers.moments("ready") == [0.5, 5.5, 10.5, 15.5]
    assert await said(client, "Unhealthy") == [("Unhealthy", 3, "Readiness probe failed: no")]


async def test_failed_liveness_restarts_the_container(
    client: Client, answers: Answers, kcr_clock: VirtualClock
) -> None:
    await run(client, livenessProbe=does("alive", initialDelaySeconds=20, periodSeconds=5, failureThreshold=2))
    await kcr_clock.advance(19)
    assert answers.moments("alive") == []
    answers.set("alive", NO)
    await kcr_clock.advance(6.5)
    pod = await get(client, "a")
    assert (state(pod), pod.status.container_statuses[0].restart_count) == ("running", 1)
    message = "Container main failed liveness probe, will be restarted"
    assert await said(client, "Unhealthy", "Killing") == [
        ("Unhealthy", 2, "Liveness probe failed: no"), ("Killing", 1, message),
    ]  # fmt: skip
    await kcr_clock.advance(19)
    assert answers.moments("alive") == [20, 25]


async def test_failed_liveness_ends_a_pod_that_never_restarts(
    client: Client, answers: Answers, kcr_clock: VirtualClock
) -> None:
    answers.set("alive", NO)
    await run(client, policy="Never", livenessProbe=does("alive", failureThreshold=1))
    await kcr_clock.advance(2)
    pod = await get(client, "a")
    assert (pod.status.phase, state(pod)) == ("Failed", "Error 143")
    assert await said(client, "Killing") == [("Killing", 1, "Container main failed liveness probe")]


async def test_other_probes_wait_for_the_startup_probe(
    client: Client, answers: Answers, kcr_clock: VirtualClock
) -> None:
    answers.set("up", NO)
    await run(
        client,
        startupProbe=does("up", periodSeconds=5, failureThreshold=10), readinessProbe=does("ready"),
        livenessProbe=does("alive"),
    )  # fmt: skip
    await kcr_clock.advance(12)
    assert flags(await get(client, "a")) == (False, False, "False", "False")
    assert answers.moments("up") == [0.5, 5.5, 10.5]
    answers.set("up", OK)
    await kcr_clock.advance(5)
    assert flags(await get(client, "a")) == (True, True, "True", "True")
    assert (answers.moments("ready"), answers.moments("alive")) == ([15.5], [15.5])
    await kcr_clock.advance(20)
    assert answers.moments("up") == [0.5, 5.5, 10.5, 15.5]


async def test_failed_startup_restarts_within_the_probes_grace_period(
    kcr_clock: VirtualClock, answers: Answers
) -> None:
    answers.set("up", NO)
    stubborn = RunResult(run_for=FOREVER, ignore_sigterm=True)
    async with probed_node(kcr_clock, answers, stubborn) as client:
        await run(client, startupProbe=does("up", failureThreshold=1, terminationGracePeriodSeconds=4))
        await kcr_clock.advance(4)
        assert state(await get(client, "a")) == "running"
        await kcr_clock.advance(0.8)
        pod = await get(client, "a")
        last = pod.status.container_statuses[0].last_state.terminated
        assert last is not None and last.exit_code == 137
        message = "Container main failed startup probe, will be restarted"
        assert await said(client, "Killing") == [("Killing", 1, message)]


async def test_result_of_a_probe_that_cannot_run_is_dropped(
    client: Client, answers: Answers, kcr_clock: VirtualClock
) -> None:
    answers.set("alive", OK._replace(outcome="unknown", message="no such program"))
    await run(client, livenessProbe=does("alive", failureThreshold=1))
    await kcr_clock.advance(25)
    assert (await get(client, "a")).status.container_statuses[0].restart_count == 0
    message = "Liveness probe errored and resulted in unknown state: no such program"
    assert await said(client, "Unhealthy", "Killing") == [("Unhealthy", 3, message)]


async def test_liveness_is_not_probed_while_the_pod_terminates(kcr_clock: VirtualClock, answers: Answers) -> None:
    async with probed_node(kcr_clock, answers, RunResult(run_for=FOREVER, ignore_sigterm=True)) as client:
        await run(client, livenessProbe=does("alive", periodSeconds=5), readinessProbe=does("ready", periodSeconds=5))
        await kcr_clock.advance(1)
        await delete(client, "a", 20)
        await kcr_clock.advance(11)
        assert answers.moments("alive") == [0.5]
        assert answers.moments("ready") == [0.5, 5.5, 10.5]
        await kcr_clock.advance(30)
        assert await names(client) == set()
        assert answers.moments("ready")[-1] < 22


async def test_sidecar_lets_others_start_once_it_has_started(
    client: Client, answers: Answers, kcr_clock: VirtualClock
) -> None:
    answers.set("up", NO)
    await run(client, sidecar=True, startupProbe=does("up", periodSeconds=5, failureThreshold=100))
    await kcr_clock.advance(12)
    pod = await get(client, "a")
    assert (pod.status.phase, state(pod)) == ("Pending", "PodInitializing")
    assert pod.status.init_container_statuses[0].started is False
    answers.set("up", OK)
    await kcr_clock.advance(5)
    assert (await get(client, "a")).status.phase == "Running"


async def test_readiness_gate_holds_the_pod_back(client: Client, kcr_clock: VirtualClock) -> None:
    await create(client, "a", nodeName="n", readinessGates=[{"conditionType": "example.dev/gate"}])
    await kcr_clock.advance(1)
    pod = await get(client, "a")
    ready = find_condition(pod.status.conditions, "Ready")
    assert flags(pod) == (True, True, "True", "False") and ready is not None
    message = 'corresponding condition of pod readiness gate "example.dev/gate" does not exist.'
    assert (ready.reason, ready.message) == ("ReadinessGatesNotReady", message)
    gate = {"type": "example.dev/gate", "status": "True"}
    await client.strategic_patch(
        KubeletPod, Key("default", "a"), {"status": {"conditions": [gate]}}, subresource="status"
    )
    await kcr_clock.advance(1)
    assert flags(await get(client, "a"))[3] == "True"


async def test_container_is_shown_once_its_post_start_hook_has_run(
    client: Client, answers: Answers, kcr_clock: VirtualClock
) -> None:
    answers.take("hook", 10)
    await run(client, lifecycle={"postStart": does("hook")}, readinessProbe=does("ready"))
    await kcr_clock.advance(9)
    assert state(await get(client, "a")) == "ContainerCreating"
    assert answers.moments("ready") == []
    await kcr_clock.advance(2)
    assert flags(await get(client, "a")) == (True, True, "True", "True")


async def test_failed_post_start_hook_kills_the_container(
    client: Client, answers: Answers, kcr_clock: VirtualClock
) -> None:
    answers.set("hook", NO)
    await run(client, lifecycle={"postStart": does("hook")})
    await kcr_clock.advance(5)
    assert state(await get(client, "a")) == "CrashLoopBackOff"
    assert await said(client, "FailedPostStartHook", "Killing") == [
        ("FailedPostStartHook", 2, "PostStartHook failed"), ("Killing", 2, "FailedPostStartHook"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "leaves_after"),
    [pytest.param(5, 5, id="signal-follows"), pytest.param(60, 30, id="takes-all-the-time")],
)
async def test_signal_waits_for_the_pre_stop_hook(
    client: Client, answers: Answers, kcr_clock: VirtualClock, seconds: float, leaves_after: float
) -> None:
    answers.take("hook", seconds)
    await run(client, lifecycle={"preStop": does("hook")})
    await kcr_clock.advance(1)
    await delete(client, "a")
    await kcr_clock.advance(leaves_after - 0.5)
    assert state(await get(client, "a")) == "running"
    await kcr_clock.advance(1)
    assert await names(client) == set()
    assert await said(client, "Killing") == [("Killing", 1, "Stopping container main")]


async def test_container_has_two_seconds_after_a_hook_that_took_all(kcr_clock: VirtualClock, answers: Answers) -> None:
    answers.take("hook", 60)
    async with probed_node(kcr_clock, answers, RunResult(run_for=FOREVER, ignore_sigterm=True)) as client:
        await run(client, lifecycle={"preStop": does("hook")})
        await kcr_clock.advance(1)
        await delete(client, "a", 10)
        await kcr_clock.advance(11.5)
        assert await names(client) == {"a"}
        await kcr_clock.advance(1)
        assert await names(client) == set()


async def test_failed_pre_stop_hook_is_an_event(client: Client, answers: Answers, kcr_clock: VirtualClock) -> None:
    answers.set("hook", NO)
    await run(client, lifecycle={"preStop": does("hook")})
    await kcr_clock.advance(1)
    await delete(client, "a")
    await kcr_clock.advance(1)
    assert await said(client, "FailedPreStopHook") == [("FailedPreStopHook", 1, "PreStopHook failed")]
    assert await names(client) == set()


async def test_deletion_without_grace_runs_no_hook(client: Client, answers: Answers, kcr_clock: VirtualClock) -> None:
    await run(client, lifecycle={"preStop": does("hook")})
    await kcr_clock.advance(1)
    await delete(client, "a", 0)
    await kcr_clock.advance(1)
    assert answers.moments("hook") == []
