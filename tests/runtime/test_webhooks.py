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
from kcr.api.apps import Scale
from kcr.api.core import ConfigMap
from kcr.api.full import apps_v1, core_v1
from kcr.api.selectors import LabelSelector
from kcr.errors import ServerError
from kcr.scopes.leaderelection import LeaderElectionConfig, LeaderElector
from kcr.testing import CrashingTransport, FakeManager, FaultyTransport, VirtualClock, eventually
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.reviews import Website, WebsiteSpec, WebsiteStatus

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


async def test_configurations_of_a_killed_process_are_replaced(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    stale: dict[str, Any] = {"metadata": {"name": "kcr-webhooks-in-process"}, "webhooks": []}
    for kind in CONFIGURATIONS:
        await kcr_cluster.client.create_manifest(kind, stale)
    async with managed(kcr_cluster, kcr_clock).running():
        with pytest.raises(kcr.InvalidError):
            await kcr_cluster.client.create(with_image("apache:2"))
    assert await configured(kcr_cluster.client) == []


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
                with pytest.raises(ServerError, match=f"failed calling webhook .*{message}"):
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


def manager_with(
    cluster: EmbeddedCluster, clock: VirtualClock, kind: type[kcr.Resource], webhook: Any, **options: Any
) -> kcr.Manager:
    manager = kcr.Manager(cluster.client, clock=clock, random=Random(5))
    manager.add_webhook(kind, webhook, **options)
    return manager


def deployment() -> apps_v1.Deployment:
    labels = {"app": "web"}
    template = core_v1.PodTemplateSpec(
        metadata=kcr.ObjectMeta(labels=labels),
        spec=core_v1.PodSpec(containers=(core_v1.Container(name="web", image="nginx"),)),
    )
    spec = apps_v1.DeploymentSpec(selector=LabelSelector(match_labels=labels), template=template, replicas=1)
    return apps_v1.Deployment(metadata=kcr.ObjectMeta(name="web", namespace="default"), spec=spec)


async def test_scale_is_reviewed_as_a_scale(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    class AtMostThree:
        def default(self, obj: Scale, request: kcr.WebhookRequest) -> Scale | None:
            return replace(obj, spec=replace(obj.spec, replicas=2)) if obj.spec.replicas == 0 else None

        def validate_update(self, old: Scale, new: Scale, request: kcr.WebhookRequest) -> None:
            if new.spec.replicas > 3:
                raise kcr.Denied(f"{old.spec.replicas} to {new.spec.replicas}", field="spec.replicas")

    manager = manager_with(kcr_cluster, kcr_clock, apps_v1.Deployment, AtMostThree(), subresource="scale")
    client, key = kcr_cluster.client, kcr.Key("default", "web")
    async with manager.running():
        await client.create(deployment())
        with pytest.raises(kcr.InvalidError, match="1 to 4"):
            await client.set_scale(apps_v1.Deployment, key, 4)
        await client.set_scale(apps_v1.Deployment, key, 0)
    assert (await client.get(apps_v1.Deployment, key)).spec.replicas == 2


async def test_status_is_reviewed_apart_from_the_object(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    class NotReady:
        def validate_update(self, old: Website, new: Website, request: kcr.WebhookRequest) -> None:
            raise kcr.Denied("is never ready", field="status.ready")

    async with manager_with(kcr_cluster, kcr_clock, Website, NotReady(), subresource="status").running():
        made = await kcr_cluster.client.create(SITE)
        changed = await kcr_cluster.client.patch(made, replace(made, spec=replace(made.spec, replicas=3)))
        with pytest.raises(kcr.InvalidError, match="is never ready"):
            await kcr_cluster.client.patch_status(changed, replace(changed, status=WebsiteStatus(ready=1)))


async def test_eviction_is_reviewed(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    class NoEviction:
        def validate_create(self, obj: kcr.Unstructured, request: kcr.WebhookRequest) -> None:
            raise kcr.Denied(f"{obj.resource.kind} of {request.namespace}/{request.name}")

    pod = core_v1.Pod(
        metadata=SITE.metadata, spec=core_v1.PodSpec(containers=(core_v1.Container(name="web", image="nginx"),))
    )
    async with manager_with(kcr_cluster, kcr_clock, core_v1.Pod, NoEviction(), subresource="eviction").running():
        await kcr_cluster.client.create(pod)
        with pytest.raises(kcr.ForbiddenError, match="Eviction of default/home"):
            await kcr_cluster.client.evict(pod.key)


async def test_options_select_the_requests(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    class Never:
        def validate_create(self, obj: Website, request: kcr.WebhookRequest) -> None:
            raise kcr.Denied("no")

    manager = manager_with(
        kcr_cluster, kcr_clock, Website, Never(),
        object_selector={"matchExpressions": [{"key": "skip", "operator": "DoesNotExist"}]},
        match_conditions={"not-bob": "request.userInfo.username != 'bob'"},
    )  # fmt: skip
    async with manager.running():
        with pytest.raises(kcr.ForbiddenError):
            await kcr_cluster.client.create(SITE)
        await kcr_cluster.client_as("bob").create(SITE)
        skipped = replace(SITE, metadata=replace(SITE.metadata, name="skipped", labels={"skip": "yes"}))
        await kcr_cluster.client.create(skipped)


async def test_applied_object_that_is_defaulted_can_be_applied_again(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    async with managed(kcr_cluster, kcr_clock).running():
        first = await kcr_cluster.client.apply(with_image("nginx"), field_owner="me")
        again = await kcr_cluster.client.apply(with_image("nginx"), field_owner="me")
    assert first.spec.image == again.spec.image == "nginx:latest"
    assert first.metadata.resource_version == again.metadata.resource_version


async def test_webhook_that_writes_its_own_kind_is_reviewed_in_turn(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    manager = kcr.Manager(kcr_cluster.client, clock=kcr_clock, random=Random(5))

    class Pairs:
        async def validate_create(self, obj: Website, request: kcr.WebhookRequest) -> None:
            if request.name == "home":
                await manager.client.create(with_image("nginx:1", "twin"))

    manager.add_webhook(Website, Pairs(), side_effects="NoneOnDryRun")
    async with manager.running():
        await kcr_cluster.client.create(SITE)
        twin = await kcr_cluster.client.get(Website, kcr.Key("default", "twin"))
        home = await kcr_cluster.client.get(Website, SITE.key)
    assert twin.metadata.uid != home.metadata.uid


async def test_replica_that_stands_by_serves_and_writes(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    def elector(name: str) -> LeaderElector:
        config = LeaderElectionConfig(name="web", identity=name)
        return LeaderElector(kcr_cluster.client, config, clock=kcr_clock, random=Random(name))

    leader = kcr.Manager(kcr_cluster.client, clock=kcr_clock, random=Random(1), leader_election=elector("a"))
    async with leader.running():
        await eventually(lambda: leader.elector is not None and leader.elector.leads)
        standby = kcr.Manager(kcr_cluster.client, clock=kcr_clock, random=Random(2), leader_election=elector("b"))
        standby.add_webhook(Website, WebsiteWebhook(standby))
        async with standby.running():
            made = await kcr_cluster.client.create(SITE)
            await kcr_cluster.client.patch(made, replace(made, spec=replace(made.spec, image="nginx:2")))
    assert [obj.metadata.name for obj in await kcr_cluster.client.list(ConfigMap, "default")] == ["seen-home"]
