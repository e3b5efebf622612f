"""The guides on installing and operating, word for word, on a cluster that evaluates rights."""

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.e2e.kubectl import NEEDS_KUBECTL, Kubectl
from tests.e2e.processes import ROOT, Start
from tests.kit.charts import NEEDS_HELM
from tests.kit.documents import blocks

GUIDE = ROOT / "docs" / "guide"
INSTALL, OPERATE = ([block.text for block in blocks(GUIDE / name)] for name in ("install.md", "operate.md"))
ELECTED = ("--leader-elect", "--leader-elect-resource-name=kcr", "--leader-elect-resource-namespace=kcr-system")

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


def test_every_block_is_for_the_shell() -> None:
    for name in ("install.md", "operate.md"):
        assert {block.language for block in blocks(GUIDE / name)} == {"console"}


@NEEDS_KUBECTL
@NEEDS_HELM
@pytest.mark.asyncio
async def test_commands_do_what_the_guides_say(environment: Mapping[str, str], kcr: Start) -> None:
    path = f"{Path(sys.executable).parent}:{environment['PATH']}"
    image, look, helm, plain, take_over = INSTALL
    lease, protect, upgrade = OPERATE
    async with kcr("dev", "--authorization", "rbac", "--runtime", "simulated") as dev:
        kubeconfig = await dev.kubeconfig()
        kubectl = Kubectl(kubeconfig, {**environment, "PATH": path})
        command = await kubectl.in_shell(image.replace("make", "make --dry-run", 1), ROOT)
        assert "--platform linux/amd64,linux/arm64" in command
        assert "--tag registry.example/kcr:0.1.0 --push ." in command
        assert "are granted" in await kubectl.in_shell(look, ROOT)

        text = await kubectl.in_shell(helm, ROOT)
        assert "kubectl -n kcr-system get lease kcr" in text
        assert 'deployment "kcr" successfully rolled out' in text
        text = await kubectl.in_shell(take_over, ROOT)
        assert "--controllers=*,-job-controller,-ttl-after-finished-controller,-cronjob-controller" in text
        async with kcr("run", "--kubeconfig", str(kubeconfig), *ELECTED) as running:
            await running.ready()
            assert "kcr" in await kubectl.in_shell(lease, ROOT)
        text = await kubectl.in_shell(protect, ROOT)
        assert "clusterrolebinding.rbac.authorization.k8s.io/kcr-metrics-reader created" in text
        assert "--metrics-secure" in await kubectl("-n kcr-system get deployment kcr -o yaml")
        prometheus = "--as=system:serviceaccount:monitoring:prometheus"
        assert await kubectl(f"auth can-i get /metrics {prometheus}") == "yes\n"
        assert "successfully rolled out" in await kubectl.in_shell(upgrade, ROOT)
        assert "--take-over" in await kubectl("-n kcr-system get deployment kcr -o yaml")

        await kubectl.in_shell("helm uninstall kcr --namespace kcr-system", ROOT)
        text = await kubectl.in_shell(plain, ROOT)
        assert "deployment.apps/kcr image updated" in text
