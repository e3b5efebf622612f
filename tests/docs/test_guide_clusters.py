"""The guide on several clusters: its program and its test, its Secret and its Role."""

import random
from pathlib import Path
from types import ModuleType

import pytest
import yaml

import kcr
from kcr.api.core import ConfigMap, Namespace, Secret
from kcr.client import Client
from kcr.controller import policy_rules
from kcr.testing import FakeManager, VirtualClock
from kcr_devcluster.apiserver.authentication.users import user_named
from kcr_devcluster.transport import InProcessTransport
from tests.kit.api import Api, binding
from tests.kit.documents import ROOT, blocks, files
from tests.kit.fleets import COLORS, NAMESPACE, colors, fleet_of, kubeconfig, secret

GUIDE = ROOT / "docs" / "guide" / "clusters.md"
FILES = files(GUIDE)
RBAC = "/apis/rbac.authorization.k8s.io/v1"

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return __import__("fleet")


async def test_every_block_is_run() -> None:
    assert {block.file for block in blocks(GUIDE)} == {
        "fleet.py", "contexts.py", "east.yaml", "role.yaml", "test_fleet.py"
    }  # fmt: skip


async def test_test_of_the_guide_passes(fleet: ModuleType, kcr_clock: VirtualClock) -> None:
    await __import__("test_fleet").test_copies(kcr_clock)


async def test_secret_of_the_guide_is_a_member(fleet: ModuleType, kcr_clock: VirtualClock) -> None:
    async with fleet_of(kcr_clock, "east") as several:
        await several.home.client.create(Namespace(metadata=kcr.ObjectMeta(name=NAMESPACE)))
        manager = several.manager()
        clusters = several.clusters(manager)
        clusters.add_secrets(NAMESPACE)
        fleet.attach(manager, clusters)
        async with manager.running():
            await several.home.client.create_manifest(Secret, yaml.safe_load(FILES["east.yaml"]), NAMESPACE)
            await several.home.client.create(colors("blue", **{fleet.COPY: "true"}))
            await kcr_clock.advance(1)
            assert await several.copies() == {"east": "blue"}
            await several.members["east"].client.merge_patch(ConfigMap, COLORS, {"data": {"sky": "red"}})
            await kcr_clock.advance(1)
            assert await several.copies() == {"east": "blue"}


async def test_setup_adds_its_controllers(fleet: ModuleType) -> None:
    manager = FakeManager()
    fleet.setup(manager)
    assert set(manager.controllers) == {"clusters", "fleet"}


@pytest.mark.parametrize("has_role", [True, False])
async def test_role_of_the_guide_and_the_generated_ones_suffice(
    fleet: ModuleType, kcr_clock: VirtualClock, has_role: bool
) -> None:
    async with fleet_of(kcr_clock, "east", authorization="rbac") as several:
        api = Api(several.home.server)
        await api.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        account = f"system:serviceaccount:{NAMESPACE}:fleet"
        client = Client(InProcessTransport(several.home.server, user_named(account)))
        manager = kcr.Manager(client, clock=kcr_clock, random=random.Random(0))
        clusters = several.clusters(manager)
        clusters.add_secrets(NAMESPACE)
        fleet.attach(manager, clusters)
        rules = policy_rules(manager.rights)
        assert not [rule for rule in rules if "secrets" in rule["resources"]], "in no namespace but that of the Role"
        await api.post(f"{RBAC}/clusterroles", {"metadata": {"name": "fleet"}, "rules": rules})
        await api.post(
            f"{RBAC}/clusterrolebindings", binding("fleet", "ClusterRole", "fleet", f"ServiceAccount:{NAMESPACE}/fleet")
        )
        if has_role:
            await api.post(f"{RBAC}/namespaces/{NAMESPACE}/roles", yaml.safe_load(FILES["role.yaml"]))
            bound = binding("members", "Role", "fleet-members", f"ServiceAccount:{NAMESPACE}/fleet")
            await api.post(f"{RBAC}/namespaces/{NAMESPACE}/rolebindings", bound)
        await several.home.client.create(secret("east", kubeconfig("east")))
        await several.home.client.create(colors("blue", **{fleet.COPY: "true"}))
        if not has_role:
            with pytest.raises(kcr.NotSyncedError, match=f'cannot list resource "secrets".*"{NAMESPACE}"'):
                async with manager.running():
                    pass
            return
        async with manager.running():
            await kcr_clock.advance(1)
            assert await several.copies() == {"east": "blue"}


async def test_contexts_are_members(fleet: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {name: {"server": f"https://{name}"} for name in ("east", "west")}
    (tmp_path / "config").write_text(yaml.safe_dump({
        "contexts": [{"name": name, "context": {"cluster": name}} for name in entries],
        "clusters": [{"name": name, "cluster": cluster} for name, cluster in entries.items()],
    }))  # fmt: skip
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    assert list(__import__("contexts").clusters_of(FakeManager(), "east", "west")) == ["east", "west"]
