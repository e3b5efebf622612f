"""The guide on own kinds: its modules and commands, as a reader would use them."""

import subprocess
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from msgspec.structs import replace

import kcr
from kcr.api.full.apiextensions_v1 import CustomResourceDefinition
from kcr.api.full.apps_v1 import Deployment
from kcr.cli.main import exit_code_of
from kcr.testing import VirtualClock
from kcr_devcluster.apiserver.kinds.definitions.schema_rules import schema_errors
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.documents import ROOT, blocks, files

READY = kcr.Condition(type="Ready", status="True", reason="AllPodsReady")
GUIDE = ROOT / "docs" / "guide" / "own-kinds.md"
FILES = files(GUIDE)
SHOWN = [block.text for block in blocks(GUIDE) if block.language == "text"]
COMMANDS = [line for block in blocks(GUIDE) if block.language == "console" for line in block.text.splitlines()]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def module(name: str) -> ModuleType:
    return __import__(name)


def test_every_block_is_used() -> None:
    assert set(FILES) == {"website.py", "website_beta.py", "deployment.py", "site.yaml"}
    assert all(block.file or block.language in ("console", "text", "sh") for block in blocks(GUIDE))
    assert {line.split()[0] for line in COMMANDS} == {"kcr", "kubectl"}


def test_commands_do_what_the_guide_says(folder: Path) -> None:
    for line in COMMANDS:
        program, *arguments = line.split()
        if program == "kcr":
            assert exit_code_of(arguments) == 0, line
    written = yaml.safe_load((folder / "crd" / "example.dev_websites.yaml").read_text())
    assert written == kcr.crd_manifest(module("website").Website)
    assert schema_errors(written["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "", has_status=True) == []
    assert kcr.crd_manifest(module("websites").Website)["spec"] == written["spec"]
    assert module("endpoint_slices").EndpointSlice.resource.plural == "endpointslices"


def test_check_prints_what_the_guide_shows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = folder / "site.yaml"
    site.write_text(site.read_text().replace("replicas: 3", "replicas: 101\n  colour: red"))
    assert exit_code_of(["crd", "generate", "website", "-o", "crd"]) == 0
    assert exit_code_of(["crd", "check", "crd", "site.yaml"]) == 1
    assert capsys.readouterr().out == SHOWN[0]


COSTLY = """
from typing import Annotated
import kcr
from msgspec import Meta

Name = {name}

class SetSpec(kcr.Object):
    names: {names} = ()

class NameSet(kcr.Resource, api_version="example.dev/v1", plural="namesets"):
    spec: Annotated[SetSpec, kcr.Validation("self.names.all(x, self.names.all(y, x.contains(y)))")]
"""


def test_limits_that_the_guide_shows_make_a_rule_cheap_enough(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    limits = {
        "name": "Annotated[str, Meta(max_length=253)]",
        "names": "Annotated[tuple[Name, ...], Meta(max_length=16)]",
    }
    text = " ".join(GUIDE.read_text().split())
    assert all(f"`{shown}`" in text or f"`Name = {shown}`" in text for shown in limits.values())
    (folder / "costly.py").write_text(COSTLY.format(name="str", names="tuple[Name, ...]"))
    (folder / "cheap.py").write_text(COSTLY.format(**limits))
    assert exit_code_of(["crd", "generate", "costly", "-o", "costly"]) == 1
    assert "estimated rule cost exceeds budget" in capsys.readouterr().err
    assert exit_code_of(["crd", "generate", "cheap", "-o", "cheap"]) == 0


def test_diff_prints_what_the_guide_shows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *who, *arguments], check=True, cwd=folder)

    assert exit_code_of(["crd", "generate", "website", "-o", "crd"]) == 0
    git("init", "-q")
    git("add", "crd")
    git("commit", "-qm", "crd")
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    (file,) = (folder / "crd").iterdir()
    manifest = yaml.safe_load(file.read_text())
    spec = manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    del spec["properties"]["image"]
    spec["required"].remove("image")
    spec["properties"]["replicas"]["maximum"] = 1000
    file.write_text(yaml.safe_dump(manifest))
    (text,) = (block.text for block in blocks(GUIDE) if block.language == "sh")
    revision, cluster = (line.split()[1:] for line in text.splitlines())
    assert exit_code_of(revision) == 1
    assert capsys.readouterr().out == SHOWN[1]
    # With a cluster it is run in tests/runtime/commands.
    assert cluster == ["crd", "diff", "cluster", "crd", "--context", "production"]


def test_second_version_is_in_the_same_definition() -> None:
    beta = module("website_beta")
    versions = kcr.crd_manifest(beta.StoredWebsite, beta.WebsiteV1Beta1)["spec"]["versions"]
    assert [(one["name"], one["storage"]) for one in versions] == [("v1", True), ("v1beta1", False)]
    assert exit_code_of(["crd", "generate", "website_beta", "-o", "crd"]) == 0


@pytest.mark.kcr_virtual
async def test_server_takes_the_definition_and_keeps_to_it(kcr_clock: VirtualClock) -> None:
    website = module("website")
    site = website.Website(
        metadata=kcr.ObjectMeta(name="site", namespace="default"), spec=website.WebsiteSpec(image="a")
    )
    async with EmbeddedCluster(clock=kcr_clock) as cluster:
        client = cluster.client
        await client.create_manifest(CustomResourceDefinition, kcr.crd_manifest(website.Website))
        made = await client.create(site)
        assert (made.spec, made.metadata.generation) == (site.spec, 1)
        named = await client.patch(made, replace(made, spec=replace(made.spec, domain="a.example")))
        with pytest.raises(kcr.InvalidError, match="domain is immutable"):
            await client.patch(named, replace(named, spec=replace(named.spec, domain="b.example")))
        with pytest.raises(kcr.InvalidError, match=r"spec\.replicas: Invalid value: 101"):
            await client.patch(named, replace(named, spec=replace(named.spec, replicas=101)))
        status = website.WebsiteStatus(ready=1, conditions=kcr.set_condition((), READY, kcr_clock.now()))
        assert (await client.patch_status(named, replace(named, status=status))).status == status


@pytest.mark.kcr_virtual
async def test_complete_type_is_created(kcr_clock: VirtualClock) -> None:
    website = module("website")
    site = website.Website(
        metadata=kcr.ObjectMeta(name="site", namespace="default"), spec=website.WebsiteSpec(image="nginx", replicas=2)
    )
    async with EmbeddedCluster(clock=kcr_clock) as cluster:
        made = await cluster.client.create(module("deployment").deployment_of(site))
        assert isinstance(made, Deployment)
        assert made.spec.template.spec is not None
        (container,) = made.spec.template.spec.containers
        assert (container.image, made.spec.replicas) == ("nginx", 2)
        assert (await cluster.client.update(made)).spec == made.spec
