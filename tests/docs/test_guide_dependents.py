"""The guide on objects of an owner: its shop keeps numbered pods."""

import random
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import kcr
from kcr.api.core import Event, Pod
from kcr.client import Client
from kcr.testing import CrashingTransport, VirtualClock, namespace_ends
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.documents import ROOT, blocks, files

GUIDE = ROOT / "docs" / "guide" / "dependents.md"
KEY = kcr.Key("default", "shop")

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (tmp_path / "shop.py").write_text(files(GUIDE)["shop.py"])
    monkeypatch.syspath_prepend(tmp_path)
    return __import__("shop")


def managed(cluster: EmbeddedCluster, shop: ModuleType, transport: Any = None) -> kcr.Manager:
    manager = kcr.Manager(Client(transport or cluster.transport), random=random.Random(1))
    shop.setup(manager)
    return manager


async def pods(cluster: EmbeddedCluster) -> list[str]:
    return sorted(pod.metadata.name for pod in await cluster.client.list(Pod, "default"))


async def scale(cluster: EmbeddedCluster, shop: ModuleType, replicas: int) -> None:
    await cluster.client.merge_patch(shop.Shop, KEY, {"spec": {"replicas": replicas}})


def opened(shop: ModuleType, replicas: int) -> Any:
    metadata = kcr.ObjectMeta(name=KEY.name, namespace=KEY.namespace)
    return shop.Shop(metadata=metadata, spec=shop.ShopSpec(image="busybox", replicas=replicas))


async def test_every_block_is_run() -> None:
    assert {block.file for block in blocks(GUIDE)} == {"shop.py", "site.py"}


async def test_site_has_the_wanted_children(tmp_path: Path, monkeypatch: Any, kcr_clock: VirtualClock) -> None:
    (tmp_path / "site_of_guide.py").write_text(files(GUIDE)["site.py"])
    monkeypatch.syspath_prepend(tmp_path)
    site = __import__("site_of_guide")
    async with EmbeddedCluster(clock=kcr_clock, random=random.Random(1), runtime=None, kinds=[site.Site]) as cluster:
        manager = kcr.Manager(Client(cluster.transport), random=random.Random(1))
        site.setup(manager)
        async with manager.running():
            metadata = kcr.ObjectMeta(name="shop", namespace="default")
            await cluster.client.create(site.Site(metadata=metadata, spec=site.SiteSpec(text="hello", public=True)))
            await kcr_clock.advance(5)
            assert (await cluster.client.get(site.ConfigMap, KEY)).data == {"index.html": "hello"}
            assert (await cluster.client.get(site.Service, KEY)).spec.selector == {"site": "shop"}
            await cluster.client.merge_patch(site.Site, KEY, {"spec": {"public": False}})
            await kcr_clock.advance(5)
            assert await cluster.client.list(site.Service, "default") == ()
        await namespace_ends(cluster, site.setup, [site.Site(metadata=metadata, spec=site.SiteSpec(public=True))])


async def test_namespace_with_a_live_shop_ends(shop: ModuleType, kcr_clock: VirtualClock) -> None:
    async with EmbeddedCluster(clock=kcr_clock, random=random.Random(1), kinds=[shop.Shop]) as cluster:
        await namespace_ends(cluster, shop.setup, [opened(shop, 2)])


async def test_shop_keeps_its_numbered_pods(shop: ModuleType, kcr_clock: VirtualClock) -> None:
    async with (
        EmbeddedCluster(clock=kcr_clock, random=random.Random(1), runtime=None, kinds=[shop.Shop]) as cluster,
        managed(cluster, shop).running(),
    ):
        await cluster.client.create(opened(shop, 3))
        await kcr_clock.advance(1)
        assert await pods(cluster) == ["shop-0", "shop-1", "shop-2"]
        await cluster.client.delete(Pod, kcr.Key("default", "shop-1"), grace_period_seconds=0)
        await kcr_clock.advance(1)
        assert await pods(cluster) == ["shop-0", "shop-1", "shop-2"]
        await scale(cluster, shop, 1)
        await kcr_clock.advance(60)
        assert await pods(cluster) == ["shop-0"]
        assert (await cluster.client.get(shop.Shop, KEY)).status.replicas == 1


@pytest.mark.parametrize("write", range(1, 6))
async def test_shop_that_crashes_makes_no_pod_twice(shop: ModuleType, kcr_clock: VirtualClock, write: int) -> None:
    async with EmbeddedCluster(clock=kcr_clock, random=random.Random(1), runtime=None, kinds=[shop.Shop]) as cluster:
        wire = CrashingTransport(cluster.transport)
        wire.crash_after(write)
        async with managed(cluster, shop, wire).running():
            await cluster.client.create(opened(shop, 3))
            await kcr_clock.advance(5)
        async with managed(cluster, shop).running():
            await kcr_clock.advance(5)
        assert await pods(cluster) == ["shop-0", "shop-1", "shop-2"]
        assert (await cluster.client.get(shop.Shop, KEY)).status.replicas == 3


async def test_pod_of_another_owner_is_named_in_a_warning(shop: ModuleType, kcr_clock: VirtualClock) -> None:
    async with EmbeddedCluster(clock=kcr_clock, random=random.Random(1), runtime=None, kinds=[shop.Shop]) as cluster:
        other = shop.new_pod(opened(shop, 1), "shop-1")
        await cluster.client.create_manifest(Pod, kcr.api.codec.encode(other), "default")
        async with managed(cluster, shop).running():
            await cluster.client.create(opened(shop, 2))
            await kcr_clock.advance(5)
            events = await cluster.client.list(Event, "default")
        assert await pods(cluster) == ["shop-0", "shop-1"]
        refusals = {event.message for event in events if event.reason == "FailedCreate"}
        assert refusals == {
            "Error creating: pod default/shop-1 exists, and is not controlled by shops.example.dev default/shop: "
            "delete it, or use another name"
        }
