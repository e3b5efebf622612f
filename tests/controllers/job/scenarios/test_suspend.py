"""Jobs that are suspended, changed and resumed: the scenarios of job-controller §37.6."""

from typing import Any

import pytest

from kcr.api.batch import Job
from kcr.api.conditions import find_condition, is_condition_true
from kcr.api.meta import Key
from kcr.errors import InvalidError
from tests.kit.scenario import Simulation, scenario

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


async def change_template(sim: Simulation, change: dict[str, Any]) -> None:
    await sim.client.strategic_patch(Job, Key("default", "pi"), {"spec": {"template": change}})


def carries(written: Any, wanted: Any) -> bool:
    """Return whether all that is wanted is written; the server may have added more."""
    if isinstance(wanted, dict):
        return all(key in written and carries(written[key], value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return len(written) >= len(wanted) and all(map(carries, written, wanted))
    return bool(written == wanted)


@scenario()
async def test_suspended_job_runs_when_it_is_resumed(sim: Simulation) -> None:
    # Rows 57 and 58.
    await sim.create(suspend=True, parallelism=2, completions=4)
    job = await sim.until("", ready=0, terminating=0, start_time=None, made=0)
    suspended = find_condition(job.status.conditions, "Suspended")
    assert suspended is not None
    assert (suspended.status, suspended.reason, suspended.message) == ("True", "JobSuspended", "Job suspended")
    await sim.restart()
    await sim.stays("")
    resumed_at = sim.clock.now()
    await sim.patch(suspend=False)
    job = await sim.until("A2", made=2)
    resumed = find_condition(job.status.conditions, "Suspended")
    assert resumed is not None
    assert (resumed.status, resumed.reason, resumed.message) == ("False", "JobResumed", "Job resumed")
    assert job.status.start_time is not None
    assert job.status.start_time >= resumed_at.replace(microsecond=0)
    if sim.undisturbed:
        reasons = [reason for reason, _ in await sim.events()]
        assert reasons == ["Suspended", "SuccessfulCreate", "SuccessfulCreate", "Resumed"]


@scenario()
async def test_suspension_removes_the_pods_uncounted(sim: Simulation) -> None:
    # Rows 59 and 67.
    await sim.create(parallelism=2, completions=4)
    await sim.until("A2")
    await sim.ready(*sim.active())
    await sim.until("A2 R2")
    await sim.patch(suspend=True)
    job = await sim.until("", start_time=None, there=0, made=2)
    assert is_condition_true(job.status.conditions, "Suspended")
    # R falls with A, in one write.
    assert all((seen.status.ready or 0) <= seen.status.active for seen in sim.jobs.history)
    if sim.undisturbed:
        reasons = [reason for reason, _ in await sim.events()]
        assert reasons[2:] == ["SuccessfulDelete", "SuccessfulDelete", "Suspended"]


@scenario()
async def test_job_never_suspended_does_not_speak_of_it(sim: Simulation) -> None:
    # Row 60.
    await sim.create()
    await sim.until("A1")
    await sim.succeed(*sim.active())
    job = await sim.ends("Complete", "CompletionsReached")
    assert find_condition(job.status.conditions, "Suspended") is None


@scenario()
async def test_resumed_job_runs_its_changed_template(sim: Simulation) -> None:
    # Row 63, for one kind of change.
    await change_while_suspended(sim, {"spec": ON_DISK})


@changes
@scenario()
async def test_template_of_a_job_that_rests_may_change(sim: Simulation, change: dict[str, Any]) -> None:
    # Row 63.
    await change_while_suspended(sim, change)


async def change_while_suspended(sim: Simulation, change: dict[str, Any]) -> None:
    """Run a Job, suspend it, change its template and resume it; its pods are then made from the new template."""
    await sim.create(parallelism=2, completions=4)
    await sim.until("A2")
    await sim.patch(suspend=True)
    await sim.wait(lambda: is_condition_true(sim.job().status.conditions, "Suspended"))
    await change_template(sim, change)
    await sim.patch(suspend=False)
    await sim.until("A2", there=2)
    for pod in sim.active():
        assert carries(await sim.read(pod), change)


@changes
@scenario()
async def test_template_of_a_running_job_may_not_change(sim: Simulation, change: dict[str, Any]) -> None:
    # Row 64.
    await sim.create()
    await sim.until("A1")
    with pytest.raises(InvalidError, match=r"spec.template: Invalid value: .*: field is immutable"):
        await change_template(sim, change)
    await sim.stays("A1")


@scenario()
async def test_template_may_change_before_anybody_has_looked(sim: Simulation) -> None:
    # Row 65.
    await sim.crash()
    await sim.create(suspend=True)
    await change_template(sim, {"spec": ON_DISK})
    await sim.patch(suspend=False)
    await sim.start()
    await sim.until("A1")


@scenario()
async def test_resumed_job_waits_for_pods_that_go(sim: Simulation) -> None:
    # Row 66.
    await sim.create(parallelism=2, completions=2, podReplacementPolicy="Failed", held=True)
    await sim.until("A2")
    old = sim.active()
    await sim.patch(suspend=True)
    await sim.until("T2")
    change = {"spec": {"containers": [{"name": "c", "image": "busybox", "resources": RESOURCES}]}}
    await change_template(sim, change)
    await sim.patch(suspend=False)
    await sim.stays("T2")
    await sim.release(old)
    await sim.until("A2", there=2, made=4)
    for pod in sim.active():
        assert carries(await sim.read(pod), change)
