"""Containers that are restarted in place, with restartPolicy OnFailure: the scenarios of job-controller §37.4."""

import pytest

from tests.kit.scenario import Simulation, scenario


@scenario()
async def test_restart_in_place_is_no_failure(sim: Simulation) -> None:
    # Row 41.
    await sim.create(restartPolicy="OnFailure")
    await sim.until("A1")
    (pod,) = sim.active()
    await sim.restarted(pod, 1)
    await sim.stays("A1")
    await sim.succeed(pod)
    await sim.ends("Complete", "CompletionsReached")
    await sim.until("S1", made=1)


@pytest.mark.parametrize("limit", [3, 1])
@scenario()
async def test_last_retry_is_cut_short(sim: Simulation, limit: int) -> None:
    # Rows 42 and 43: the pod goes while it runs for the last time.
    await sim.create(restartPolicy="OnFailure", backoffLimit=limit)
    await sim.until("A1")
    (pod,) = sim.active()
    await sim.bind(pod)
    for restarts in range(limit):
        await sim.restarted(pod, restarts)
        await sim.stays("A1", seconds=30)
    await sim.restarted(pod, limit)
    await sim.interim("FailureTarget", "BackoffLimitExceeded")
    await sim.until("T1 F1", tracked=0)
    await sim.kill([pod])
    await sim.ends("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    await sim.until("F1", made=1, there=0)


@scenario()
async def test_limit_zero_forgives_no_restart(sim: Simulation) -> None:
    # Row 44.
    await sim.create(restartPolicy="OnFailure", backoffLimit=0)
    await sim.until("A1")
    (pod,) = sim.active()
    await sim.restarted(pod, 0)
    await sim.stays("A1")
    await sim.restarted(pod, 1)
    await sim.ends("Failed", "BackoffLimitExceeded")
    await sim.until("F1", made=1, there=0)


@scenario()
async def test_restarts_of_all_pods_add_up(sim: Simulation) -> None:
    # Row 45.
    await sim.create(restartPolicy="OnFailure", backoffLimit=2, parallelism=2, completions=5)
    await sim.until("A2")
    pods = sim.active()
    await sim.bind(*pods)
    for pod in pods:
        await sim.restarted(pod, 1)
    await sim.interim("FailureTarget", "BackoffLimitExceeded")
    await sim.until("T2 F2")
    await sim.kill(pods)
    await sim.ends("Failed", "BackoffLimitExceeded")
    await sim.until("F2", made=2, there=0)


@scenario()
async def test_restarts_below_the_limit_do_no_harm(sim: Simulation) -> None:
    # Row 46.
    await sim.create(restartPolicy="OnFailure", backoffLimit=3, parallelism=2, completions=5)
    await sim.until("A2")
    for pod in sim.active():
        await sim.restarted(pod, 1)
    await sim.stays("A2")
    assert sim.job().status.conditions == ()


@scenario()
async def test_restart_of_an_init_container_counts(sim: Simulation) -> None:
    # Row 47.
    await sim.create(restartPolicy="OnFailure", backoffLimit=1)
    await sim.until("A1")
    (pod,) = sim.active()
    state = {"name": "init", "image": "busybox", "imageID": "", "ready": False, "restartCount": 1}
    await sim.report(pod, {"phase": "Pending", "initContainerStatuses": [state]})
    await sim.ends("Failed", "BackoffLimitExceeded")
    await sim.until("F1", made=1, there=0)


@scenario()
async def test_restarts_of_pods_that_have_ended_are_forgiven(sim: Simulation) -> None:
    # Row 48.
    await sim.create(restartPolicy="OnFailure", backoffLimit=1, parallelism=4, completions=4)
    await sim.until("A4")
    for pod, restarts in zip(sim.active(), (1, 1, 2, 0), strict=True):
        end = {"exitCode": 0, "finishedAt": "2026-01-01T00:00:01Z"}
        state = {"name": "c", "image": "busybox", "imageID": "", "ready": False, "restartCount": restarts}
        await sim.report(pod, {"phase": "Succeeded", "containerStatuses": [state | {"state": {"terminated": end}}]})
    await sim.ends("Complete", "CompletionsReached")
    await sim.until("S4", made=4)
