"""From 1 to true is a change for clients, and for stores too."""

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

import kcr
from kcr.api.meta import Key, ObjectMeta
from kcr.dependents import create_or_patch
from kcr.informer import Informer, Selection
from kcr.testing import eventually
from kcr_devcluster.cluster import EmbeddedCluster


class GaugeSpec(kcr.Object):
    """Settings that other programs define."""

    settings: Mapping[str, Any] = {}


class Gauge(kcr.Resource, api_version="example.dev/v1", plural="gauges"):
    """A kind with fields that may be anything."""

    spec: GaugeSpec = GaugeSpec()
    status: GaugeSpec = GaugeSpec()


pytestmark = [pytest.mark.kcr_virtual, pytest.mark.kcr_cluster(kinds=[Gauge])]
NUMBERS = GaugeSpec(settings={"on": 1, "n": 0, "l": [0], "m": {"a": 1}})
BOOLEANS = GaugeSpec(settings={"on": True, "n": False, "l": [False], "m": {"a": 1.5}})
GAUGE = Gauge(metadata=ObjectMeta(name="g", namespace="default"), spec=NUMBERS)
KEY = Key("default", "g")


async def test_patch_writes_a_value_of_another_type(kcr_cluster: EmbeddedCluster) -> None:
    client = kcr_cluster.client
    made = await client.create(GAUGE)
    changed = await client.patch(made, replace(made, spec=BOOLEANS))
    assert str(changed.spec) == str(BOOLEANS)
    assert str((await client.get(Gauge, KEY)).spec) == str(BOOLEANS)
    assert await client.patch(changed, replace(changed, spec=BOOLEANS)) is changed


async def test_patch_status_writes_a_value_of_another_type(kcr_cluster: EmbeddedCluster) -> None:
    client = kcr_cluster.client
    made = await client.create(GAUGE)
    numbered = await client.patch_status(made, replace(made, status=NUMBERS))
    changed = await client.patch_status(numbered, replace(numbered, status=BOOLEANS))
    assert str(changed.status) == str(BOOLEANS)


async def test_create_or_patch_writes_a_value_of_another_type(kcr_cluster: EmbeddedCluster) -> None:
    client = kcr_cluster.client
    await client.create(GAUGE)
    for result in ("updated", "unchanged"):
        ensured = await create_or_patch(client, GAUGE, lambda found: replace(found, spec=BOOLEANS))
        assert (ensured.result, str(ensured.object.spec)) == (result, str(BOOLEANS))


async def test_store_shows_a_value_of_another_type(kcr_cluster: EmbeddedCluster) -> None:
    client = kcr_cluster.client
    made = await client.create(GAUGE)
    informer = Informer(client, (Selection(Gauge),), random=Random(0))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        await informer.wait_synced()
        changed = await client.merge_patch(Gauge, KEY, {"spec": {"settings": {"on": True, "l": [False]}}})
        assert changed.metadata.resource_version != made.metadata.resource_version
        await eventually(lambda: str(informer.store.get(KEY)) == str(changed))
        task.cancel()
