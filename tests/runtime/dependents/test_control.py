import pytest
from msgspec.structs import replace

from kcr.api.core import ConfigMap, Namespace
from kcr.api.meta import Key, is_controlled_by
from kcr.client import Client
from kcr.cluster import EmbeddedCluster
from kcr.dependents import DependentControl
from kcr.errors import ForbiddenError, NotFoundError, TransportError
from kcr.testing import FakeRecorder, FaultyTransport, build

pytestmark = pytest.mark.virtual

TEMPLATE = build.config_map(
    "ignored", {"x": "1"}, labels={"app": "shop"}, annotations={"a": "b"}, finalizers=("kcr.dev/x",)
)


class Shop:
    """An owner, and the control of its ConfigMaps."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster
        self.faults = FaultyTransport(cluster.transport)
        self.recorder = FakeRecorder()
        self.written: list[ConfigMap] = []
        client = Client(self.faults)
        self.control = DependentControl(client, self.recorder, ConfigMap, on_write=self.written.append)

    async def owner(self) -> ConfigMap:
        return await self.cluster.client.create(build.config_map("shop", uid="", resource_version=""))

    def told(self) -> list[str]:
        return [str(event) for event in self.recorder.events]


async def test_objects_are_made_after_the_template_and_owned(cluster: EmbeddedCluster) -> None:  # EX-30
    shop = Shop(cluster)
    owner = await shop.owner()
    attempts = await shop.control.create(owner, TEMPLATE)
    (made,) = attempts.done
    assert made.metadata.name.startswith("shop-")
    assert (made.metadata.labels, made.metadata.annotations) == ({"app": "shop"}, {"a": "b"})
    assert made.metadata.finalizers == ("kcr.dev/x",)
    assert made.data == {"x": "1"}
    assert is_controlled_by(made, owner)
    assert made.metadata.owner_references[0].block_owner_deletion
    assert shop.told() == [f"Normal SuccessfulCreate Created configmap: {made.metadata.name}"]


async def test_generated_names_may_begin_otherwise(cluster: EmbeddedCluster) -> None:  # EX-30
    shop = Shop(cluster)
    template = replace(TEMPLATE, metadata=replace(TEMPLATE.metadata, generate_name="page-"))
    attempts = await shop.control.create(await shop.owner(), template)
    assert attempts.done[0].metadata.name.startswith("page-")


async def test_template_without_labels_is_refused(cluster: EmbeddedCluster) -> None:  # EX-30
    shop = Shop(cluster)
    with pytest.raises(ValueError, match="configmaps default/shop: unable to create configmaps, no labels"):
        await shop.control.create(await shop.owner(), build.config_map("bare"))


async def test_many_creations_are_three_events_and_a_summary(cluster: EmbeddedCluster) -> None:  # EX-18, EX-30
    shop = Shop(cluster)
    attempts = await shop.control.create(await shop.owner(), TEMPLATE, 10)
    assert len(attempts.done) == 10
    assert len(shop.told()) == 4
    assert shop.told()[-1].startswith("Normal SuccessfulCreate Created 7 more configmaps: shop-")


async def test_skipped_and_failed_creations_are_counted(cluster: EmbeddedCluster) -> None:  # EX-18, EX-19
    shop = Shop(cluster)
    shop.faults.on("create", ConfigMap, nth=2).fail(ForbiddenError)
    shop.faults.on("create", ConfigMap, nth=3).lose_reply()
    attempts = await shop.control.create(await shop.owner(), TEMPLATE, 10)
    assert (len(attempts.done), attempts.skipped) == (1, 7)
    assert {type(failure.error) for failure in attempts.failures} == {ForbiddenError, TransportError}
    # One more is there than was reported: its reply was lost.
    assert len(await cluster.client.list(ConfigMap, labels="app=shop")) == 2
    assert sum("FailedCreate" in event for event in shop.told()) == 2


async def test_namespace_that_ends_stops_creation_without_an_event(cluster: EmbeddedCluster) -> None:  # EX-20
    shop = Shop(cluster)
    await cluster.client.create(Namespace(metadata=build.metadata("going", namespace="", uid="", resource_version="")))
    held = build.config_map("shop", namespace="going", uid="", resource_version="", finalizers=("kcr.dev/x",))
    owner = await cluster.client.create(held)
    await cluster.client.delete(Namespace, Key("", "going"))
    attempts = await shop.control.create(owner, TEMPLATE, 10)
    assert (len(attempts.done), attempts.skipped) == (0, 9)
    assert shop.told() == []


async def test_deletions_go_out_together_and_are_told(cluster: EmbeddedCluster) -> None:  # EX-22, EX-31
    shop = Shop(cluster)
    owner = await shop.owner()
    template = replace(TEMPLATE, metadata=replace(TEMPLATE.metadata, finalizers=()))
    made = (await shop.control.create(owner, template, 4)).done
    shop.recorder.events.clear()
    await cluster.client.delete(ConfigMap, made[0].key)
    shop.faults.on("delete", name=made[1].metadata.name).fail(ForbiddenError)
    attempts = await shop.control.delete(owner, made)
    assert attempts.done == made[2:]
    assert [(failure.number, type(failure.error)) for failure in attempts.failures] == [
        (0, NotFoundError),
        (1, ForbiddenError),
    ]
    assert [event.reason for event in shop.recorder.events] == ["SuccessfulDelete", "SuccessfulDelete", "FailedDelete"]


async def test_object_of_the_same_name_survives_a_late_deletion(cluster: EmbeddedCluster) -> None:  # EX-31
    shop = Shop(cluster)
    owner = await shop.owner()
    stale = replace(owner, metadata=replace(owner.metadata, uid="of-an-older-one"))
    assert len((await shop.control.delete(owner, [stale])).failures) == 1
    assert await cluster.client.get(ConfigMap, Key("default", "shop")) == owner


async def test_every_written_object_is_reported(cluster: EmbeddedCluster) -> None:  # EX-32
    shop = Shop(cluster)
    made = (await shop.control.create(await shop.owner(), TEMPLATE, 2)).done
    patched = await shop.control.patch(made[0].key, {"data": {"x": "2"}})
    assert shop.written == [*made, patched]
    assert patched.data == {"x": "2"}
