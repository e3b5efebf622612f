"""Conversion by functions, end to end: a manager serves it, the API server calls it, clients see every version."""

from typing import Any

import pytest
from msgspec.structs import replace

import kcr
from kcr.errors import ServerError
from kcr.serving.webhooks.conversion import WebhookService
from kcr.testing import VirtualClock, eventually
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.kinds import install
from kcr_devcluster.webhook_manifests import with_conversion

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]

TAGS = "example.dev/tags"


class Tagged(kcr.Object):
    host: str
    tags: tuple[str, ...] = ()


class Hosted(kcr.Object):
    hosts: tuple[str, ...]


class Site(kcr.Resource, api_version="example.dev/v1", plural="sites", storage=True):
    spec: Hosted


class SiteV1Beta1(kcr.Resource, kind="Site", api_version="example.dev/v1beta1", plural="sites"):
    spec: Tagged


class SiteV1Alpha1(kcr.Resource, kind="Site", api_version="example.dev/v1alpha1", plural="sites"):
    spec: Tagged


def to_hub(old: Any) -> Site:
    """What the hub lacks is kept in an annotation."""
    if old.spec.host == "bad":
        raise ValueError("this host cannot be converted")
    annotations = {**old.metadata.annotations, **({TAGS: ",".join(old.spec.tags)} if old.spec.tags else {})}
    metadata = replace(old.metadata, annotations=annotations)
    return Site(metadata=metadata, spec=Hosted(hosts=(old.spec.host,)))


def parts(new: Site) -> dict[str, Any]:
    annotations = dict(new.metadata.annotations)
    tags = annotations.pop(TAGS, "")
    metadata = replace(new.metadata, annotations=annotations)
    return {"metadata": metadata, "spec": Tagged(host=new.spec.hosts[0], tags=tuple(tags.split(",")) if tags else ())}


kcr.converts(SiteV1Beta1, Site)(to_hub)
kcr.converts(SiteV1Alpha1, Site)(to_hub)
kcr.converts(Site, SiteV1Beta1)(lambda new: SiteV1Beta1(**parts(new)))
kcr.converts(Site, SiteV1Alpha1)(lambda new: SiteV1Alpha1(**parts(new)))

VERSIONS = (Site, SiteV1Beta1, SiteV1Alpha1)
META = kcr.ObjectMeta(name="a", namespace="default", labels={"app": "web"})


def converting(client: kcr.Client, clock: VirtualClock) -> kcr.Manager:
    manager = kcr.Manager(client, clock=clock)
    manager.add_conversion(Site)
    return manager


@pytest.mark.kcr_cluster(kinds=VERSIONS)
async def test_objects_are_read_and_written_in_every_version(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    client = kcr_cluster.client
    async with converting(client, kcr_clock).running():
        made = await client.create(SiteV1Beta1(metadata=META, spec=Tagged(host="a.dev", tags=("x", "y"))))
        assert made.spec == Tagged(host="a.dev", tags=("x", "y"))
        hub = await client.get(Site, made.key)
        assert (hub.spec.hosts, hub.metadata.annotations) == (("a.dev",), {TAGS: "x,y"})
        (alpha,) = await client.list(SiteV1Alpha1)
        assert (alpha.spec, alpha.metadata) == (made.spec, made.metadata)
        await client.merge_patch(SiteV1Alpha1, made.key, {"spec": {"tags": ["z"]}})
        assert (await client.get(Site, made.key)).metadata.annotations == {TAGS: "z"}


@pytest.mark.kcr_cluster(kinds=VERSIONS)
async def test_object_that_cannot_be_converted_is_refused_by_name(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    client = kcr_cluster.client
    async with converting(client, kcr_clock).running():
        with pytest.raises(ServerError, match="default/a, to_hub: ValueError: this host cannot be converted"):
            await client.create(SiteV1Beta1(metadata=META, spec=Tagged(host="bad")))
        assert not await client.list(Site)


@pytest.mark.kcr_cluster(kinds=VERSIONS)
async def test_informer_of_a_spoke_sees_converted_objects(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    client = kcr_cluster.client
    async with converting(client, kcr_clock).running():
        await client.create(Site(metadata=META, spec=Hosted(hosts=("a.dev",))))
        reader = kcr.Manager(client, clock=kcr_clock)
        store = reader.store(SiteV1Beta1)
        async with reader.running():
            assert [one.spec.host for one in store.list()] == ["a.dev"]
            await client.merge_patch(Site, kcr.Key("default", "a"), {"spec": {"hosts": ["b.dev"]}})

            async def is_current() -> bool:
                return [one.spec.host for one in store.list()] == ["b.dev"]

            await eventually(is_current)


@pytest.mark.kcr_cluster
async def test_service_of_the_definition_leads_to_the_manager(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    definition = with_conversion(kcr.crd_manifest(*VERSIONS), WebhookService("web", "site"))
    client = kcr_cluster.client
    await install(client, [definition])
    async with converting(client, kcr_clock).running():
        await client.create(Site(metadata=META, spec=Hosted(hosts=("a.dev",))))
        assert (await client.get(SiteV1Beta1, kcr.Key("default", "a"))).spec.host == "a.dev"
    with pytest.raises(ServerError, match=r"conversion webhook for example\.dev/v1, Kind=Site failed"):
        await client.get(SiteV1Beta1, kcr.Key("default", "a"))


@pytest.mark.kcr_cluster(kinds=VERSIONS)
async def test_first_list_of_a_manager_is_converted_by_itself(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    client = kcr_cluster.client
    await client.create(Site(metadata=META, spec=Hosted(hosts=("a.dev",))))
    manager = converting(client, kcr_clock)
    store = manager.store(SiteV1Beta1)

    class Unique:
        def validate_create(self, obj: Site, request: kcr.WebhookRequest) -> None:
            if any(one.spec.host in obj.spec.hosts for one in store.list()):
                raise kcr.Denied("is taken", field="spec.hosts")

    manager.add_webhook(Site, Unique())
    async with manager.running():
        assert [one.spec.host for one in store.list()] == ["a.dev"]
        taken = replace(META, name="b")
        with pytest.raises(kcr.InvalidError, match="is taken"):
            await client.create(Site(metadata=taken, spec=Hosted(hosts=("a.dev",))))
