"""The event that tells why a Job failed, and the condition, which stays upstream's."""

from kcr.api.conditions import find_condition
from tests.kit.harness import events_of, read
from tests.kit.scenario import Simulation, scenario

DIGEST = "FailureDigest"


async def digests(sim: Simulation) -> list[str]:
    return [message for reason, message in await events_of(sim.client) if reason == DIGEST]


@scenario(options={"failure_digest": True})
async def test_failed_job_has_an_event_with_its_causes(sim: Simulation) -> None:
    await sim.create(completionMode="Indexed", completions=2, parallelism=2, backoffLimit=1)
    await sim.until("A2")
    await sim.fail(*sim.active(), exit_code=3)
    await sim.ends("Failed", "BackoffLimitExceeded")
    condition = find_condition((await read(sim.client)).status.conditions, "Failed")
    assert condition is not None
    assert condition.message == "Job has reached the specified backoff limit"
    if sim.undisturbed:
        (message,) = await digests(sim)
        counts, _, last = message.partition("; last: pod pi-")
        assert counts == "backoffLimit 1: 2 pods failed: 2 with exit code 3 (indexes 0,1)"
        assert last.endswith("container c: exit code 3")


@scenario(disturbed=False)
async def test_digest_is_off_by_default(sim: Simulation) -> None:
    await sim.create(backoffLimit=0)
    await sim.until("A1")
    await sim.fail(*sim.active(), exit_code=3)
    await sim.ends("Failed", "BackoffLimitExceeded")
    assert await digests(sim) == []


@scenario(disturbed=False, options={"failure_digest": True})
async def test_complete_job_has_no_digest(sim: Simulation) -> None:
    await sim.create()
    await sim.until("A1")
    await sim.succeed(*sim.active())
    await sim.ends("Complete", "CompletionsReached")
    assert await digests(sim) == []
