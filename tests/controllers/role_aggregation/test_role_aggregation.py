"""ClusterRoles that aggregate others.

Source: kubernetes/pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go.
"""

from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
import pytest_asyncio

from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.api import Api, binding, role
from tests.kit.custom_resources import DEFINITIONS, WIDGETS, definition, spec_schema, version

pytestmark = pytest.mark.kcr_virtual
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
GROUP = "rbac.authorization.k8s.io"


@pytest_asyncio.fixture
async def admin(kcr_clock: VirtualClock) -> AsyncIterator[Api]:
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), runtime=None, authorization="rbac") as cluster:
        yield Api(cluster.server)


def labelled(name: str, label: str, verbs: str, *resources: str, **rule: Any) -> dict[str, Any]:
    made = role(name, verbs, *resources, **rule)
    return {**made, "metadata": {"name": name, "labels": {f"{GROUP}/aggregate-to-{label}": "true"}}}


async def test_labelled_role_adds_to_the_default_roles(admin: Api, kcr_clock: VirtualClock) -> None:
    await admin.post(DEFINITIONS, definition(version("v1", spec_schema({}))))
    target = f"/apis/{GROUP}/v1/namespaces/default/rolebindings"
    await admin.post(target, binding("a", "ClusterRole", "admin", "User:alice"))
    await admin.post(target, binding("b", "ClusterRole", "edit", "User:bob"))
    alice, bob = admin.as_user("alice"), admin.as_user("bob")
    assert (await alice.call("GET", WIDGETS)).status == (await bob.call("GET", WIDGETS)).status == 403
    await admin.post(ROLES, labelled("widgets", "edit", "get list", "widgets", apiGroups=["ex.io"]))
    await kcr_clock.advance(1)
    assert (await alice.call("GET", WIDGETS)).status == (await bob.call("GET", WIDGETS)).status == 200
    await admin.patch(f"{ROLES}/widgets", {"metadata": {"labels": None}})
    await kcr_clock.advance(1)
    assert (await alice.call("GET", WIDGETS)).status == (await bob.call("GET", WIDGETS)).status == 403


async def test_roles_are_aggregated_in_order_and_once(admin: Api, kcr_clock: VirtualClock) -> None:
    for name in ("z", "b", "a"):
        await admin.post(ROLES, labelled(name, "x", "get", "pods" if name == "z" else name))
    await admin.post(ROLES, labelled("same", "x", "get", "pods"))
    gathers = {
        "clusterRoleSelectors": [{"matchLabels": {f"{GROUP}/aggregate-to-x": "true"}}, {"matchLabels": {"c": ""}}]
    }
    await admin.post(ROLES, {"metadata": {"name": "x"}, "aggregationRule": gathers})
    await kcr_clock.advance(1)
    found = await admin.get(f"{ROLES}/x")
    assert [rule["resources"] for rule in found["rules"]] == [["a"], ["b"], ["pods"]]
    # What users write into an aggregated role is replaced.
    await admin.patch(f"{ROLES}/x", {"rules": []})
    await kcr_clock.advance(1)
    assert (await admin.get(f"{ROLES}/x"))["rules"] == found["rules"]
    for name in ("a", "b", "z", "same"):
        await admin.delete(f"{ROLES}/{name}")
    await kcr_clock.advance(1)
    assert not (await admin.get(f"{ROLES}/x")).get("rules")


async def test_default_roles_are_left_alone_when_right(admin: Api, kcr_clock: VirtualClock) -> None:
    before = (await admin.get(ROLES))["items"]
    await kcr_clock.advance(60)
    assert (await admin.get(ROLES))["items"] == before
