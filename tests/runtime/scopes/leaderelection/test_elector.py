import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from kcr.api.coordination import Lease
from kcr.api.core import ConfigMap
from kcr.api.meta import Key, ObjectMeta
from kcr.client import Client, Transport
from kcr.clock import Clock
from kcr.errors import LeadershipLostError, NotFoundError, ServerError
from kcr.scopes.leaderelection import LeaderElectionConfig, LeaderElector
from kcr.testing import CrashingTransport, FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.clocks import ShiftedClock

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]

LEASE = Key("default", "web")


def elector(clock: Clock, transport: Transport, identity: str, **options: Any) -> LeaderElector:
    config = LeaderElectionConfig(name="web", identity=identity)
    return LeaderElector(Client(transport), config, clock=clock, random=random.Random(identity), **options)


@asynccontextmanager
async def campaigning(*electors: LeaderElector) -> AsyncIterator[list[asyncio.Task[None]]]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one.run()) for one in electors]
        yield tasks
        for task in tasks:
            task.cancel()


class Ended(asyncio.Event):
    """How an elector has ended: why it lost, or an empty text."""

    why = ""


@asynccontextmanager
async def observed(one: LeaderElector) -> AsyncIterator[Ended]:
    """Campaign, and tell when and why the elector has lost."""
    ended = Ended()

    async def run() -> None:
        try:
            await one.run()
        except LeadershipLostError as error:
            ended.why = str(error)
            ended.set()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(run())
        yield ended
        task.cancel()


async def lease(cluster: EmbeddedCluster) -> Lease:
    return await cluster.client.get(Lease, LEASE)


