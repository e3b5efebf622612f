"""Making room for the next run (`concurrencyPolicy: Replace`), row by row of cronjob-controller §19."""

import pytest

from kcr.api.batch import Job
from kcr.api.meta import Key
from kcr.errors import ForbiddenError, ServerError
from kcr.testing import FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.cronjob_harness import at, cronjob_controller, events_of, listed, make_job, names_of, ran_before, until

pytestmark = pytest.mark.kcr_virtual


async def test_replaced_jobs_go_before_the_next_one_comes(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Rows 22 and 25.
    await ran_before(server.client, "hello-a", "hello-b", concurrencyPolicy="Replace")
    await until(kcr_clock, at("10:01:00.1"))
    async with cronjob_controller(server, kcr_clock):
        await kcr_clock.advance(1)
    assert await names_of(server.client) == ["hello-29671801"]
    assert await listed(server.client) == ["hello-29671801"]
    assert await events_of(server.client) == [
        ("SuccessfulDelete", "Deleted job hello-a"),
        ("SuccessfulDelete", "Deleted job hello-b"),
        ("SuccessfulCreate", "Created job hello-29671801"),
    ]


async def test_job_that_cannot_be_read_is_not_replaced(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await ran_before(server.client, "hello-a", concurrencyPolicy="Replace")
    faults = FaultyTransport(server.transport)
    faults.on("get", Job, nth=1).fail(ServerError(500, "InternalError", "no"))
    await until(kcr_clock, at("10:01:00.1"))
    async with cronjob_controller(server, kcr_clock, transport=faults):
        await kcr_clock.advance(1)
    assert await events_of(server.client) == [
        ("FailedGet", "Get job: no"),
        ("SuccessfulDelete", "Deleted job hello-a"),
        ("SuccessfulCreate", "Created job hello-29671801"),
    ]


async def test_job_that_vanished_unseen_is_missing_first(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Row 23.
    await ran_before(server.client, "hello-a", concurrencyPolicy="Replace")
    faults = FaultyTransport(server.transport)
    faults.on("watch", Job).lag(3)
    async with cronjob_controller(server, kcr_clock, transport=faults):
        await until(kcr_clock, at("10:00:59"))
        await server.client.delete(Job, Key("default", "hello-a"))
        await until(kcr_clock, at("10:01:10"))
    told = await events_of(server.client)
    assert told[0] == ("FailedGet", 'Get job: jobs.batch "hello-a" not found')
    assert [reason for reason, _ in told[1:]] == ["MissingJob", "SuccessfulCreate"]
    assert await names_of(server.client) == ["hello-29671801"]


async def test_namesake_of_a_job_to_be_replaced_stays(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Unlike upstream, which deletes whatever goes by the name.
    await ran_before(server.client, "hello-a", concurrencyPolicy="Replace")
    faults = FaultyTransport(server.transport)
    faults.on("watch", Job).lag(3)
    async with cronjob_controller(server, kcr_clock, transport=faults):
        await until(kcr_clock, at("10:00:59"))
        await server.client.delete(Job, Key("default", "hello-a"), propagation="Background")
        other = await make_job(server.client, None, "hello-a")
        await until(kcr_clock, at("10:01:10"))
        assert await names_of(server.client) == ["hello-29671801", "hello-a"]
        assert (await server.client.get(Job, Key("default", "hello-a"))).metadata.uid == other.metadata.uid
        assert await listed(server.client) == ["hello-29671801"]


async def test_job_that_cannot_be_deleted_is_not_replaced(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await ran_before(server.client, "hello-a", concurrencyPolicy="Replace")
    faults = FaultyTransport(server.transport)
    faults.on("delete", Job, nth=1).fail(ServerError(500, "InternalError", "no"))
    await until(kcr_clock, at("10:01:00.1"))
    async with cronjob_controller(server, kcr_clock, transport=faults):
        await kcr_clock.advance(1)
    reasons = [reason for reason, _ in await events_of(server.client)]
    assert reasons == ["FailedDelete", "SuccessfulDelete", "SuccessfulCreate"]
    assert await listed(server.client) == ["hello-29671801"]


async def test_replacement_that_is_refused_leaves_nothing_listed(
    server: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    # Row 24.
    await ran_before(server.client, "hello-a", concurrencyPolicy="Replace")
    faults = FaultyTransport(server.transport)
    faults.on("create", Job).fail(ForbiddenError(403, "Forbidden", "exceeded quota"))
    await until(kcr_clock, at("10:01:00.1"))
    async with cronjob_controller(server, kcr_clock, transport=faults):
        await kcr_clock.advance(0.1)
        assert await listed(server.client) == []
        assert (await events_of(server.client))[:2] == [
            ("SuccessfulDelete", "Deleted job hello-a"),
            ("FailedCreate", "Error creating job: exceeded quota"),
        ]
        faults.heal()
        await kcr_clock.advance(2)
        assert await listed(server.client) == ["hello-29671801"]
