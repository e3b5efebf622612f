"""Jobs that end while the server refuses to delete their pods: the counts are those of the pods that there are."""

from typing import Any

import pytest

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.controllers.job.decisions.lifecycle import is_ending
from kcr.errors import ConflictError, ForbiddenError
from tests.kit.scenario import Simulation, scenario

REFUSED = ForbiddenError(403, "Forbidden", "pods are kept for evidence")

ends = pytest.mark.parametrize(
    ("spec", "interim", "reason"),
    [
        pytest.param({"activeDeadlineSeconds": 10}, "FailureTarget", "DeadlineExceeded", id="deadline"),
        pytest.param({"backoffLimit": 0}, "FailureTarget", "BackoffLimitExceeded", id="limit"),
        pytest.param(
            {"completionMode": "Indexed", "successPolicy": {"rules": [{"succeededIndexes": "0"}]}},
            "SuccessCriteriaMet", "SuccessPolicy", id="success",
        ),
    ],
)  # fmt: skip


async def reach_the_end(sim: Simulation, spec: dict[str, Any], refused: int) -> tuple[list[Pod], int]:
    """Run three pods to the end of their Job, and refuse to delete some of them; return those, and how many ended."""
    await sim.create(parallelism=3, completions=3, **spec)
    await sim.until("A3")
    await sim.bind(*sim.active())
    await sim.ready(*sim.active())
    await sim.until("A3 R3")
    first, *others = sim.active()
    for pod in others[:refused]:
        sim.faults.on("delete", Pod, name=pod.metadata.name).fail(REFUSED)
    if "activeDeadlineSeconds" in spec:
        await sim.succeed(first)
        await sim.until("A2 R2 S1")
    elif "backoffLimit" in spec:
        await sim.fail(first)
    else:
        await sim.succeed(first)
    return others[:refused], int("backoffLimit" not in spec)


@pytest.mark.parametrize("refused", [1, 2])
@ends
@scenario()
async def test_pods_that_could_not_be_deleted_are_active_for_as_long(
    sim: Simulation, spec: dict[str, Any], interim: str, reason: str, refused: int
) -> None:
    _, succeeded = await reach_the_end(sim, spec, refused)
    await sim.interim(interim, reason)
    going = 2 - refused
    failed = 1 - succeeded + (going if interim == "FailureTarget" else 0)
    await sim.until(f"A{refused} R{refused} T{going} S{succeeded} F{failed}", tracked=refused)
    await sim.stays(f"A{refused} R{refused} T{going} S{succeeded} F{failed}", seconds=300)
    # At no time it said that one of them is gone.
    assert min(job.status.active for job in sim.jobs.history if is_ending(job)) == refused
    assert max(job.status.terminating or 0 for job in sim.jobs.history) == going
    sim.faults.heal()
    await sim.until(f"T2 S{succeeded} F{failed + (refused if interim == 'FailureTarget' else 0)}", tracked=0)
    await sim.kill(sim.pods_of()[1:])
    await sim.ends({"FailureTarget": "Failed", "SuccessCriteriaMet": "Complete"}[interim], reason)


@ends
@scenario()
async def test_pod_that_could_not_be_deleted_counts_as_it_ends(
    sim: Simulation, spec: dict[str, Any], interim: str, reason: str
) -> None:
    (kept, other), succeeded = await reach_the_end(sim, spec, refused=2)
    await sim.interim(interim, reason)
    await sim.until(f"A2 R2 S{succeeded} F{1 - succeeded}")
    await sim.succeed(kept)
    await sim.until(f"A1 R1 S{succeeded + 1} F{1 - succeeded}", tracked=1)
    await sim.fail(other)
    await sim.ends({"FailureTarget": "Failed", "SuccessCriteriaMet": "Complete"}[interim], reason)
    await sim.until(f"S{succeeded + 1} F{2 - succeeded}", tracked=0)


@scenario(late={"pods": 3.0}, disturbed=False)
async def test_deletions_that_are_not_seen_yet_count_as_done(sim: Simulation) -> None:
    await sim.create(parallelism=2, completions=2, backoffLimit=0)
    await sim.until("A2")
    await sim.bind(*sim.active())
    failing, other = sim.active()
    # The write of the counts fails, after the other pod was deleted: the next attempt sees it as it was before.
    sim.faults.on("patch", Job, nth=2).fail(ConflictError)
    await sim.fail(failing)
    await sim.interim("FailureTarget", "BackoffLimitExceeded")
    await sim.until("T1 F2", tracked=0, seconds=2.5)
    # The pod runs when the end is put on record, and never again.
    active = [job.status.active for job in sim.jobs.history if is_ending(job)]
    assert active == sorted(active, reverse=True)
    await sim.kill([other])
    await sim.ends("Failed", "BackoffLimitExceeded")
    await sim.until("F2", made=2)
