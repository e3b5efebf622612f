"""Members from kubeconfigs in Secrets: they come, change and go while the program runs."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

import kcr
from examples.fleet.fleet import COPY, attach
from kcr.api.core import Secret
from kcr.testing import VirtualClock
from tests.kit.fleets import NAMESPACE, Fleet, colors, fleet_of, kubeconfig, secret

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]


@pytest_asyncio.fixture
async def fleet(kcr_clock: VirtualClock) -> AsyncIterator[Fleet]:
    async with fleet_of(kcr_clock, "east", "west") as fleet:
        await fleet.home.client.create(kcr.api.core.Namespace(metadata=kcr.ObjectMeta(name=NAMESPACE)))
        await fleet.home.client.create(colors("blue", **{COPY: "true"}))
        yield fleet


def program(fleet: Fleet) -> tuple[kcr.Manager, kcr.Clusters]:
    manager = fleet.manager()
    clusters = fleet.clusters(manager)
    clusters.add_secrets(NAMESPACE)
    attach(manager, clusters)
    return manager, clusters


async def put(fleet: Fleet, name: str, text: bytes) -> None:
    """Create a Secret with a kubeconfig, or change it."""
    made = secret(name, text)
    try:
        await fleet.home.client.create(made)
    except kcr.AlreadyExistsError:
        found = await fleet.home.client.get(Secret, made.key)
        await fleet.home.client.patch(found, kcr.api.core.Secret(metadata=found.metadata, data=made.data))


async def test_member_comes_and_goes_with_its_secret(fleet: Fleet, kcr_clock: VirtualClock) -> None:
    manager, clusters = program(fleet)
    async with manager.running():
        await kcr_clock.advance(1)
        assert list(clusters) == []
        await put(fleet, "east", kubeconfig("east"))
        await kcr_clock.advance(1)
        assert list(clusters) == ["east"]
        assert await fleet.copies() == {"east": "blue"}
        await put(fleet, "west", kubeconfig("west"))
        await kcr_clock.advance(1)
        assert await fleet.copies() == {"east": "blue", "west": "blue"}
        await fleet.home.client.delete(Secret, kcr.Key(NAMESPACE, "east"))
        await kcr_clock.advance(1)
        assert list(clusters) == ["west"]
        requests = fleet.lines["east"].requests
        await kcr_clock.advance(600)
        assert fleet.lines["east"].requests == requests, "its watches have ended"
        assert manager.health.not_ready() == ()


async def test_changed_kubeconfig_opens_the_member_again(fleet: Fleet, kcr_clock: VirtualClock) -> None:
    manager, clusters = program(fleet)
    await put(fleet, "east", kubeconfig("east"))
    async with manager.running():
        await kcr_clock.advance(1)
        before = clusters["east"]
        # Not by a change of something else.
        await fleet.home.client.merge_patch(
            Secret, kcr.Key(NAMESPACE, "east"), {"metadata": {"annotations": {"a": "b"}}}
        )
        await kcr_clock.advance(1)
        assert clusters["east"] is before
        await put(fleet, "east", kubeconfig("east", token="rotated"))
        await kcr_clock.advance(1)
        assert clusters["east"] is not before
        assert before.is_closed
        await fleet.home.client.merge_patch(kcr.api.core.ConfigMap, colors("").key, {"data": {"sky": "grey"}})
        await kcr_clock.advance(1)
        assert await fleet.copies() == {"east": "grey"}


async def test_wrong_kubeconfig_is_one_event_and_harms_no_other(fleet: Fleet, kcr_clock: VirtualClock) -> None:
    manager, clusters = program(fleet)
    await put(fleet, "east", kubeconfig("east"))
    await put(fleet, "west", b"{clusters: [}")
    async with manager.running():
        await kcr_clock.advance(60)
        assert await fleet.copies() == {"east": "blue"}
        assert manager.health.not_ready() == ()
        assert await fleet.warnings() == [
            "Secret fleet/west, field kubeconfig is not YAML (line 1): put a kubeconfig into it"
        ]
        # Its content is right now; and then wrong again, which ends the member.
        await put(fleet, "west", kubeconfig("west"))
        await kcr_clock.advance(5)
        assert await fleet.copies() == {"east": "blue", "west": "blue"}
        await put(fleet, "west", b"")
        await kcr_clock.advance(5)
        assert list(clusters) == ["east"]


async def test_program_without_rights_on_members_of_its_own_namespaces_asks_for_no_secrets(fleet: Fleet) -> None:
    manager, _ = program(fleet)
    assert {right.resource for right in manager.rights} == {"configmaps", "events"}
