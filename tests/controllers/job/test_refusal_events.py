"""Events of refused creates: repeats of one cause are one event of the Job, though each names another pod (EX-30)."""

from collections.abc import Awaitable, Callable

import pytest

import kcr
from kcr.api.core import Event, Namespace
from kcr.api.meta import Key
from kcr.client import Client
from kcr.testing import FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.harness import create, job_controller, manifest

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]

LIMITS = kcr.unstructured("v1", "LimitRange", plural="limitranges")
QUOTA = kcr.unstructured("v1", "ResourceQuota", plural="resourcequotas")
TOO_LARGE = [{"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1m"}, "limits": {"cpu": "2"}}}]


async def restrict(client: Client) -> None:
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    await client.merge_patch(Namespace, Key("", "default"), {"metadata": {"labels": label}})


async def limit(client: Client) -> None:
    spec = {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}
    await client.create_manifest(LIMITS, {"metadata": {"name": "small"}, "spec": spec}, "default")


async def use_up(client: Client) -> None:
    spec = {"hard": {"pods": "0"}}
    await client.create_manifest(QUOTA, {"metadata": {"name": "none"}, "spec": spec}, "default")


async def refusals(client: Client) -> list[Event]:
    return [event for event in await client.list(Event, "default") if event.reason == "FailedCreate"]


@pytest.mark.parametrize("refuse", [restrict, limit, use_up])
async def test_repeats_of_a_refusal_are_one_event(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, refuse: Callable[[Client], Awaitable[None]]
) -> None:
    client, transport = kcr_cluster.client, FaultyTransport(kcr_cluster.transport)
    await refuse(client)
    async with job_controller(kcr_cluster, kcr_clock, transport=transport):
        await create(client, manifest(containers=TOO_LARGE))
        await kcr_clock.advance(200)
        (told,) = await refusals(client)
    attempts = [call for call in transport.calls if (call.verb, call.resource[2]) == ("create", "pods")]
    assert told.count == len(attempts) >= 7
    assert told.message.startswith('Error creating: pods "pi-')


async def test_another_cause_is_another_event(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    client = kcr_cluster.client
    await restrict(client)
    async with job_controller(kcr_cluster, kcr_clock):
        await create(client, manifest())
        await kcr_clock.advance(60)
        await client.merge_patch(Namespace, Key("", "default"), {"metadata": {"labels": None}})
        await use_up(client)
        await kcr_clock.advance(120)
        first, second = sorted(await refusals(client), key=lambda event: str(event.first_timestamp))
    assert "violates PodSecurity" in first.message
    assert "exceeded quota: none" in second.message
    assert min(first.count, second.count) >= 2


async def test_amount_in_use_makes_no_other_event(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    client = kcr_cluster.client
    spec = {"hard": {"requests.cpu": "3"}}
    await client.create_manifest(QUOTA, {"metadata": {"name": "cpu"}, "spec": spec}, "default")
    async with job_controller(kcr_cluster, kcr_clock):
        for name, cpu, parallelism in (("pi", "4", 1), ("small", "100m", 20)):
            sized = [{"name": "c", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}]
            annotations = {"sim.kcr.dev/run-for": "1h"}
            shape = {"completions": parallelism, "parallelism": parallelism, "annotations": annotations}
            await create(client, manifest(name, containers=sized, **shape))
            await kcr_clock.advance(90)
        (told,) = [event for event in await refusals(client) if event.involved_object.name == "pi"]
    assert told.count > 3
    assert "used: requests.cpu=2" in told.message
