"""Two replicas of `kcr run --shards` as processes, and `kcr shards`, which shows who holds what."""

import asyncio
import re
import signal
from collections.abc import Mapping

import pytest

from kcr.api.coordination import Lease
from kcr.client import Client, HttpTransport, load_config
from kcr.clock import SystemClock
from kcr.scopes.sharding.leases import GROUP_LABEL, overview
from kcr.testing import eventually
from tests.e2e.processes import Running, Serve, Start

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio]

NAME = "kcr-controller-manager"
SHARDED = (
    "run", "--shards", "8", "--leader-elect-lease-duration", "6s", "--leader-elect-renew-deadline", "4s",
    "--leader-elect-retry-period", "500ms",
)  # fmt: skip


async def has(client: Client, counts: Mapping[str, int]) -> bool:
    """Whether each of these replicas holds so many shards, and no other one any."""
    leases = await client.list(Lease, "default", labels=f"{GROUP_LABEL}={NAME}")
    found = overview(leases, SystemClock().now())
    return {one.identity: len(one.shards) for one in found.replicas if one.shards} == counts


async def identity(run: Running) -> str:
    """Return the identity of a replica, which it logs when it joins the others."""

    def logged() -> str:
        found = re.search(r'"identity":"([^"]+)"', run.err)
        return found[1] if found else ""

    return await eventually(logged)


@pytest.mark.soak
async def test_shards_move_after_a_kill_and_at_once_after_a_stop(kcr: Start, serve: Serve) -> None:
    async with serve(runtime=None) as path:
        run = (*SHARDED, "--kubeconfig", str(path))
        async with kcr(*run) as first, kcr(*run) as second, HttpTransport(load_config(str(path))) as transport:
            client = Client(transport)
            one, two = await identity(first), await identity(second)
            await eventually(lambda: has(client, {one: 4, two: 4}))
            async with kcr("shards", "--kubeconfig", str(path)) as asked:
                assert await asked.end() == 0, asked.err
                replicas = asked.out.partition("REPLICA")[2].splitlines()[1:]
                assert {tuple(line.split()[:2]) for line in replicas} == {(one, "4"), (two, "4")}
            await first.stop(signal.SIGKILL)
            await eventually(lambda: has(client, {two: 8}))
            async with kcr(*run) as third:
                three = await identity(third)
                await eventually(lambda: has(client, {two: 4, three: 4}))
                assert await second.stop() == 0
                # Its Leases were released: they would expire after 6 s.
                await eventually(lambda: has(client, {three: 8}), seconds=3)


@pytest.mark.soak
async def test_replica_that_was_stopped_ends_only_if_another_one_took_its_shards(kcr: Start, serve: Serve) -> None:
    async with serve(runtime=None) as path:
        run = (*SHARDED, "--kubeconfig", str(path))
        async with kcr(*run) as first, HttpTransport(load_config(str(path))) as transport:
            client = Client(transport)
            one = await identity(first)
            await eventually(lambda: has(client, {one: 8}))
            # Longer than the Leases last, and no other replica is there.
            first.send(signal.SIGSTOP)
            await eventually(lambda: has(client, {}), seconds=10)
            first.send(signal.SIGCONT)
            await eventually(lambda: has(client, {one: 8}))
            async with kcr(*run) as second:
                two = await identity(second)
                await eventually(lambda: has(client, {one: 4, two: 4}))
                # Shorter: nothing moves.
                first.send(signal.SIGSTOP)
                await asyncio.sleep(2)
                first.send(signal.SIGCONT)
                await asyncio.sleep(3)
                assert await has(client, {one: 4, two: 4})
                first.send(signal.SIGSTOP)
                await eventually(lambda: has(client, {two: 8}), seconds=8)
                first.send(signal.SIGCONT)
                assert await first.end() == 1
                last = first.err.splitlines()[-1]
                assert re.fullmatch(rf"kcr: lease {NAME}-shard-\d: {two} has it instead of {one}", last), last
                assert await has(client, {two: 8})
