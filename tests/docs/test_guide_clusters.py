"""The guide on several clusters: its program and its test, its Secret and its Role."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import yaml

import kcr
from kcr.api.core import ConfigMap, Namespace, Secret
from kcr.testing import FakeManager, VirtualClock
from tests.kit.documents import ROOT, blocks, files
from tests.kit.fleets import COLORS, NAMESPACE, colors, fleet_of

GUIDE = ROOT / "docs" / "guide" / "clusters.md"
FILES = files(GUIDE)

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield __import__("fleet")
    for name in ("fleet", "contexts", "test_fleet"):
        sys.modules.pop(name, None)


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


async def test_setup_adds_the_controllers_and_needs_the_role_of_the_guide(fleet: ModuleType) -> None:
    manager = FakeManager()
    fleet.setup(manager)
    assert set(manager.controllers) == {"clusters", "fleet"}
    needed = {right for right in manager.rights if right.resource == "secrets"}
    assert needed == set(), "they are those of the Role"
    assert yaml.safe_load(FILES["role.yaml"])["rules"] == [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "watch"]}
    ]


async def test_contexts_are_members(fleet: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {name: {"server": f"https://{name}"} for name in ("east", "west")}
    (tmp_path / "config").write_text(yaml.safe_dump({
        "contexts": [{"name": name, "context": {"cluster": name}} for name in entries],
        "clusters": [{"name": name, "cluster": cluster} for name, cluster in entries.items()],
    }))  # fmt: skip
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    assert list(__import__("contexts").clusters_of(FakeManager(), "east", "west")) == ["east", "west"]
