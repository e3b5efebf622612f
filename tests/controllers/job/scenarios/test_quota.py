"""A Job under a quota of pods: row 134 of job-controller §37, on a server that enforces quotas."""

import msgspec

from tests.kit.scenario import Simulation, scenario

QUOTA = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "10"}}}
EXCEEDED = "is forbidden: exceeded quota: q, requested: pods=1, used: pods=10, limited: pods=10"


def attempts(sim: Simulation) -> int:
    """How many pods the controller has tried to create."""
    return sum(call.verb == "create" and call.resource == ("", "v1", "pods") for call in sim.faults.calls)


@scenario()
async def test_job_fills_its_quota_and_waits(sim: Simulation) -> None:
    # Row 134.
    path = "/api/v1/namespaces/default/resourcequotas"
    await sim.client.request("POST", path, msgspec.json.encode(QUOTA))
    await sim.create(parallelism=100, completions=200)
    await sim.until("A10", made=10)
    if sim.undisturbed:
        # Batches of 1, 2, 4 and 8: three of the last were let in. The first pods' own events may ask once more.
        assert attempts(sim) in (15, 16)
    await sim.stays("A10", seconds=90 if sim.undisturbed else 30)
    if sim.undisturbed:
        # One each time, after 1, 2, 4, 8, 16 and 32 s; what was asked above came in their place.
        assert attempts(sim) == 21
    # A finished pod frees quota and triggers no event: the Job is retried with backoff.
    await sim.succeed(*sim.active()[:3])
    await sim.until("A10 S3", made=13)
    refusals = [message for reason, message in await sim.events() if reason == "FailedCreate"]
    assert refusals
    for refusal in refusals:
        assert 'Error creating: pods "pi-' in refusal
        assert EXCEEDED in refusal
