import asyncio
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

import kcr
from kcr.api.apps import Deployment
from kcr.api.full.apiextensions_v1 import CustomResourceDefinitionCondition as Condition
from kcr.client import Client
from kcr.testing import FakeManager, FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.kinds import define, definitions_of, install, reason_unestablished


class Color(kcr.Resource, api_version="example.dev/v1alpha1", plural="colors"):
    """The old version."""


class ColorV1(kcr.Resource, api_version="example.dev/v1", kind="Color", plural="colors", storage=True):
    """The version that is stored."""


class Shape(kcr.Resource, api_version="example.dev/v1", plural="shapes", namespaced=False):
    """Another kind."""


NEW = Shape(metadata=kcr.ObjectMeta(name="round"))


def names(definitions: list[dict[str, Any]]) -> list[str]:
    return [definition["metadata"]["name"] for definition in definitions]


def written(folder: Path, name: str, *manifests: Mapping[str, Any]) -> Path:
    path = folder / name
    path.write_text(yaml.safe_dump_all(manifests))
    return path


def test_classes_of_one_kind_are_its_versions() -> None:
    colors, shapes = definitions_of([Color, Shape, ColorV1])
    assert names([colors, shapes]) == ["colors.example.dev", "shapes.example.dev"]
    assert [version["name"] for version in colors["spec"]["versions"]] == ["v1", "v1alpha1"]


@pytest.mark.parametrize("give", [pytest.param(str, id="file"), pytest.param(lambda path: path.parent, id="folder")])
def test_definitions_are_read_from_files_and_folders(tmp_path: Path, give: Any) -> None:
    path = written(tmp_path, "crds.yaml", *definitions_of([Shape, Color]))
    assert names(definitions_of([give(path)])) == ["shapes.example.dev", "colors.example.dev"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(None, r"crds\.yaml: No such file or directory: a kind is named", id="absent"),
        pytest.param("a: [", r"crds\.yaml: not YAML: line 1: ", id="no-yaml"),
        pytest.param("kind: ConfigMap", "an object that is not a CustomResourceDefinition", id="another-kind"),
        pytest.param("[]\n---\ntext", "an object that is not a CustomResourceDefinition", id="no-object"),
    ],
)
def test_file_that_cannot_be_used_is_named(tmp_path: Path, content: str | None, said: str) -> None:
    path = tmp_path / "crds.yaml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(kcr.ConfigError, match=said):
        definitions_of([path])


def test_folder_without_a_definition_is_named(tmp_path: Path) -> None:
    with pytest.raises(kcr.ConfigError, match="no file of CustomResourceDefinitions in this folder"):
        definitions_of([tmp_path])


def test_class_of_a_builtin_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="apps/v1 is Kubernetes' own"):
        definitions_of([Deployment])


@pytest.mark.kcr_virtual
async def test_declared_kind_is_served_at_once() -> None:
    client = FakeManager(kinds=[Shape, Color, ColorV1]).client
    assert (await client.create(NEW)).metadata.uid
    assert [shape.key for shape in await client.list(Shape)] == [NEW.key]
    assert await client.list(Color) == ()


@pytest.mark.kcr_virtual
async def test_kind_that_is_not_declared_is_an_error_with_the_remedy() -> None:
    with pytest.raises(kcr.NotFoundError, match=r"in tests by kinds=\[…\]\), and are its api_version"):
        await FakeManager().client.list(Shape)


def broken(**changes: Any) -> list[dict[str, Any]]:
    (definition,) = definitions_of([Shape])
    return [{**definition, "spec": {**definition["spec"], **changes}}]


def test_definition_that_the_server_refuses_is_named() -> None:
    with pytest.raises(kcr.ConfigError, match=r"shapes\.example\.dev: .*spec\.scope"):
        define(EmbeddedCluster(runtime=None).server, broken(scope="Global"))


def test_names_that_are_taken_are_named() -> None:
    server = EmbeddedCluster(runtime=None, kinds=[Shape]).server
    (definition,) = broken(names={"kind": "Shape", "plural": "forms"})
    with pytest.raises(kcr.ConfigError, match=r"forms\.example\.dev: not served: .* is already in use"):
        define(server, [{**definition, "metadata": {"name": "forms.example.dev"}}])


@pytest.mark.kcr_virtual
async def test_installed_kind_is_served_when_the_call_returns(kcr_clock: VirtualClock) -> None:
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), runtime=None) as cluster:
        await install(cluster.client, definitions_of([Shape]))
        created = await cluster.client.create(NEW)
        # Another test process may have installed it before.
        await install(cluster.client, definitions_of([Shape, Color, ColorV1]))
        assert await cluster.client.list(Shape) == (created,)
        assert await cluster.client.list(ColorV1) == ()


@pytest.mark.kcr_virtual
async def test_kind_that_discovery_does_not_list_is_waited_for(kcr_clock: VirtualClock) -> None:
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), runtime=None) as cluster:
        faults = FaultyTransport(cluster.transport)
        # The definition is read, then the list of kinds.
        faults.on("get", nth=2).fail(kcr.NotFoundError)
        await install(Client(faults), definitions_of([Shape]))
        assert asyncio.get_running_loop().time() == 0.1
        assert [call.verb for call in faults.calls] == ["create", "get", "get", "get", "get"]


@pytest.mark.kcr_virtual
async def test_kind_that_is_never_served_is_named(kcr_clock: VirtualClock) -> None:
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), runtime=None, kinds=[Shape]) as cluster:
        (definition,) = broken(names={"kind": "Shape", "plural": "forms"})
        forms = {**definition, "metadata": {"name": "forms.example.dev"}}
        with pytest.raises(kcr.ConfigError, match=r"forms\.example\.dev: not served after 10 s: .* is already in use"):
            await install(cluster.client, [forms])


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        pytest.param((Condition(type="Established", status="True"),), "", id="established"),
        pytest.param((), "the server does not say why", id="new"),
        pytest.param(
            (
                Condition(type="NamesAccepted", status="False", message="taken"),
                Condition(type="Established", status="False"),
            ),
            "taken",
            id="names",
        ),
    ],
)
def test_reason_is_what_the_conditions_say(conditions: tuple[Condition, ...], reason: str) -> None:
    assert reason_unestablished(conditions) == reason


@pytest.mark.kcr_virtual
@pytest.mark.kcr_cluster(kinds=[Shape])
async def test_object_of_a_declared_kind_owns_others(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    owner = await kcr_cluster.client.create(NEW)
    owned = Shape(metadata=kcr.ObjectMeta(name="small"))
    await kcr_cluster.client.create(kcr.set_controller(owned, owner))
    await kcr_cluster.client.delete(Shape, owner.key)
    await kcr_clock.advance(5)
    assert await kcr_cluster.client.list(Shape) == ()


def test_fake_manager_of_another_client_declares_no_kinds() -> None:
    with pytest.raises(ValueError, match="kinds is for its own server"):
        FakeManager(client=EmbeddedCluster(runtime=None).client, kinds=[Shape])
