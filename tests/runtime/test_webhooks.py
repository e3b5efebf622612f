"""Webhooks of a manager, called by an embedded server in the same process: a denial reaches the client.

Source: controller-runtime/pkg/envtest/webhook.go, which installs the webhooks of a manager likewise.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

import kcr
from kcr.api.core import ConfigMap
from kcr.api.full import core_v1
from kcr.testing import CrashingTransport, FakeManager, FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.reviews import Website, WebsiteSpec

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.kcr_cluster(kinds=[Website], deployments=False)]

SITE = Website(metadata=kcr.ObjectMeta(name="home", namespace="default"), spec=WebsiteSpec(image="nginx:1"))
CONFIGURATIONS = [
    kcr.unstructured(
        "admissionregistration.k8s.io/v1", f"{phase}WebhookConfiguration",
        plural=f"{phase.lower()}webhookconfigurations", namespaced=False,
    )
    for phase in ("Mutating", "Validating")
]  # fmt: skip


class WebsiteWebhook:
    def __init__(self, manager: kcr.Manager) -> None:
        self._client = manager.client
        self._maps = manager.store(ConfigMap)

    async def default(self, obj: Website, request: kcr.WebhookRequest) -> Website | None:
        if ":" in obj.spec.image:
            return None
        await asyncio.sleep(1)
        return replace(obj, spec=replace(obj.spec, image=f"{obj.spec.image}:latest"))

    def validate_create(self, obj: Website, request: kcr.WebhookRequest) -> list[str]:
        if obj.spec.image.startswith("apache"):
            raise kcr.Denied("must be nginx", field="spec.image")
        if self._maps.get(kcr.Key("default", "frozen")) is not None:
            raise kcr.Denied("the namespace is frozen")
        return ["one replica is few"]

    async def validate_update(self, old: Website, new: Website, request: kcr.WebhookRequest) -> None:
        if new.spec.image != old.spec.image:
            made = ConfigMap(metadata=kcr.ObjectMeta(name=f"seen-{request.name}", namespace=request.namespace))
            await self._client.create(made)

    def validate_delete(self, old: Website, request: kcr.WebhookRequest) -> None:
        if old.metadata.labels.get("keep"):
            raise kcr.Denied(f"{request.user.name} keeps it")


def managed(cluster: EmbeddedCluster, clock: VirtualClock, **options: Any) -> kcr.Manager:
    manager = kcr.Manager(cluster.client, clock=clock, random=Random(3))
    manager.add_webhook(Website, WebsiteWebhook(manager), **options)
    return manager


def with_image(image: str, name: str = "home") -> Website:
    return replace(SITE, metadata=replace(SITE.metadata, name=name), spec=replace(SITE.spec, image=image))


async def configured(client: kcr.Client) -> list[str]:
    return [obj.metadata.name for kind in CONFIGURATIONS for obj in await client.list(kind)]


async def test_denial_with_a_field_reaches_the_client(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    async with managed(kcr_cluster, kcr_clock).running():
        with pytest.raises(kcr.InvalidError, match=r"denied the request: spec\.image: must be nginx") as refused:
            await kcr_cluster.client.create(with_image("apache:2"))
    assert [(cause.field, cause.message) for cause in refused.value.causes] == [("spec.image", "must be nginx")]
    assert 'admission webhook "validate.v1.websites.example.dev"' in refused.value.message


async def test_denial_without_a_field_is_forbidden_by_what_the_store_has(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    await kcr_cluster.client.create(ConfigMap(metadata=kcr.ObjectMeta(name="frozen", namespace="default")))
    async with managed(kcr_cluster, kcr_clock).running():
        with pytest.raises(kcr.ForbiddenError, match="the namespace is frozen"):
            await kcr_cluster.client.create(SITE)


async def test_default_is_stored_and_takes_virtual_time(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    began = asyncio.get_running_loop().time()
    async with managed(kcr_cluster, kcr_clock).running():
        made = await kcr_cluster.client.create(with_image("nginx"))
    assert made.spec.image == "nginx:latest"
    assert asyncio.get_running_loop().time() - began >= 1


async def test_delete_is_reviewed_with_its_user(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    kept = replace(SITE, metadata=replace(SITE.metadata, labels={"keep": "yes"}))
    async with managed(kcr_cluster, kcr_clock).running():
        await kcr_cluster.client.create(kept)
        with pytest.raises(kcr.ForbiddenError, match="ann keeps it"):
            await kcr_cluster.client_as("ann").delete(Website, SITE.key)
    await kcr_cluster.client.delete(Website, SITE.key)


async def test_dry_run_of_the_user_makes_dry_runs_of_the_webhook(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:  # WH-8
    manager = managed(kcr_cluster, kcr_clock, side_effects="NoneOnDryRun")
    async with manager.running():
        made = await kcr_cluster.client.create(SITE)
        changed = replace(made, spec=replace(made.spec, image="nginx:2"))
        await kcr_cluster.client.with_options(dry_run=True).patch(made, changed)
        assert await kcr_cluster.client.list(ConfigMap, "default") == ()
        await kcr_cluster.client.patch(made, changed)
    assert [obj.metadata.name for obj in await kcr_cluster.client.list(ConfigMap, "default")] == ["seen-home"]


async def test_configurations_live_as_long_as_the_manager(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    async with managed(kcr_cluster, kcr_clock).running():
        assert await configured(kcr_cluster.client) == ["kcr-webhooks-in-process"] * 2
    assert await configured(kcr_cluster.client) == []
    await kcr_cluster.client.create(with_image("apache:2"))


async def test_replicas_share_their_webhooks(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    first, second = managed(kcr_cluster, kcr_clock), managed(kcr_cluster, kcr_clock)
    async with second.running():
        async with first.running():
            assert len(await configured(kcr_cluster.client)) == 2
        with pytest.raises(kcr.InvalidError):
            await kcr_cluster.client.create(with_image("apache:2"))
    assert await configured(kcr_cluster.client) == []


async def test_programs_have_webhooks_of_their_own(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    class NoSecrets:
        def validate_create(self, obj: core_v1.ConfigMap, request: kcr.WebhookRequest) -> None:
            raise kcr.Denied("use a Secret", field="data")

    other = kcr.Manager(kcr_cluster.client, clock=kcr_clock, random=Random(4))
    other.add_webhook(core_v1.ConfigMap, NoSecrets())
    async with managed(kcr_cluster, kcr_clock).running(), other.running():
        assert len(await configured(kcr_cluster.client)) == 3
        with pytest.raises(kcr.InvalidError, match="use a Secret"):
            await kcr_cluster.client.create(ConfigMap(metadata=SITE.metadata))
        with pytest.raises(kcr.InvalidError, match="must be nginx"):
            await kcr_cluster.client.create(with_image("apache:2"))


Wrap = Callable[[Any], Any]


@pytest.mark.parametrize(
    "wrap", [pytest.param(FaultyTransport, id="faulty"), pytest.param(CrashingTransport, id="crashing")]
)
async def test_transport_with_faults_leads_to_the_server(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, wrap: Wrap
) -> None:
    client = kcr.Client(wrap(kcr_cluster.transport))
    manager = kcr.Manager(client, clock=kcr_clock, random=Random(3))
    manager.add_webhook(Website, WebsiteWebhook(manager))
    async with manager.running():
        with pytest.raises(kcr.InvalidError):
            await kcr_cluster.client.create(with_image("apache:2"))


async def test_fake_manager_serves_its_webhooks_while_it_runs() -> None:
    manager = FakeManager(kinds=[Website])
    manager.add_webhook(Website, WebsiteWebhook(manager))
    async with manager.running():
        with pytest.raises(kcr.InvalidError, match="must be nginx"):
            await manager.client.create(with_image("apache:2"))
        manager.informer(ConfigMap).add(ConfigMap(metadata=kcr.ObjectMeta(name="frozen", namespace="default")))
        with pytest.raises(kcr.ForbiddenError, match="frozen"):
            await manager.client.create(SITE)


@pytest.mark.parametrize(
    ("policy", "is_refused"), [pytest.param("Fail", True, id="fail"), pytest.param("Ignore", False, id="ignore")]
)
async def test_failure_policy_applies_to_bugs_and_deadlines(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, policy: Any, is_refused: bool
) -> None:  # WH-7
    class Fails:
        async def validate_create(self, obj: Website, request: kcr.WebhookRequest) -> None:
            if obj.metadata.name == "bug":
                raise KeyError("image")
            await asyncio.sleep(3600)

    manager = kcr.Manager(kcr_cluster.client, clock=kcr_clock, random=Random(3))
    manager.add_webhook(Website, Fails(), failure_policy=policy, timeout_seconds=5)
    async with manager.running():
        for name, message in (("bug", r"KeyError: 'image' \[recovered\]"), ("slow", "no answer within 90%")):
            if is_refused:
                with pytest.raises(kcr.ServerError, match=f"failed calling webhook .*{message}"):
                    await kcr_cluster.client.create(with_image("nginx:1", name))
            else:
                await kcr_cluster.client.create(with_image("nginx:1", name))


async def test_configuration_that_the_server_refuses_ends_the_manager(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    manager = managed(kcr_cluster, kcr_clock, match_conditions={"broken": "1 +"})
    with pytest.raises(kcr.InvalidError, match="matchConditions"):
        async with manager.running():
            pytest.fail("it must not run")
    assert await configured(kcr_cluster.client) == []
