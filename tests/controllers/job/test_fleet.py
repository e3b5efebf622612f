"""The gauge of Jobs by state and cause, through the lives of Jobs, crashes of the controller included."""

from random import Random

import msgspec
import pytest

from kcr.testing import PodScript, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.harness import create, finished, job_controller, manifest
from tests.kit.scenario import Simulation, scenario
from tests.kit.traces import Traces, trace_id

QUOTA = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}}
QUOTAS = "/api/v1/namespaces/default/resourcequotas"


@scenario()
async def test_job_is_counted_in_one_state_at_a_time(sim: Simulation) -> None:
    await sim.create(backoffLimit=1)
    await sim.until("A1")
    await sim.wait(lambda: sim.fleet() == {("pending", ""): 1})
    await sim.ready(*sim.active())
    await sim.wait(lambda: sim.fleet() == {("running", ""): 1})
    await sim.fail(*sim.active())
    if sim.undisturbed:
        await sim.wait(lambda: sim.fleet() == {("backing_off", "failures"): 1})
    await sim.until("A1 F1")
    await sim.succeed(*sim.active())
    await sim.ends("Complete", "CompletionsReached")
    await sim.wait(lambda: sim.fleet() == {})


@scenario()
async def test_refused_job_cannot_start_until_the_quota_allows_it(sim: Simulation) -> None:
    await sim.client.request("POST", QUOTAS, msgspec.json.encode(QUOTA))
    await sim.create()
    await sim.wait(lambda: sim.fleet() == {("cannot_start", "quota"): 1})
    await sim.client.request("DELETE", f"{QUOTAS}/q")
    await sim.until("A1", seconds=120)
    await sim.wait(lambda: sim.fleet() == {("pending", ""): 1})
    await sim.delete()
    await sim.wait(lambda: sim.fleet() == {})


@scenario(disturbed=False)
async def test_jobs_whose_creates_are_not_even_sent_have_the_same_cause(sim: Simulation) -> None:
    await sim.client.request("POST", QUOTAS, msgspec.json.encode(QUOTA))
    for number in range(15):
        await sim.create(f"pi-{number}")
    # Together they try less often than each for itself: most of their passes send nothing.
    for _ in range(8):
        await sim.clock.advance(3)
        assert sim.fleet() == {("cannot_start", "quota"): 15}


@scenario(disturbed=False, options={"sync_job_batch_period": 5.0}, late={"pods": 3.0})
async def test_delay_from_the_end_of_pods_to_the_end_of_their_job_is_measured(sim: Simulation) -> None:
    await sim.create(completions=2, parallelism=2)
    await sim.until("A2")
    await sim.succeed(*sim.active())
    await sim.ends("Complete", "CompletionsReached")
    (count, seconds), (jobs, late) = sim.delays("counted"), sim.delays("finished")
    assert (count, jobs) == (2, 1)
    assert 5 <= seconds <= 20
    assert 2 <= late <= 10


@pytest.mark.kcr_virtual
async def test_delay_has_the_reconcile_as_exemplar(kcr_clock: VirtualClock, traces: Traces) -> None:
    made = EmbeddedCluster(clock=kcr_clock, random=Random(0), runtime=None)
    async with made as cluster, job_controller(cluster, kcr_clock) as manager:
        await create(cluster.client, manifest())
        await kcr_clock.advance(1)
        await PodScript(cluster.client, kcr_clock).succeed()
        await finished(cluster.client)
        text = manager.metrics.render("application/openmetrics-text")[0].decode()
    lines = [line for line in text.splitlines() if line.startswith("kcr_job_end_delay_seconds") and " # {" in line]
    assert {line.partition('trace_id="')[2][:32] for line in lines} <= {
        f"{trace_id(one):032x}" for one in traces.find()
    }
    assert len(lines) == 2