async def test_first_candidate_leads_at_once(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    one = elector(kcr_clock, kcr_cluster.transport, "a")
    async with campaigning(one):
        await kcr_clock.settle()
        assert one.leads
        spec = (await lease(kcr_cluster)).spec
        assert (spec.holder_identity, spec.lease_duration_seconds, spec.lease_transitions) == ("a", 15, 0)


async def test_standby_leads_once_a_crashed_leaders_lease_ends(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:  # CM-31
    wire = CrashingTransport(kcr_cluster.transport)
    first, second = elector(kcr_clock, wire, "a"), elector(kcr_clock, kcr_cluster.transport, "b")
    async with observed(first):
        await kcr_clock.settle()
        async with campaigning(second):
            await kcr_clock.advance(60)
            assert (first.leads, second.leads) == (True, False)
            wire.crash_after(0)
            await kcr_clock.advance(10)
            assert not second.leads
            # The last renewal is seen a retry period late, and its end as well.
            await kcr_clock.advance(5 + 2 * 2 * 2.2)
            assert second.leads
            assert (await lease(kcr_cluster)).spec.lease_transitions == 1


async def test_released_lease_is_taken_within_a_retry_period(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:  # CM-34
    first, second = (elector(kcr_clock, kcr_cluster.transport, name) for name in "ab")
    async with campaigning(first) as (task,):
        await kcr_clock.settle()
        async with campaigning(second):
            await kcr_clock.advance(30)
            task.cancel()
            await kcr_clock.advance(2 * 2.2)
            assert second.leads


async def test_candidate_that_never_wrote_releases_nothing(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:  # CM-34
    first, wire = elector(kcr_clock, kcr_cluster.transport, "a"), FaultyTransport(kcr_cluster.transport)
    async with campaigning(first):
        await kcr_clock.settle()
        async with campaigning(elector(kcr_clock, wire, "b")):
            await kcr_clock.advance(10)
            asked = len(wire.calls)
        assert {call.verb for call in wire.calls} == {"get"}
        assert len(wire.calls) == asked


async def test_leader_is_named_once_to_each_candidate(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    with capture_logs() as logs:
        async with campaigning(*(elector(kcr_clock, kcr_cluster.transport, name) for name in "ab")):
            await kcr_clock.advance(60)
    assert [line["leader"] for line in logs if line["event"] == "new leader elected"] == ["a", "a"]


async def test_leader_renews_by_one_request_each(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:  # CM-32
    wire = FaultyTransport(kcr_cluster.transport)
    async with campaigning(elector(kcr_clock, wire, "a")):
        await kcr_clock.settle()
        wire.calls.clear()
        await kcr_clock.advance(10)
        assert [call.verb for call in wire.calls] == ["update"] * 5


async def test_changed_lease_is_read_before_it_is_renewed(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:  # CM-32
    one = elector(kcr_clock, kcr_cluster.transport, "a")
    async with campaigning(one):
        await kcr_clock.settle()
        await kcr_cluster.client.merge_patch(Lease, LEASE, {"metadata": {"labels": {"by": "a-user"}}})
        await kcr_clock.advance(30)
        assert one.leads
        assert one.slow_renewals == 1
        assert (await lease(kcr_cluster)).metadata.labels == {"by": "a-user"}


@pytest.mark.parametrize("write", ["create", "update"])
async def test_lost_reply_of_a_claim_is_found_out(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, write: Any
) -> None:
    wire = FaultyTransport(kcr_cluster.transport)
    wire.on(write, Lease, nth=1).lose_reply("silence")
    one = elector(kcr_clock, wire, "a")
    async with campaigning(one):
        await kcr_clock.advance(60)
        assert one.leads
        assert (await lease(kcr_cluster)).spec.lease_transitions == 0


async def test_leader_without_server_gives_up_before_its_lease_ends(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:  # CM-30
    wire = FaultyTransport(kcr_cluster.transport)
    one = elector(kcr_clock, wire, "a")
    async with observed(one) as ended:
        await kcr_clock.advance(3)
        wire.on("update", Lease).fail(ServerError)
        wire.on("get", Lease).fail(ServerError)
        # The renewal that begins at 4 s fails until 14 s; the lease would end at 17 s.
        await kcr_clock.advance(10.9)
        assert not ended.is_set()
        await kcr_clock.advance(0.2)
        assert "not renewed within 10 s" in ended.why


async def test_leader_whose_lease_was_taken_gives_up_at_once(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    one = elector(kcr_clock, kcr_cluster.transport, "a")
    async with observed(one) as ended:
        await kcr_clock.settle()
        await kcr_cluster.client.merge_patch(Lease, LEASE, {"spec": {"holderIdentity": "thief"}})
        await kcr_clock.advance(2.1)
        assert "thief has taken it from a" in ended.why
        with pytest.raises(LeadershipLostError):
            one.check()


async def test_deleted_lease_is_made_again(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    one = elector(kcr_clock, kcr_cluster.transport, "a")
    async with campaigning(one):
        await kcr_clock.settle()
        await kcr_cluster.client.delete(Lease, LEASE)
        await kcr_clock.advance(5)
        assert (await lease(kcr_cluster)).spec.holder_identity == "a"


async def test_blocked_process_loses_its_lease(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:  # CM-36
    blocked = False
    one = elector(kcr_clock, kcr_cluster.transport, "a", is_blocked=lambda: blocked)
    async with observed(one) as ended:
        await kcr_clock.settle()
        blocked = True
        await kcr_clock.advance(13)
        assert "not renewed within 10 s" in ended.why


async def test_release_leaves_another_holder_alone(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    one = elector(kcr_clock, kcr_cluster.transport, "a")
    async with campaigning(one):
        await kcr_clock.settle()
        await kcr_cluster.client.merge_patch(Lease, LEASE, {"spec": {"holderIdentity": "thief"}})
    assert (await lease(kcr_cluster)).spec.holder_identity == "thief"


async def test_leader_that_must_not_release_keeps_its_lease(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    config = LeaderElectionConfig(name="web", identity="a", release_on_cancel=False)
    one = LeaderElector(kcr_cluster.client, config, clock=kcr_clock, random=random.Random(1))
    async with campaigning(one):
        await kcr_clock.advance(10)
    assert not one.leads
    spec = (await lease(kcr_cluster)).spec
    assert (spec.holder_identity, spec.lease_duration_seconds) == ("a", 15)


async def test_nothing_is_written_without_a_contest(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    elector(kcr_clock, kcr_cluster.transport, "a")
    await kcr_clock.advance(60)
    with pytest.raises(NotFoundError):
        await lease(kcr_cluster)


@pytest.mark.parametrize("clock_name", ["boottime", "wall"])
async def test_leader_whose_machine_stood_still_writes_nothing(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, clock_name: str
) -> None:  # CM-36
    clock = ShiftedClock(kcr_clock)
    one = elector(clock, kcr_cluster.transport, "a")
    async with campaigning(one):
        await kcr_clock.advance(1)
        one.check()
        with capture_logs() as logs:
            clock.suspended, clock.by = (14.0, timedelta()) if clock_name == "boottime" else (0, timedelta(seconds=14))
            for _ in range(3):
                with pytest.raises(LeadershipLostError):
                    one.check()
        assert [line["event"] for line in logs] == ["writes refused until the lease is renewed"]
        # No other candidate has taken the lease: the next renewal opens the fence.
        await kcr_clock.advance(1)
        one.check()


@pytest.mark.parametrize(
    "meanwhile",
    [
        pytest.param([("b", 15)], id="leads"),
        pytest.param([("b", 1), ("", 1)], id="led-and-released-the-lease"),
        pytest.param([("b", 1)], id="led-and-was-killed"),
    ],
)
async def test_leader_ends_if_another_one_led_while_it_stood_still(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, meanwhile: list[tuple[str, int]]
) -> None:  # CM-36
    clock = ShiftedClock(kcr_clock)
    one = elector(clock, kcr_cluster.transport, "a")
    async with observed(one) as ended:
        await kcr_clock.advance(1)
        clock.suspended = 60
        for holder, seconds in meanwhile:
            seen = await lease(kcr_cluster)
            spec = replace(seen.spec, holder_identity=holder, lease_duration_seconds=seconds)
            await kcr_cluster.client.update(replace(seen, spec=spec))
        with pytest.raises(LeadershipLostError):
            one.check()
        # Its next renewal, and before it no write: what it has in its stores is old.
        await kcr_clock.advance(2)
        assert ended.is_set()
        assert ended.why.startswith("lease default/web: "), ended.why
        assert (await lease(kcr_cluster)).spec.holder_identity == meanwhile[-1][0]
        with pytest.raises(LeadershipLostError):
            one.check()


async def test_clock_that_is_set_back_refuses_no_write(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    clock = ShiftedClock(kcr_clock)
    one = elector(clock, kcr_cluster.transport, "a")
    async with campaigning(one):
        await kcr_clock.advance(1)
        clock.by = timedelta(hours=-1)
        one.check()
        await kcr_clock.advance(60)
        one.check()
        assert one.leads


async def test_write_that_waited_past_the_lease_is_not_sent(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:  # CM-36
    clock, wire = ShiftedClock(kcr_clock), FaultyTransport(kcr_cluster.transport)
    wire.on("create", ConfigMap).delay(1.5)
    one = elector(clock, kcr_cluster.transport, "a")
    client = Client(wire).with_options(fence=one.check)
    async with campaigning(one):
        await kcr_clock.settle()
        asyncio.get_running_loop().call_later(1, setattr, clock, "suspended", 60.0)
        with pytest.raises(LeadershipLostError):
            await client.create(ConfigMap(metadata=ObjectMeta(name="late", namespace="default")))
        assert "late" not in {found.key.name for found in await kcr_cluster.client.list(ConfigMap)}


async def test_fence_counts_from_the_request_and_not_from_its_reply(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:  # CM-36
    wire = FaultyTransport(kcr_cluster.transport)
    wire.on("update", Lease, nth=1).delay(4)
    one = elector(kcr_clock, wire, "a")
    async with observed(one) as ended:
        # Sent at 2 s, answered at 6 s; the next renewal never arrives.
        await kcr_clock.advance(7)
        wire.on(kind=Lease).delay(3600)
        await kcr_clock.advance(8.9)
        one.check()
        await kcr_clock.advance(0.2)
        with pytest.raises(LeadershipLostError):
            one.check()
        assert not ended.is_set()


async def test_hung_renewal_does_not_cost_the_leadership(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:  # CM-33
    wire = FaultyTransport(kcr_cluster.transport)
    wire.on("update", Lease, nth=2).delay(3600)
    one = elector(kcr_clock, wire, "a")
    async with campaigning(one):
        await kcr_clock.advance(60)
        assert one.leads
        assert one.slow_renewals == 1
        assert (await lease(kcr_cluster)).spec.holder_identity == "a"


async def test_hung_read_of_the_lease_is_tried_again(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    wire = FaultyTransport(kcr_cluster.transport)
    wire.on("get", Lease, nth=1).delay(3600)
    wire.on("create", Lease, nth=1).delay(3600)
    one = elector(kcr_clock, wire, "a")
    async with campaigning(one):
        await kcr_clock.advance(2 * one.config.request_timeout + 2 * one.config.retry_period)
        assert one.leads


async def test_only_a_leader_is_overdue_with_its_renewal(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    clock = ShiftedClock(kcr_clock)
    first, second = (elector(clock, kcr_cluster.transport, name) for name in "ab")
    async with campaigning(first):
        await kcr_clock.settle()
        async with campaigning(second):
            await kcr_clock.advance(60)
            assert (first.overdue(), second.overdue()) == ("", "")
            # Liveness fails 20 s after the end of the lease.
            clock.suspended = 36
            assert (first.overdue(), second.overdue()) == ("failed election to renew leadership on lease web", "")


@pytest.mark.parametrize("seconds", [3, 40], ids=["stopped", "lost"])
async def test_lease_that_cannot_be_released_is_one_line(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, seconds: float
) -> None:
    wire = FaultyTransport(kcr_cluster.transport)
    one = elector(kcr_clock, wire, "a")
    with capture_logs() as logs:
        async with observed(one):
            await kcr_clock.advance(1)
            wire.on().lose_request()
            await kcr_clock.advance(seconds)
    told = [line["event"] for line in logs if line["log_level"] in ("warning", "error")]
    lost = ["failed to renew lease, leader election lost"]
    assert told == ["failed to renew lease, retrying", *(lost if seconds > 10 else ["failed to release lease"])]
