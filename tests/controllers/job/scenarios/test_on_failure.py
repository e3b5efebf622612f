"""Containers that are restarted in place, with restartPolicy OnFailure: the scenarios of job-controller §37.4."""

import pytest

from tests.kit.scenario import World, flow


@flow()
async def test_restart_in_place_is_no_failure(world: World) -> None:
    # Row 41.
    await world.create(restartPolicy="OnFailure")
    await world.until("A1")
    (pod,) = world.active()
    await world.restarted(pod, 1)
    await world.stays("A1")
    await world.succeed(pod)
    await world.ends("Complete", "CompletionsReached")
    await world.until("S1", made=1)


@pytest.mark.parametrize("limit", [3, 1])
@flow()
async def test_last_retry_is_cut_short(world: World, limit: int) -> None:
    # Rows 42 and 43: the pod goes while it runs for the last time.
    await world.create(restartPolicy="OnFailure", backoffLimit=limit)
    await world.until("A1")
    (pod,) = world.active()
    await world.bind(pod)
    for restarts in range(limit):
        await world.restarted(pod, restarts)
        await world.stays("A1", seconds=30)
    await world.restarted(pod, limit)
    await world.interim("FailureTarget", "BackoffLimitExceeded")
    await world.until("T1 F1", tracked=0)
    await world.kill([pod])
    await world.ends("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    await world.until("F1", made=1, there=0)


@flow()
async def test_limit_zero_forgives_no_restart(world: World) -> None:
    # Row 44.
    await world.create(restartPolicy="OnFailure", backoffLimit=0)
    await world.until("A1")
    (pod,) = world.active()
    await world.restarted(pod, 0)
    await world.stays("A1")
    await world.restarted(pod, 1)
    await world.ends("Failed", "BackoffLimitExceeded")
    await world.until("F1", made=1, there=0)


@flow()
async def test_restarts_of_all_pods_add_up(world: World) -> None:
    # Row 45.
    await world.create(restartPolicy="OnFailure", backoffLimit=2, parallelism=2, completions=5)
    await world.until("A2")
    pods = world.active()
    await world.bind(*pods)
    for pod in pods:
        await world.restarted(pod, 1)
    await world.interim("FailureTarget", "BackoffLimitExceeded")
    await world.until("T2 F2")
    await world.kill(pods)
    await world.ends("Failed", "BackoffLimitExceeded")
    await world.until("F2", made=2, there=0)


@flow()
async def test_restarts_below_the_limit_do_no_harm(world: World) -> None:
    # Row 46.
    await world.create(restartPolicy="OnFailure", backoffLimit=3, parallelism=2, completions=5)
    await world.until("A2")
    for pod in world.active():
        await world.restarted(pod, 1)
    await world.stays("A2")
    assert world.job().status.conditions == ()


@flow()
async def test_restart_of_an_init_container_counts(world: World) -> None:
    # Row 47.
    await world.create(restartPolicy="OnFailure", backoffLimit=1)
    await world.until("A1")
    (pod,) = world.active()
    state = {"name": "init", "image": "busybox", "imageID": "", "ready": False, "restartCount": 1}
    await world.report(pod, {"phase": "Pending", "initContainerStatuses": [state]})
    await world.ends("Failed", "BackoffLimitExceeded")
    await world.until("F1", made=1, there=0)


@flow()
async def test_restarts_of_pods_that_have_ended_are_forgiven(world: World) -> None:
    # Row 48.
    await world.create(restartPolicy="OnFailure", backoffLimit=1, parallelism=4, completions=4)
    await world.until("A4")
    for pod, restarts in zip(world.active(), (1, 1, 2, 0), strict=True):
        end = {"exitCode": 0, "finishedAt": "2026-01-01T00:00:01Z"}
        state = {"name": "c", "image": "busybox", "imageID": "", "ready": False, "restartCount": restarts}
        await world.report(pod, {"phase": "Succeeded", "containerStatuses": [state | {"state": {"terminated": end}}]})
    await world.ends("Complete", "CompletionsReached")
    await world.until("S4", made=4)
