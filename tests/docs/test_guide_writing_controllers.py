"""The guide on writing controllers: its program with options, as a reader would start it."""

import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

import kcr
from kcr.api.core import ConfigMap, Namespace
from kcr.testing import FakeManager, VirtualClock, build
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.documents import ROOT, blocks, files
from tests.kit.generated import imported

GUIDE = ROOT / "docs" / "guide" / "writing-controllers.md"
PROGRAM = files(GUIDE)["greeter.py"]


def test_every_program_is_run() -> None:
    assert list(files(GUIDE)) == ["greeter.py"]
    assert [block.text for block in blocks(GUIDE) if not block.file] == [
        'kcr.run(setup, leader_elect=True, leader_elect_resource_name="website-controller")\n'
    ]


@pytest.mark.kcr_virtual
async def test_options_reach_the_controller(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    manager = kcr.Manager(kcr_cluster.client, clock=kcr_clock)
    with imported(PROGRAM, "greeter") as greeter:
        greeter.setup(manager, greeter.Options(greeting="hello"))
        async with manager.running():
            await kcr_clock.advance(1)
    assert {found.metadata.labels["greeted"] for found in await kcr_cluster.client.list(Namespace)} == {"hello"}


@pytest.mark.parametrize(
    ("arguments", "variables", "said"),
    [
        pytest.param(["--help"], {}, "Label every namespace with $KCR_GREETING (yes)", id="help"),
        pytest.param(["--kubeconfig", "x"], {"KCR_GREETNG": "x"}, "is it KCR_GREETING?", id="almost-that-name"),
    ],
)
def test_program_shows_its_options(tmp_path: Path, arguments: list[str], variables: dict[str, str], said: str) -> None:
    (tmp_path / "greeter.py").write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, "greeter.py", *arguments]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert said in done.stdout + done.stderr


@pytest.mark.kcr_virtual
async def test_delete_has_preconditions() -> None:
    client = FakeManager().client
    texts = await client.create(build.config_map("texts", {"text": "hello"}, uid="", resource_version=""))
    with pytest.raises(kcr.ConflictError):
        await client.delete(ConfigMap, texts.key, uid="another")
    with pytest.raises(kcr.ConflictError):
        await client.delete(ConfigMap, texts.key, resource_version="1")
    await client.delete(ConfigMap, texts.key, uid=texts.metadata.uid)


@pytest.mark.kcr_virtual
async def test_apply_takes_over_what_create_or_patch_wrote_and_leaves_the_rest() -> None:
    client = FakeManager().client
    texts = ConfigMap(metadata=kcr.ObjectMeta(name="texts", namespace="default"))
    await kcr.create_or_patch(client, texts, lambda found: replace(found, data={"a": "old", "b": "old"}))
    applied = await client.with_options(field_manager="other").apply(replace(texts, data={"a": "new"}), force=True)
    assert applied.data == {"a": "new", "b": "old"}
