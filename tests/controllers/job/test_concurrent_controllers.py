"""Another controller of the same Jobs is told of, once; what else writes to Jobs is not mistaken for one."""

from contextlib import AsyncExitStack
from random import Random
from typing import Any

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from kcr.api.batch import Job
from kcr.api.meta import Key
from kcr.scopes.leaderelection import LeaderElectionConfig, LeaderElector
from kcr.testing import CrashingTransport, FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.losses import Loss
from tests.kit.crash import EVERY_LOSS, loss_of
from tests.kit.harness import create, finished, job_controller, manifest

pytestmark = pytest.mark.kcr_virtual

MANY: dict[str, Any] = {"parallelism": 2, "completions": 8, "annotations": {"sim.kcr.dev/run-for": "3s"}}


def warnings(logs: list[EventDict]) -> list[EventDict]:
    return [line for line in logs if "another client writes the status of Jobs" in line["event"]]


async def test_two_controllers_of_the_same_jobs_warn_once_each(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    with capture_logs() as logs:
        async with AsyncExitStack() as stack:
            for seed in (1, 2):
                await stack.enter_async_context(job_controller(kcr_cluster, kcr_clock, seed=seed))
            for number in range(3):
                await create(kcr_cluster.client, manifest(f"job-{number}", **MANY))
            for number in range(3):
                await finished(kcr_cluster.client, f"job-{number}")
    told = warnings(logs)
    assert 1 <= len(told) <= 2
    assert {line["log_level"] for line in told} == {"warning"}
    assert told[0]["event"].endswith("two controllers of the same Jobs double the work; stop one")
    assert told[0]["job"].startswith("default/job-")


async def test_warning_comes_again_with_the_number_left_out(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    with capture_logs() as logs:
        async with job_controller(kcr_cluster, kcr_clock):
            await create(kcr_cluster.client, manifest(annotations={"sim.kcr.dev/run-for": "forever"}))
            await kcr_clock.advance(10)
            for number in range(70):
                await kcr_cluster.client.merge_patch(
                    Job, Key("default", "pi"), {"status": {"ready": number % 2}}, subresource="status"
                )
                await kcr_clock.advance(10)
    first, second = warnings(logs)
    assert "left_out" not in first
    assert second["left_out"] > 20


async def test_next_leader_is_no_other_client_of_the_one_that_has_lost(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    config = LeaderElectionConfig(name="job", identity="a")
    with capture_logs() as logs:
        elector = LeaderElector(kcr_cluster.client, config, clock=kcr_clock, random=Random(1))
        async with job_controller(kcr_cluster, kcr_clock, leader_election=elector):
            await create(kcr_cluster.client, manifest(annotations={"sim.kcr.dev/run-for": "forever"}))
            await kcr_clock.advance(5)
            for second in range(20):
                await kcr_cluster.client.merge_patch(
                    Job, Key("default", "pi"), {"status": {"ready": second % 2}}, subresource="status"
                )
                await kcr_clock.advance(1)
                if second == config.renew_deadline - 2:
                    # Until now it may be the next leader, and this one may not know that it has lost.
                    assert warnings(logs) == []
    assert len(warnings(logs)) == 1


async def test_controller_alone_does_not_warn(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Nor does one that takes over what another has left behind.
    with capture_logs() as logs:
        for name in ("a", "b"):
            async with job_controller(kcr_cluster, kcr_clock):
                await create(kcr_cluster.client, manifest(name, **MANY))
                await kcr_clock.advance(5)
        async with job_controller(kcr_cluster, kcr_clock):
            for name in ("a", "b"):
                await finished(kcr_cluster.client, name)
                await kcr_cluster.client.merge_patch(Job, Key("default", name), {"metadata": {"labels": {"a": "b"}}})
    assert warnings(logs) == []


@pytest.mark.soak
@pytest.mark.parametrize("step", [pytest.param(12, id="some"), pytest.param(1, id="all", marks=pytest.mark.soak)])
@pytest.mark.parametrize("loss", EVERY_LOSS)
async def test_own_write_without_an_answer_is_no_other_clients(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, loss: Loss | None, step: int
) -> None:
    with capture_logs() as logs:
        for turn, number in enumerate(range(1, 16, step)):
            faults = FaultyTransport(kcr_cluster.transport)
            faults.on("watch", Job).lag(1)
            wire = CrashingTransport(faults)
            wire.lose_reply(number, loss_of(turn, loss))
            async with job_controller(kcr_cluster, kcr_clock, transport=wire):
                await create(kcr_cluster.client, manifest(f"job-{number}", **MANY))
                await finished(kcr_cluster.client, f"job-{number}")
    assert warnings(logs) == []
