"""What `kcr explain` prints of the kind of a third plugin, whole: by its reconciler, and from outside."""

import random
from collections.abc import Sequence
from datetime import datetime

import pytest

import kcr
from kcr.api.core import ConfigMap, Event
from kcr.api.meta import OwnerReference, controller_reference
from kcr.app.plugins import attach
from kcr.client.explainers import Explainer, explainers_of
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.explanations import explained_object, text
from tests.kit.open_manager import OpenManager


class Site(kcr.Resource, api_version="shop.example.dev/v1", plural="sites"):
    """A site that needs a DNS entry: a ConfigMap of its name."""


class Shop(kcr.Resource, api_version="shop.example.dev/v1", plural="shops"):
    """An owner of sites."""


pytestmark = [pytest.mark.kcr_virtual, pytest.mark.kcr_cluster(kinds=[Site, Shop])]
KEY = kcr.Key("default", "web")


class Sites:
    """Waits for the DNS entry, and remembers how often it has asked for it."""

    def __init__(self) -> None:
        self._asked = 0

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        self._asked += 1
        return kcr.Result(requeue_after=60)

    async def explain(self, key: kcr.Key) -> kcr.Explanation:
        return kcr.Explanation(kcr.Code.WAITING, "waits for its DNS entry", reasons=(f"asked for {self._asked} times",))


async def explain_site(client: kcr.Client, site: Site, events: Sequence[Event], now: datetime) -> kcr.Explanation:
    try:
        await client.get(ConfigMap, site.key)
    except kcr.NotFoundError:
        remedy = f"kubectl -n {site.metadata.namespace} create configmap {site.metadata.name}"
        return kcr.Explanation(kcr.Code.REFUSED, "has no DNS entry", remedies=(remedy,))
    return kcr.Explanation(kcr.Code.HEALTHY, "is served", present="a DNS entry")


@kcr.explains(Site, explain_site)
def setup(manager: kcr.Manager) -> None:
    manager.add_controller("sites", Sites(), watches=[kcr.watch(Site)])


EXPLAINERS = explainers_of(setup)


async def create(cluster: EmbeddedCluster, *owners: OwnerReference) -> None:
    metadata = kcr.ObjectMeta(name="web", namespace="default", owner_references=owners)
    await cluster.client.create(Site(metadata=metadata))


async def test_plugin_explains_its_kind_from_outside(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await create(kcr_cluster)
    client = kcr_cluster.client
    assert await explained_object(client, kcr_clock, "site/web", explainers=EXPLAINERS) == text("""
        site default/web: has no DNS entry
          remedy      kubectl -n default create configmap web
    """)
    await client.create(ConfigMap(metadata=kcr.ObjectMeta(name="web", namespace="default")))
    assert await explained_object(client, kcr_clock, "site/web", explainers=EXPLAINERS) == text("""
        site default/web: is served
          present     a DNS entry
    """)


async def test_both_explanations_of_a_plugin_are_merged_by_rank(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    await create(kcr_cluster)
    manager = OpenManager(kcr_cluster.client, clock=kcr_clock, random=random.Random(0))
    attach({"shop:setup": setup}, manager, {})
    async with manager.running():
        await kcr_clock.advance(70)
        client = kcr_cluster.client
        found = await explained_object(client, kcr_clock, "site/web", manager=manager, explainers=EXPLAINERS)
        assert found == text("""
            site default/web: has no DNS entry
              why         it waits for its DNS entry
                          asked for 2 times
              remedy      kubectl -n default create configmap web
              controller  sites: waits for a time that a reconcile asked for: queued in 50s
                          at kcr run 1.0, pid 1
        """)
        await client.create(ConfigMap(metadata=kcr.ObjectMeta(name="web", namespace="default")))
        found = await explained_object(client, kcr_clock, "site/web", manager=manager, explainers=EXPLAINERS)
        assert found.startswith("site default/web: waits for its DNS entry\n")


async def test_owner_leads_to_the_object_of_a_plugin(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    shop = await kcr_cluster.client.create(Shop(metadata=kcr.ObjectMeta(name="books", namespace="default")))
    await create(kcr_cluster, controller_reference(shop))
    assert await explained_object(kcr_cluster.client, kcr_clock, "shop/books", explainers=EXPLAINERS) == text("""
        shop default/books: its site web has no DNS entry
          wanted      generation 1
          remedy      kubectl -n default create configmap web
                      see it: kcr explain -n default site/web
    """)


async def test_missing_rights_of_a_plugin_are_granted_at_once(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    class Denied(Sites):
        async def reconcile(self, key: kcr.Key) -> kcr.Result:
            message = 'User "system:serviceaccount:ns:a" cannot get resource "configmaps" in API group ""'
            raise kcr.ForbiddenError(403, "Forbidden", message)

    def denied(manager: kcr.Manager) -> None:
        manager.add_controller("sites", Denied(), watches=[kcr.watch(Site)])

    await create(kcr_cluster)
    manager = OpenManager(kcr_cluster.client, clock=kcr_clock, random=random.Random(0))
    attach({"shop:setup": denied}, manager, {})
    async with manager.running():
        await kcr_clock.advance(1)
        found = await explained_object(kcr_cluster.client, kcr_clock, "site/web", manager=manager)
    assert "controller sites lacks the right to get configmaps" in found
    assert "kcr rbac generate --controllers shop:setup --service-account ns/a |\n" in found


async def fails(client: kcr.Client, site: Site, events: Sequence[Event], now: datetime) -> kcr.Explanation:
    raise LookupError("no such record")


async def returns_a_text(client: kcr.Client, site: Site, events: Sequence[Event], now: datetime) -> kcr.Explanation:
    return "is served"  # type: ignore[return-value]  # as of a plugin without type checks


async def test_explainer_that_fails_is_named_and_left_out(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    await create(kcr_cluster)
    wrong = [Explainer(Site, fails), Explainer(Site, returns_a_text)]
    assert await explained_object(kcr_cluster.client, kcr_clock, "site/web", explainers=wrong) == text("""
        site default/web: has existed for 0s, and nothing suggests trouble
          wanted      generation 1
          why         tests.runtime.explanations.test_plugins.fails fails: LookupError: no such record
                      tests.runtime.explanations.test_plugins.returns_a_text returned 'is served', not a
                        kcr.Explanation
    """)
