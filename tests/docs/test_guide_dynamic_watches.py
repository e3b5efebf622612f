"""The guide on kinds named at run time: its operator watches what its policies name, and nothing else."""

import random
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import kcr
from kcr.api.core import ConfigMap, Namespace
from kcr.api.full.apiextensions_v1 import CustomResourceDefinition
from kcr.api.meta import Key, ObjectMeta
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.custom_resources import definition, version
from tests.kit.documents import ROOT, blocks, files

GUIDE = ROOT / "docs" / "guide" / "dynamic-watches.md"
FILES = files(GUIDE)
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return __import__("policy")


async def violations(cluster: EmbeddedCluster, policy: ModuleType, name: str) -> tuple[str, ...]:
    found: tuple[str, ...] = (await cluster.client.get(policy.Policy, Key("", name))).status.violations
    return found


async def create(cluster: EmbeddedCluster, policy: ModuleType, name: str, **spec: str) -> Any:
    made = policy.Policy(metadata=ObjectMeta(name=name), spec=policy.PolicySpec(**spec))
    return await cluster.client.create(made)


def watched(manager: kcr.Manager) -> set[str]:
    return {selection.kind.resource.plural for selection in manager.selections}


async def test_every_block_is_run() -> None:
    assert {block.file for block in blocks(GUIDE)} == {"policy.py", "maps.yaml", "count.py", "tenants.py"}


async def test_operator_watches_what_policies_name(
    policy: ModuleType, kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    client = kcr_cluster.client
    await client.create_manifest(CustomResourceDefinition, kcr.crd_manifest(policy.Policy))
    manager = kcr.Manager(client, clock=kcr_clock, random=random.Random(0))
    policy.setup(manager)
    async with manager.running():
        await client.create_manifest(policy.Policy, yaml.safe_load(FILES["maps.yaml"]))
        await create(kcr_cluster, policy, "late", api_version="ex.io/v1", kind="Widget", plural="widgets", label="team")
        await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
        await client.create(ConfigMap(metadata=ObjectMeta(name="b", namespace="default", labels={"team": "x"})))
        await kcr_clock.advance(2)
        assert "default/a" in await violations(kcr_cluster, policy, "maps")
        assert "default/b" not in await violations(kcr_cluster, policy, "maps")
        await client.create_manifest(CustomResourceDefinition, definition(version("v1", ANYTHING)))
        widget = {"apiVersion": "ex.io/v1", "kind": "Widget", "metadata": {"name": "w"}}
        kind = kcr.unstructured("ex.io/v1", "Widget", plural="widgets")
        await client.create_manifest(kind, widget, "default")
        await kcr_clock.advance(6)
        assert await violations(kcr_cluster, policy, "late") == ("default/w",)
        assert watched(manager) == {"policies", "configmaps", "widgets"}
        # It names another kind, and the other one goes.
        change = {"spec": {"apiVersion": "v1", "kind": "Secret", "plural": "secrets"}}
        await client.merge_patch(policy.Policy, Key("", "maps"), change)
        await client.delete(policy.Policy, Key("", "late"))
        await kcr_clock.advance(2)
        assert await violations(kcr_cluster, policy, "maps") == ()
        assert watched(manager) == {"policies", "secrets"}


async def test_cache_is_lent_for_a_while(
    policy: ModuleType, kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    manager = kcr.Manager(kcr_cluster.client, clock=kcr_clock, random=random.Random(0))
    async with manager.running():
        assert await __import__("count").count(manager) == 0
        assert watched(manager) == set()


async def test_tenants_of_the_guide_are_watched_and_no_others(
    policy: ModuleType, kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    client = kcr_cluster.client
    await client.create_manifest(CustomResourceDefinition, kcr.crd_manifest(policy.Policy))
    for name in ("ops", "a", "b"):
        await client.create(Namespace(metadata=ObjectMeta(name=name)))
        await client.create(ConfigMap(metadata=ObjectMeta(name="one", namespace=name)))
    names = ObjectMeta(name="tenants", namespace="ops")
    await client.create(ConfigMap(metadata=names, data={"namespaces": "a b"}))
    await client.create_manifest(policy.Policy, yaml.safe_load(FILES["maps.yaml"]))
    manager = kcr.Manager(client, clock=kcr_clock, random=random.Random(0), namespace=kcr.Namespaces())
    __import__("tenants").setup(manager)
    async with manager.running():
        await kcr_clock.advance(2)
        assert {one.partition("/")[0] for one in await violations(kcr_cluster, policy, "maps")} == {"a", "b"}
        await client.merge_patch(ConfigMap, Key("ops", "tenants"), {"data": {"namespaces": "b"}})
        await kcr_clock.advance(60)
        assert {one.partition("/")[0] for one in await violations(kcr_cluster, policy, "maps")} == {"b"}
