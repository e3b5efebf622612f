"""Another controller of the same Jobs is told of, once; what else writes to Jobs is not mistaken for one."""

from contextlib import AsyncExitStack
from typing import Any

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from kcr.api.batch import Job
from kcr.api.meta import Key
from kcr.cluster import EmbeddedCluster
from kcr.testing import CrashingTransport, FaultyTransport, VirtualClock
from kcr.testing.answers import LOSSES, Loss
from tests.kit.harness import create, finished, job_controller, manifest

pytestmark = pytest.mark.virtual

MANY: dict[str, Any] = {"parallelism": 2, "completions": 8, "annotations": {"sim.kcr.dev/run-for": "3s"}}


def warnings(logs: list[EventDict]) -> list[EventDict]:
    return [line for line in logs if "another client writes the status of Jobs" in line["event"]]


async def test_two_controllers_of_the_same_jobs_warn_once_each(cluster: EmbeddedCluster, clock: VirtualClock) -> None:
    with capture_logs() as logs:
        async with AsyncExitStack() as stack:
            for seed in (1, 2):
                await stack.enter_async_context(job_controller(cluster, clock, seed=seed))
            for number in range(5):
                await create(cluster.client, manifest(f"job-{number}", **MANY))
            for number in range(5):
                await finished(cluster.client, f"job-{number}")
    told = warnings(logs)
    assert 1 <= len(told) <= 2
    assert {line["log_level"] for line in told} == {"warning"}
    assert told[0]["event"].endswith("two controllers of the same Jobs double the work; stop one")
    assert told[0]["job"].startswith("default/job-")


async def test_warning_comes_again_with_the_number_left_out(cluster: EmbeddedCluster, clock: VirtualClock) -> None:
    with capture_logs() as logs:
        async with job_controller(cluster, clock):
            await create(cluster.client, manifest(annotations={"sim.kcr.dev/run-for": "forever"}))
            await clock.advance(10)
            for number in range(70):
                await cluster.client.merge_patch(
                    Job, Key("default", "pi"), {"status": {"ready": number % 2}}, subresource="status"
                )
                await clock.advance(10)
    first, second = warnings(logs)
    assert "left_out" not in first
    assert second["left_out"] > 20


async def test_controller_alone_does_not_warn(cluster: EmbeddedCluster, clock: VirtualClock) -> None:
    # Nor does one that takes over what another has left behind.
    with capture_logs() as logs:
        for name in ("a", "b"):
            async with job_controller(cluster, clock):
                await create(cluster.client, manifest(name, **MANY))
                await clock.advance(5)
        async with job_controller(cluster, clock):
            for name in ("a", "b"):
                await finished(cluster.client, name)
                await cluster.client.merge_patch(Job, Key("default", name), {"metadata": {"labels": {"a": "b"}}})
    assert warnings(logs) == []


@pytest.mark.parametrize("loss", LOSSES)
async def test_own_write_without_an_answer_is_no_other_clients(
    cluster: EmbeddedCluster, clock: VirtualClock, loss: Loss
) -> None:
    with capture_logs() as logs:
        for number in range(1, 16):
            faults = FaultyTransport(cluster.transport)
            faults.on("watch", Job).lag(1)
            wire = CrashingTransport(faults)
            wire.lose_reply(number, loss)
            async with job_controller(cluster, clock, transport=wire):
                await create(cluster.client, manifest(f"job-{number}", **MANY))
                await finished(cluster.client, f"job-{number}")
    assert warnings(logs) == []
