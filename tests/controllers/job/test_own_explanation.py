"""What the Job controller says of a Job itself: from its own store and memory, with the decision it would make."""

import re
from datetime import timedelta

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.explanation import Explanation
from kcr.api.meta import Key
from kcr.api.unstructured import unstructured
from kcr.cli.objects.look import look
from kcr.cli.target import ObjectName
from tests.kit.explanations import EXPLAINERS
from tests.kit.harness import manifest
from tests.kit.open_manager import explanation_of
from tests.kit.scenario import Simulation, scenario

PI = Key("default", "pi")
QUOTA = unstructured("v1", "ResourceQuota", plural="resourcequotas")


async def inside(sim: Simulation, key: Key = PI) -> Explanation:
    return await explanation_of(sim.manager, "job", key)


async def outside(sim: Simulation) -> Explanation:
    return (await look(sim.client, ObjectName(Job, "pi"), PI, sim.clock.now(), EXPLAINERS)).explanation


@scenario(disturbed=False)
async def test_explanation_is_the_same_where_nothing_is_remembered(sim: Simulation) -> None:
    await sim.create(completions=3, parallelism=2, activeDeadlineSeconds=600)
    await sim.until("A2")
    assert await inside(sim) == await outside(sim)
    await sim.succeed(*sim.active()[:1])
    await sim.until("S1 A2")
    await sim.clock.advance(1)
    assert await inside(sim) == await outside(sim)


@scenario(disturbed=False, options={"job_pod_failure_backoff": 100.0})
async def test_backoff_is_that_of_the_controllers_own_options(sim: Simulation) -> None:
    await sim.create()
    await sim.until("A1")
    await sim.fail(*sim.active())
    await sim.until("F1")
    await sim.clock.advance(4)
    assert (await inside(sim)).headline == "waits 96s before it replaces a failed pod (backoff)"
    assert (await outside(sim)).headline == "waits 6s before it replaces a failed pod (backoff)"


@scenario(disturbed=False)
async def test_failures_in_a_row_are_remembered_when_pods_are_gone(sim: Simulation) -> None:
    await sim.create()
    for before, after in (("A1", "F1"), ("A1 F1", "F2")):
        await sim.until(before)
        await sim.fail(*sim.active())
        await sim.until(after)
    for pod in sim.pods_of():
        await sim.client.delete(Pod, pod.key)
    await sim.clock.advance(1)
    assert (await inside(sim)).steps[0].text == "replaces what failed: 2 failures in a row"
    assert (await outside(sim)).headline == "creates 1 pod now"


@scenario(disturbed=False, options={"take_over": False})
async def test_job_without_our_name_is_left_alone(sim: Simulation) -> None:
    await sim.create()
    await sim.clock.advance(5)
    found = await inside(sim)
    assert found.headline == "left to kube-controller-manager: it is not a Job of this controller"
    assert found.reasons == ("spec.managedBy is not set, and this controller runs without --take-over",)
    assert "run kcr with --take-over" in found.remedies[0]


@scenario(disturbed=False)
async def test_create_without_an_answer_is_named(sim: Simulation) -> None:
    sim.faults.on("create", Pod).lose_reply("cut")
    sim.withhold(Pod)
    await sim.create()
    await sim.clock.advance(0.5)
    found = await inside(sim)
    assert found.headline == "waits to see what it has written itself"
    assert re.fullmatch(r"1 create had no answer: sent again under the same name: pi-\w{5}", found.reasons[0])
    sim.faults.heal()
    sim.let_through(Pod)
    await sim.until("A1")
    assert (await inside(sim)).headline == "waits for 1 pod to start"


@scenario(disturbed=False)
async def test_refusal_of_pods_is_remembered_until_one_is_created(sim: Simulation) -> None:
    made = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    await sim.client.create_manifest(QUOTA, made, "default")
    await sim.create()
    await sim.clock.advance(5)
    found = await inside(sim)
    assert found.headline == "cannot create pods: a ResourceQuota is used up"
    assert re.match(r"2s ago, 3 times: Error creating: .*exceeded quota: none", found.reasons[0])
    (step,) = found.steps
    assert (step.text, step.at and step.at - sim.clock.now() < timedelta(seconds=3)) == (
        "tries again to create 1 pod", True,
    )  # fmt: skip
    await sim.client.delete(QUOTA, Key("default", "none"))
    await sim.until("A1")
    assert (await inside(sim)).headline == "waits for 1 pod to start"


@scenario(disturbed=False)
async def test_another_writer_of_the_status_is_told_for_five_minutes(sim: Simulation) -> None:
    await sim.create()
    await sim.until("A1")
    status = {"conditions": [{"type": "Queued", "status": "False"}]}
    await sim.client.merge_patch(Job, PI, {"status": status}, subresource="status")
    await sim.clock.advance(1)
    assert (await inside(sim)).headline == "several controllers write its status: this controller, another client"
    await sim.clock.advance(300)
    late = await inside(sim)
    assert late.headline == "waits for 1 pod that no scheduler has taken up"
    # It may be another than kube-scheduler.
    assert late.remedies == ("see whether its scheduler runs: spec.schedulerName",)


@scenario(disturbed=False, options={"take_over": False})
async def test_explaining_asks_writes_and_remembers_nothing(sim: Simulation) -> None:
    await sim.client.create_manifest(Job, manifest("foreign"), "default")
    await sim.create(managedBy="kcr.dev/job-controller")
    await sim.until("A1")
    await sim.clock.advance(5)
    calls = len(sim.faults.calls)
    for name in ("pi", "foreign", "absent"):
        await inside(sim, Key("default", name))
    await sim.clock.advance(1)
    assert len(sim.faults.calls) == calls
    assert (await inside(sim, Key("default", "absent"))).headline == "is not in the store of this controller"
