"""The Website's definition is what the class says, and its object is valid; its controller is tested beside it."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from structlog.testing import capture_logs

import kcr
from examples.website.api import Website
from examples.website.controller import setup
from examples.website.v1beta1 import WebsiteV1Beta1
from kcr.api.full.apps_v1 import Deployment
from kcr.api.full.rbac_v1 import ClusterRole, ClusterRoleBinding
from kcr.app.rbac import SHARDING_RIGHTS, declared_by
from kcr.cli.main import exit_code_of
from kcr.serving.webhooks.conversion import WebhookService
from kcr.testing import FakeManager, VirtualClock, eventually
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.generators.roles import rbac_manifests
from kcr_devcluster.webhook_manifests import with_conversion
from tests.kit.charts import NEEDS_HELM, documents, of_kind, rights_in
from tools.chart import render

DEFINITION = Path("examples/website/manifests/example.dev_websites.yaml")
CHART = Path("examples/website/chart")
OBJECT = Path("examples/website/manifests/website.yaml")


SERVICE = ("--service", "website/website")


def test_definition_is_what_the_classes_say() -> None:
    generate = ["crd", "generate", "examples.website.api", "examples.website.v1beta1", *SERVICE]
    for folder in (DEFINITION.parent, CHART / "files"):
        assert exit_code_of([*generate, "-o", str(folder), "--check"]) == 0
    wanted = with_conversion(kcr.crd_manifest(Website, WebsiteV1Beta1), WebhookService("website", "website"))
    assert yaml.safe_load(DEFINITION.read_text(encoding="utf-8")) == wanted


def test_chart_has_what_the_webhooks_need(tmp_path: Path) -> None:
    templates, setup = CHART / "templates", "examples.website.webhook:setup"
    for arguments in (
        ["webhooks", "generate", setup, *SERVICE, "-o", str(tmp_path / "webhooks.yaml")],
        ["rbac", "generate", "--controllers", setup, "--name", "website", "--service-account", "website/website",
         "--leader-elect", "--webhook-certificates", "-o", str(tmp_path / "rbac.yaml")],
    ):  # fmt: skip
        assert exit_code_of(arguments) == 0
    for name in ("webhooks.yaml", "rbac.yaml"):
        assert (tmp_path / name).read_text() == (templates / name).read_text(), f"regenerate {name}, as the README says"


def rendered(values: str = "{}") -> list[dict[str, Any]]:
    """What helm makes of the chart with these values."""
    return documents(render(values, release="website", namespace="website", chart=CHART))


@NEEDS_HELM
def test_definition_of_the_chart_is_kept_unless_a_value_says_otherwise() -> None:
    definition = yaml.safe_load(DEFINITION.read_text(encoding="utf-8"))
    (deleted,) = of_kind(rendered("crds: {keep: false}"), "CustomResourceDefinition")
    assert deleted == definition
    (kept,) = of_kind(rendered(), "CustomResourceDefinition")
    assert kept["metadata"]["annotations"].pop("helm.sh/resource-policy") == "keep"
    assert kept == definition
    assert not of_kind(rendered("crds: {install: false}"), "CustomResourceDefinition")


@NEEDS_HELM
@pytest.mark.parametrize("shards", [0, 8])
def test_shards_of_the_chart_have_their_option_and_their_rights(shards: int) -> None:
    found = rendered(f"{{sharding: {{shards: {shards}}}, replicas: 4}}")
    (deployment,) = of_kind(found, "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert deployment["spec"]["replicas"] == 4
    assert (f"--shards={shards}" in container["args"]) == bool(shards)
    assert ("--leader-elect" in container["args"]) != bool(shards)
    roles = [role for role in of_kind(found, "Role") if role["metadata"]["name"] == "website-sharding"]
    assert rights_in(roles) == (SHARDING_RIGHTS if shards else set())


MANIFEST = yaml.safe_load(OBJECT.read_text(encoding="utf-8"))


@pytest.mark.kcr_virtual
async def test_object_is_valid() -> None:
    client = FakeManager(kinds=[Website]).client.with_options(field_validation="Strict")
    made = await client.create_manifest(Website, MANIFEST, "default")
    assert (made.spec.image, made.spec.replicas) == ("python:3", 2)


@pytest.mark.kcr_virtual
@pytest.mark.kcr_cluster(kinds=[Website], authorization="rbac")
async def test_generated_role_is_all_that_the_controller_needs(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    wanted, account = declared_by({"website": setup}, {}).rights, kcr.Key("default", "operator")
    _, role, binding = rbac_manifests(wanted, name="operator", account=account, namespace="", elects=False)
    client, key = kcr_cluster.client, kcr.Key("default", "hello")
    await client.create_manifest(ClusterRole, role)
    await client.create_manifest(ClusterRoleBinding, binding)
    operator = kcr_cluster.client_as("system:serviceaccount:default:operator")
    manager = kcr.Manager(operator, clock=kcr_clock)
    setup(manager)

    async def is_ready() -> bool:
        return kcr.is_condition_true((await client.get(Website, key)).status.conditions, "Ready")

    async def is_gone() -> bool:
        return not [*await client.list(Website), *await client.list(Deployment)]

    with capture_logs() as logs:
        async with manager.running():
            await client.create_manifest(Website, MANIFEST, "default")
            await eventually(is_ready)
            await client.delete(Website, key)
            await eventually(is_gone)
    assert [line for line in logs if line["log_level"] in ("warning", "error")] == []
