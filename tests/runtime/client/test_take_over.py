"""From create_or_patch to apply: what the code no longer states is removed, whatever happens in between."""

from typing import Any

import pytest
import pytest_asyncio
from msgspec.structs import replace

from kcr.api import codec
from kcr.api.core import ConfigMap
from kcr.api.managed_fields import ManagedObject
from kcr.api.meta import Key, ObjectMeta
from kcr.client import Client
from kcr.client.wire.transport import object_path
from kcr.dependents import create_or_patch
from kcr.errors import ApiError, ConflictError, KcrError
from kcr.testing import FaultyTransport
from kcr_devcluster.cluster import EmbeddedCluster

pytestmark = pytest.mark.kcr_virtual

KEY = Key("default", "site")
NAMED = ConfigMap(metadata=ObjectMeta(name=KEY.name, namespace=KEY.namespace))
OLD = {"page": "1", "color": "red", "size": "9"}
NEW = replace(NAMED, data={"page": "1", "color": "blue"})
# Apply, take over, apply again.
STEPS = 3


@pytest_asyncio.fixture
async def faults(kcr_cluster: EmbeddedCluster) -> FaultyTransport:
    """Give the way to a server with an object of create_or_patch, of which others have applied something as well."""
    other = kcr_cluster.client.with_options(field_manager="other")
    # A server that has seen no apply keeps no managed fields of an object.
    await other.apply(replace(NAMED, metadata=replace(NAMED.metadata, labels={"of": "others"})))
    faults = FaultyTransport(kcr_cluster.transport)
    await create_or_patch(client_of(faults), NAMED, lambda found: replace(found, data={**found.data, **OLD}))
    faults.calls.clear()
    return faults


def client_of(transport: FaultyTransport) -> Client:
    return Client(transport, field_manager="site")


async def owners(client: Client) -> dict[str, Any]:
    body = await client.request("GET", object_path(ConfigMap, KEY))
    found = codec.decode(ManagedObject, body).metadata.managed_fields
    return {f"{one.manager} {one.operation}": one.fields_v1 for one in found}


async def assert_moved(faults: FaultyTransport) -> None:
    """Assert that the object has what the code states and what others wrote, and that nothing is left to do."""
    client = client_of(faults)
    found = await client.get(ConfigMap, KEY)
    assert (found.data, found.metadata.labels) == ({"page": "1", "color": "blue"}, {"of": "others"})
    assert await owners(client) == {
        "site Apply": {"f:data": {"f:page": {}, "f:color": {}}},
        "other Apply": {"f:metadata": {"f:labels": {"f:of": {}}}},
    }
    faults.calls.clear()
    assert await client.apply(NEW, force=True) == found
    assert [call.verb for call in faults.calls] == ["patch"]


async def test_fields_that_left_the_code_are_removed(faults: FaultyTransport) -> None:
    applied = await client_of(faults).apply(NEW, force=True)
    assert applied.data == {"page": "1", "color": "blue"}
    assert [call.verb for call in faults.calls] == ["patch"] * STEPS
    await assert_moved(faults)


async def test_manifest_takes_over_as_well(faults: FaultyTransport) -> None:
    manifest = {"metadata": {"name": "site", "namespace": "default"}, "data": dict(NEW.data)}
    await client_of(faults).apply_manifest(ConfigMap, manifest, force=True)
    await assert_moved(faults)


async def test_object_with_a_version_takes_over_as_well(faults: FaultyTransport) -> None:
    client = client_of(faults)
    found = await client.get(ConfigMap, KEY)
    given = ObjectMeta(name="site", namespace="default", resource_version=found.metadata.resource_version)
    await client.apply(replace(NEW, metadata=given), force=True)
    with pytest.raises(ConflictError):
        await client.apply(replace(NEW, metadata=given), force=True)
    await assert_moved(faults)


@pytest.mark.parametrize("step", range(1, STEPS + 1))
@pytest.mark.parametrize("loss", ["request", "reply", "refused"])
async def test_apply_that_ends_at_any_step_is_continued_by_the_next(
    faults: FaultyTransport, step: int, loss: str
) -> None:
    rule = faults.on("patch", ConfigMap, nth=step)
    match loss:
        case "request":
            rule.lose_request()
        case "reply":
            rule.lose_reply()
        case _:
            rule.fail(ApiError(500, "", "out of order"))
    client = client_of(faults)
    for _ in range(2):
        try:
            await client.apply(NEW, force=True)
        except KcrError:
            assert rule.met
    faults.heal()
    await assert_moved(faults)


@pytest.mark.parametrize("step", range(1, STEPS + 1))
async def test_write_of_another_client_in_between_is_kept(faults: FaultyTransport, step: int) -> None:
    other = Client(faults, field_manager="another")

    async def interfere() -> None:
        faults.heal()
        await other.merge_patch(ConfigMap, KEY, {"data": {"theirs": "x"}})

    faults.on("patch", ConfigMap, nth=step).then(interfere)
    applied = await client_of(faults).apply(NEW, force=True)
    assert applied.data == {"page": "1", "color": "blue", "theirs": "x"}


async def test_writes_of_others_without_end_are_a_conflict(
    faults: FaultyTransport, kcr_cluster: EmbeddedCluster
) -> None:
    client, writes = client_of(faults), iter(range(100))
    direct = kcr_cluster.client.with_options(field_manager="another")

    async def interfere() -> None:
        await direct.merge_patch(ConfigMap, KEY, {"data": {"theirs": str(next(writes))}})

    faults.on("patch", ConfigMap).then(interfere)
    with pytest.raises(ConflictError):
        await client.apply(NEW, force=True)
    faults.heal()
    assert (await client.apply(NEW, force=True)).data.keys() == {"page", "color", "theirs"}


async def test_field_that_is_patched_beside_the_applied_ones_stays(faults: FaultyTransport) -> None:
    client = client_of(faults)
    await client.apply(NEW, force=True)
    await client.merge_patch(ConfigMap, KEY, {"metadata": {"annotations": {"claimed": "yes"}}})
    for data in ({"page": "2"}, {"page": "3"}):
        faults.calls.clear()
        applied = await client.apply(replace(NEW, data=data), force=True)
        assert (applied.data, applied.metadata.annotations) == (data, {"claimed": "yes"})
        assert len(faults.calls) == 1


async def test_finalizer_that_was_patched_stays(faults: FaultyTransport) -> None:
    client = client_of(faults)
    await client.merge_patch(ConfigMap, KEY, {"metadata": {"finalizers": ["example.dev/clean"]}})
    applied = await client.apply(NEW, force=True)
    assert (applied.data, applied.metadata.finalizers) == (NEW.data, ("example.dev/clean",))


async def test_dry_run_and_subresource_take_nothing_over(faults: FaultyTransport) -> None:
    client = client_of(faults)
    dry = await client.with_options(dry_run=True).apply(NEW, force=True)
    assert len(faults.calls) == 1
    assert dry.data == {**OLD, "color": "blue"}
    assert (await client.get(ConfigMap, KEY)).data == OLD
