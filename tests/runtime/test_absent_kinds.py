"""Kinds whose definition is installed late, deleted, and installed again."""

import random

import pytest
from structlog.testing import capture_logs

import kcr
from kcr.api.core import Namespace
from kcr.api.full.apiextensions_v1 import CustomResourceDefinition
from kcr.api.meta import Key, ObjectMeta
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]


class Late(kcr.FullResource, api_version="example.dev/v1", plural="widgets"):
    """A kind that is not always there."""


class Seen:
    """A controller that keeps the names it was asked to reconcile."""

    def __init__(self) -> None:
        self.names: list[str] = []

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        self.names.append(key.name)
        return kcr.Result()


def two_controllers(cluster: EmbeddedCluster, clock: VirtualClock) -> tuple[kcr.Manager, Seen, Seen]:
    manager = kcr.Manager(cluster.client, clock=clock, random=random.Random(0))
    widgets, namespaces = Seen(), Seen()
    manager.add_controller("widgets", widgets, watches=[kcr.watch(Late), kcr.watch(Namespace)])
    manager.add_controller("namespaces", namespaces, watches=[kcr.watch(Namespace)])
    return manager, widgets, namespaces


def readiness(manager: kcr.Manager) -> tuple[int, str]:
    result = manager.health.answer("/readyz", {"verbose": [""]})
    assert result is not None
    return result.status, next(line for line in result.text.splitlines() if "widgets" in line)


async def install(cluster: EmbeddedCluster) -> None:
    await cluster.client.create_manifest(CustomResourceDefinition, kcr.crd_manifest(Late))


async def make(cluster: EmbeddedCluster, name: str) -> None:
    await cluster.client.create(Late(metadata=ObjectMeta(name=name, namespace="default")))


async def test_absent_kind_holds_up_only_its_own_controllers(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:  # CM-13
    manager, widgets, namespaces = two_controllers(kcr_cluster, kcr_clock)
    with capture_logs() as logs:
        async with manager.running():
            await kcr_clock.advance(300)
            assert "default" in namespaces.names
            assert not widgets.names
            status, line = readiness(manager)
            assert status == 200
            assert line.startswith("[+]informer-widgets.example.dev ok: widgets.example.dev: absent: ")
    told = [line["event"] for line in logs if line["log_level"] == "warning"]
    assert told == ["kind is not served, waiting for it", "controller waits for kinds"]


async def test_controller_begins_within_seconds_of_its_definition(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:  # CM-13
    manager, widgets, _ = two_controllers(kcr_cluster, kcr_clock)
    async with manager.running():
        await kcr_clock.advance(100)
        await install(kcr_cluster)
        await make(kcr_cluster, "first")
        await kcr_clock.advance(6)
        assert {"first", "default"} <= set(widgets.names)


async def test_deleted_definition_harms_nothing_else(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await install(kcr_cluster)
    manager, widgets, namespaces = two_controllers(kcr_cluster, kcr_clock)
    async with manager.running():
        await make(kcr_cluster, "first")
        await kcr_clock.advance(1)
        await kcr_cluster.client.delete(CustomResourceDefinition, Key("", "widgets.example.dev"))
        await kcr_clock.advance(90)
        status, line = readiness(manager)
        assert status == 500
        assert line.startswith("[-]informer-widgets.example.dev failed: widgets.example.dev: absent: ")
        assert not manager.store(Late).list()
        namespaces.names.clear()
        await kcr_cluster.client.create(Namespace(metadata=ObjectMeta(name="later")))
        await kcr_clock.advance(1)
        assert namespaces.names == ["later"]
        await install(kcr_cluster)
        await make(kcr_cluster, "second")
        await kcr_clock.advance(6)
        assert "second" in widgets.names
        assert readiness(manager)[0] == 200
