"""The guide on webhooks: its modules, tests and commands, as a reader would use them."""

import shlex
from importlib import import_module
from pathlib import Path

import pytest
import yaml

import kcr
from kcr.api.core import ConfigMap
from kcr.api.full.apps_v1 import Deployment
from kcr.api.unstructured import unstructured
from kcr.cli.main import exit_code_of
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.documents import ROOT, blocks, files, run_tests_of
from tests.kit.workloads import deployment

GUIDE = ROOT / "docs" / "guide" / "webhooks.md"
CronJob = unstructured("batch/v1", "CronJob", plural="cronjobs")
FILES = files(GUIDE)
COMMANDS = [line for block in blocks(GUIDE) if block.language == "console" for line in block.text.splitlines()]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of the guide, importable."""
    for name in FILES:
        (tmp_path / name).write_text(FILES[name])
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_every_block_is_used() -> None:
    assert set(FILES) == {"shop.py", "shop_beta.py", "test_shop_beta.py", "limits.py"}
    assert all(block.file or block.language == "console" for block in blocks(GUIDE))
    assert {" ".join(line.split()[:2]) for line in COMMANDS} == {
        "kcr policy", "kubectl apply", "kcr dev", "kcr crd", "kcr webhooks",
    }  # fmt: skip


@pytest.mark.timeout(60)
def test_tests_of_the_guide_pass(pytester: pytest.Pytester) -> None:
    assert "1 passed" in run_tests_of(FILES, pytester)


def test_commands_do_what_the_guide_says(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line in COMMANDS:
        program, *arguments = shlex.split(line)
        if program == "kcr" and arguments[0] != "dev":
            assert exit_code_of(arguments) == 0, line
    assert capsys.readouterr().err == ""
    service, mutating, _ = yaml.safe_load_all((project / "webhooks.yaml").read_text())
    assert service["spec"]["selector"] == {"app": "shop"}
    assert mutating["webhooks"][0]["clientConfig"]["service"]["name"] == "shop-webhooks"
    assert exit_code_of(["crd", "generate", "shop", "shop_beta", "--service", "shops/shop-webhooks", "-o", "crd"]) == 0
    definition = yaml.safe_load((project / "crd" / "example.dev_shops.yaml").read_text())
    assert definition["spec"]["conversion"]["strategy"] == "Webhook"


@pytest.mark.kcr_virtual
async def test_webhook_and_conversion_serve_clients(kcr_clock: VirtualClock) -> None:
    shop, beta = import_module("shop"), import_module("shop_beta")
    async with EmbeddedCluster(clock=kcr_clock, kinds=[shop.Shop, beta.ShopV1Beta1]) as cluster:
        client = cluster.client
        manager = kcr.Manager(client, clock=kcr_clock)
        shop.setup(manager)
        beta.setup(manager)

        def made(name: str, host: str = "") -> kcr.Resource:
            metadata = kcr.ObjectMeta(name=name, namespace="default")
            found: kcr.Resource = beta.ShopV1Beta1(
                metadata=metadata, spec=beta.ShopV1Beta1Spec(image="web:1", host=host)
            )
            return found

        async with manager.running():
            created = await client.create(made("a"))
            assert (await client.get(shop.Shop, created.key)).spec.domain == "a.default.example.dev"
            with pytest.raises(kcr.InvalidError, match="default/a has this domain"):
                await client.create(made("b", "a.default.example.dev"))


class Scheduled:
    """A webhook of ConfigMaps that asks the server whether it accepts the CronJob to come."""

    def __init__(self, manager: kcr.Manager) -> None:
        self._client = manager.client.with_options(dry_run=True)

    async def validate_create(self, obj: ConfigMap, request: kcr.WebhookRequest) -> list[str]:
        container = {"name": "main", "image": "busybox"}
        pod = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        spec = {"schedule": obj.data["schedule"], "jobTemplate": {"spec": {"template": pod}}}
        child = CronJob.of({"metadata": {"name": request.name, "namespace": request.namespace}, "spec": spec})
        try:
            await self._client.apply(child, force=True)
        except kcr.InvalidError as error:
            raise kcr.Denied(str(error), field="data.schedule") from error
        return []


@pytest.mark.kcr_virtual
@pytest.mark.kcr_cluster
async def test_webhook_refuses_by_the_servers_rules_for_a_child(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    client, manager = kcr_cluster.client, kcr.Manager(kcr_cluster.client, clock=kcr_clock)
    manager.add_webhook(ConfigMap, Scheduled(manager))

    def wanted(schedule: str) -> ConfigMap:
        return ConfigMap(metadata=kcr.ObjectMeta(name="nightly", namespace="default"), data={"schedule": schedule})

    async with manager.running():
        with pytest.raises(kcr.InvalidError, match=r"data\.schedule.* above maximum \(59\)"):
            await client.create(wanted("99 * * * *"))
        await client.create(wanted("0 2 * * *"))
    assert await client.list(CronJob) == ()


@pytest.mark.kcr_virtual
async def test_policy_denies_on_the_embedded_server(project: Path, kcr_clock: VirtualClock) -> None:
    assert exit_code_of(["policy", "generate", "limits", "-o", "policies.yaml"]) == 0
    async with EmbeddedCluster(clock=kcr_clock) as cluster:
        client = cluster.client
        for manifest in yaml.safe_load_all((project / "policies.yaml").read_text()):
            kind = kcr.unstructured(
                manifest["apiVersion"], manifest["kind"], namespaced=False,
                plural="validatingadmissionpolicies" if manifest["kind"].endswith("Policy") else
                "validatingadmissionpolicybindings",
            )  # fmt: skip
            await client.create(kind.of(manifest))
        await kcr_clock.advance(5)
        with pytest.raises(kcr.InvalidError, match=r"spec\.replicas: at most ten replicas"):
            await client.create_manifest(Deployment, deployment(replicas=11), "default")
        made = await client.create_manifest(Deployment, deployment(replicas=2), "default")
        with pytest.raises(kcr.InvalidError, match=r"spec\.replicas: at most ten replicas"):
            await client.merge_patch(Deployment, made.key, {"spec": {"replicas": 12}})
        with pytest.raises(kcr.InvalidError, match=r"spec\.revisionHistoryLimit: is immutable"):
            await client.merge_patch(Deployment, made.key, {"spec": {"revisionHistoryLimit": 3}})
        await client.merge_patch(Deployment, made.key, {"spec": {"replicas": 3}})
