"""Jobs that are suspended, changed and resumed: the scenarios of job-controller §37.6."""

from typing import Any

import pytest

from kcr.api.batch import Job
from kcr.api.conditions import find, is_true
from kcr.api.meta import Key
from kcr.errors import InvalidError
from tests.kit.scenario import World, flow

ON_DISK = {"nodeSelector": {"disk": "ssd"}}
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]
        }
    }
}
RESOURCES = {"requests": {"cpu": "2"}}

changes = pytest.mark.parametrize(
    "change",
    [
        pytest.param({"spec": ON_DISK}, id="nodeSelector"),
        pytest.param({"spec": {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}}, id="tolerations"),
        pytest.param({"spec": {"affinity": AFFINITY}}, id="affinity"),
        pytest.param({"spec": {"schedulingGates": [{"name": "example.com/wait"}]}}, id="gates"),
        pytest.param({"metadata": {"labels": {"queue": "fast"}}}, id="labels"),
        pytest.param({"metadata": {"annotations": {"example.com/queue": "fast"}}}, id="annotations"),
        pytest.param(
            {"spec": {"containers": [{"name": "c", "image": "busybox", "resources": RESOURCES}]}}, id="resources"
        ),
    ],
)  # fmt: skip


async def change_template(world: World, change: dict[str, Any]) -> None:
    await world.client.strategic_patch(Job, Key("default", "pi"), {"spec": {"template": change}})


def carries(written: Any, wanted: Any) -> bool:
    """Return whether all that is wanted is written; the server may have added more."""
    if isinstance(wanted, dict):
        return all(key in written and carries(written[key], value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return len(written) >= len(wanted) and all(map(carries, written, wanted))
    return bool(written == wanted)


@flow()
async def test_suspended_job_runs_when_it_is_resumed(world: World) -> None:
    # Rows 57 and 58.
    await world.create(suspend=True, parallelism=2, completions=4)
    job = await world.until("", ready=0, terminating=0, start_time=None, made=0)
    suspended = find(job.status.conditions, "Suspended")
    assert suspended is not None
    assert (suspended.status, suspended.reason, suspended.message) == ("True", "JobSuspended", "Job suspended")
    await world.restart()
    await world.stays("")
    resumed_at = world.clock.now()
    await world.patch(suspend=False)
    job = await world.until("A2", made=2)
    resumed = find(job.status.conditions, "Suspended")
    assert resumed is not None
    assert (resumed.status, resumed.reason, resumed.message) == ("False", "JobResumed", "Job resumed")
    assert job.status.start_time is not None
    assert job.status.start_time >= resumed_at.replace(microsecond=0)
    if world.undisturbed:
        reasons = [reason for reason, _ in await world.events()]
        assert reasons == ["Suspended", "SuccessfulCreate", "SuccessfulCreate", "Resumed"]


@flow()
async def test_suspension_removes_the_pods_uncounted(world: World) -> None:
    # Rows 59 and 67.
    await world.create(parallelism=2, completions=4)
    await world.until("A2")
    await world.ready(*world.active())
    await world.until("A2 R2")
    await world.patch(suspend=True)
    job = await world.until("", start_time=None, there=0, made=2)
    assert is_true(job.status.conditions, "Suspended")
    # R falls with A, in one write.
    assert all((seen.status.ready or 0) <= seen.status.active for seen in world.jobs.history)
    if world.undisturbed:
        reasons = [reason for reason, _ in await world.events()]
        assert reasons[2:] == ["SuccessfulDelete", "SuccessfulDelete", "Suspended"]


@flow()
async def test_job_never_suspended_does_not_speak_of_it(world: World) -> None:
    # Row 60.
    await world.create()
    await world.until("A1")
    await world.succeed(*world.active())
    job = await world.ends("Complete", "CompletionsReached")
    assert find(job.status.conditions, "Suspended") is None


@flow()
async def test_resumed_job_runs_its_changed_template(world: World) -> None:
    # Row 63, for one kind of change.
    await change_while_suspended(world, {"spec": ON_DISK})


@changes
@flow()
async def test_template_of_a_job_that_rests_may_change(world: World, change: dict[str, Any]) -> None:
    # Row 63.
    await change_while_suspended(world, change)


async def change_while_suspended(world: World, change: dict[str, Any]) -> None:
    """Run a Job, suspend it, change its template and resume it; its pods are then made from the new template."""
    await world.create(parallelism=2, completions=4)
    await world.until("A2")
    await world.patch(suspend=True)
    await world.wait(lambda: is_true(world.job().status.conditions, "Suspended"))
    await change_template(world, change)
    await world.patch(suspend=False)
    await world.until("A2", there=2)
    for pod in world.active():
        assert carries(await world.read(pod), change)


@changes
@flow()
async def test_template_of_a_running_job_may_not_change(world: World, change: dict[str, Any]) -> None:
    # Row 64.
    await world.create()
    await world.until("A1")
    with pytest.raises(InvalidError, match=r"spec.template: Invalid value: .*: field is immutable"):
        await change_template(world, change)
    await world.stays("A1")


@flow()
async def test_template_may_change_before_anybody_has_looked(world: World) -> None:
    # Row 65.
    await world.crash()
    await world.create(suspend=True)
    await change_template(world, {"spec": ON_DISK})
    await world.patch(suspend=False)
    await world.start()
    await world.until("A1")


@flow()
async def test_resumed_job_waits_for_pods_that_go(world: World) -> None:
    # Row 66.
    await world.create(parallelism=2, completions=2, podReplacementPolicy="Failed", held=True)
    await world.until("A2")
    old = world.active()
    await world.patch(suspend=True)
    await world.until("T2")
    change = {"spec": {"containers": [{"name": "c", "image": "busybox", "resources": RESOURCES}]}}
    await change_template(world, change)
    await world.patch(suspend=False)
    await world.stays("T2")
    await world.release(old)
    await world.until("A2", there=2, made=4)
    for pod in world.active():
        assert carries(await world.read(pod), change)
