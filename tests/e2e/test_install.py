"""The guides for clusters, word for word, on a cluster that evaluates rights."""

import json
import re
import shlex
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import pytest

from kcr.testing import eventually
from tests.e2e.kubectl import NEEDS_KUBECTL, Kubectl
from tests.e2e.processes import ROOT, Serve, Start
from tests.kit.charts import NEEDS_HELM
from tests.kit.documents import blocks

GUIDE = ROOT / "docs" / "guide"
NAMES = ("install.md", "operate.md", "observe.md", "upgrade.md", "security.md", "compatibility.md")
INSTALL, OPERATE, OBSERVE, UPGRADE, SECURITY, COMPATIBILITY = (
    [block.text for block in blocks(GUIDE / name)] for name in NAMES
)
ELECTED = ("--leader-elect", "--leader-elect-resource-name=kcr", "--leader-elect-resource-namespace=kcr-system")
SHARED = """
apiVersion: batch/v1
kind: Job
metadata: {name: hello, namespace: default}
spec:
  managedBy: kcr.dev/job-controller
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}}
"""

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


def test_every_block_is_for_the_shell_and_found() -> None:
    for name in NAMES:
        assert "\n   ```" not in (GUIDE / name).read_text()
        assert {block.language for block in blocks(GUIDE / name)} <= {"console", "json"}


@pytest.mark.soak
@NEEDS_KUBECTL
@NEEDS_HELM
@pytest.mark.asyncio
async def test_commands_do_what_the_guides_say(environment: Mapping[str, str], kcr: Start) -> None:
    path = f"{Path(sys.executable).parent}:{environment['PATH']}"
    image, look, helm, plain, adopt, _, _, take_over = INSTALL
    # That of a hot loop is compared in tests/runtime.
    lease, pause, _, _, _, selected, stuck = OPERATE
    # What the debug port serves is read in test_ports, and kcr is started for traces in test_traces.
    protect, grant, _, _, _, stacks = OBSERVE
    upgrade, rollback, look_again, back, remove = UPGRADE
    async with kcr("dev", "--authorization", "rbac", "--runtime", "simulated") as dev:
        kubeconfig = await dev.kubeconfig()
        kubectl = Kubectl(kubeconfig, {**environment, "PATH": path})
        command = await kubectl.in_shell(image.replace("make", "make --dry-run", 1), ROOT)
        assert "--platform linux/amd64,linux/arm64" in command
        assert f"--tag registry.example/kcr:{version('kcr')} --push ." in command
        assert "are granted" in await kubectl.in_shell(look, ROOT)

        text = await kubectl.in_shell(helm, ROOT)
        assert "kubectl -n kcr-system get lease kcr" in text
        assert 'deployment "kcr" successfully rolled out' in text
        assert "controllers  no other controller is seen" in await kubectl.in_shell(look_again, ROOT)
        text = await kubectl.in_shell(take_over, ROOT)
        assert "--controllers=*,-job-controller,-ttl-after-finished-controller,-cronjob-controller" in text
        async with kcr("run", "--kubeconfig", str(kubeconfig), *ELECTED) as running:
            await running.ready()
            assert "kcr" in await kubectl.in_shell(lease, ROOT)
            send, find = stacks.splitlines()
            in_pod, own = "kubectl -n kcr-system exec deploy/kcr -- sh -c 'kill -USR1 1'", running.process.pid
            assert send == in_pod
            await kubectl.in_shell(f"sh -c 'kill -USR1 {own}'", ROOT)
            await eventually(lambda: find.rpartition("'")[0].rpartition("'")[2] in running.err)
        text = await kubectl.in_shell(protect, ROOT)
        assert "clusterrolebinding.rbac.authorization.k8s.io/kcr-metrics-reader created" in text
        assert "--metrics-secure" in await kubectl("-n kcr-system get deployment kcr -o yaml")
        prometheus = "--as=system:serviceaccount:monitoring:prometheus"
        assert await kubectl(f"auth can-i get /metrics {prometheus}") == "yes\n"
        await kubectl("create namespace blue-1")
        text = await kubectl.in_shell(selected, ROOT)
        assert "--namespace-selector=team=blue" in text
        assert "rolebinding.rbac.authorization.k8s.io/kcr created" in text
        assert "successfully rolled out" in await kubectl.in_shell(upgrade, ROOT)
        assert "--take-over" in await kubectl("-n kcr-system get deployment kcr -o yaml")
        assert "Rollback was a success" in await kubectl.in_shell(rollback, ROOT)

        await kubectl("apply -f -", typed=SHARED)
        assert "next  " in await kubectl.in_shell(stuck, ROOT)
        await kubectl("apply -f -", typed=SHARED.replace("hello", "pi"))
        assert (await kubectl.in_shell(pause, ROOT)).count("job.batch/pi annotated") == 2
        assert re.search(r"^default +hello +kcr.dev/job-controller ", await kubectl.in_shell(back, ROOT), re.MULTILINE)
        assert "--take-over" not in await kubectl("-n kcr-system get deployment kcr -o yaml")
        await kubectl.in_shell(remove, ROOT)
        text = await kubectl.in_shell(plain, ROOT)
        assert "deployment.apps/kcr image updated" in text
        before = await kubectl("-n kcr-system get deployment kcr -o jsonpath={.metadata.uid}/{.metadata.generation}")
        assert "managedBy: kcr.dev/job-controller" in await kubectl.in_shell(adopt, ROOT)
        after = await kubectl("-n kcr-system get deployment kcr -o jsonpath={.metadata.uid}/{.metadata.generation}")
        assert after == before, "no pod is replaced"
        assert "clusterrole.rbac.authorization.k8s.io/kcr-metrics-auth created" in await kubectl.in_shell(grant, ROOT)
        assert (
            await kubectl("auth can-i patch jobs.batch --subresource=status --as=system:serviceaccount:kcr-system:kcr")
            == "yes\n"
        )


@pytest.mark.soak
@NEEDS_KUBECTL
@pytest.mark.asyncio
async def test_dry_run_tells_what_it_would_write(environment: Mapping[str, str], kcr: Start, serve: Serve) -> None:
    dry, line = OPERATE[3:5]
    arguments, wanted = shlex.split(dry.partition(" 2>&1")[0])[1:], json.loads(line)
    async with serve() as kubeconfig:
        kubectl = Kubectl(kubeconfig, environment)
        await kubectl("apply -f -", typed=SHARED)
        async with kcr(*arguments, KUBECONFIG=str(kubeconfig)) as running:
            await eventually(lambda: wanted["event"] in running.err, seconds=60)
            found = next(json.loads(one) for one in running.err.splitlines() if wanted["event"] in one)
        assert wanted.keys() <= found.keys()
        assert "No resources found" in await kubectl("get pods")


@pytest.mark.soak
@NEEDS_KUBECTL
@NEEDS_HELM
@pytest.mark.asyncio
async def test_commands_on_security_show_what_it_says(environment: Mapping[str, str], kcr: Start) -> None:
    path = f"{Path(sys.executable).parent}:{environment['PATH']}"
    rights, narrow, restrict, network, audit = SECURITY
    helm = INSTALL[2]
    assert COMPATIBILITY == []
    async with kcr("dev", "--authorization", "rbac", "--runtime", "simulated") as dev:
        kubectl = Kubectl(await dev.kubeconfig(), {**environment, "PATH": path})
        await kubectl.in_shell(helm, ROOT)
        role, _, answer = (await kubectl.in_shell(rights, ROOT)).rpartition("\n---")
        assert "jobs/status" in role
        assert answer.strip().endswith("no")
        assert "kind: ClusterRole" not in await kubectl.in_shell(narrow, ROOT)
        assert "namespace/kcr-system labeled" in await kubectl.in_shell(restrict, ROOT)
        await kubectl.in_shell(network, ROOT)
        policy = await kubectl("-n kcr-system get networkpolicy kcr -o yaml")
        assert "team: monitoring" in policy
        assert "tools.audit" in await kubectl.in_shell(audit.replace("make", "make --dry-run", 1), ROOT)


@NEEDS_KUBECTL
@pytest.mark.soak
@pytest.mark.asyncio
async def test_plain_manifest_runs_on_the_development_cluster(
    environment: Mapping[str, str], kcr: Start, tmp_path: Path
) -> None:
    path = f"{Path(sys.executable).parent}:{environment['PATH']}"
    start, use = INSTALL[5:7]
    arguments = [str(tmp_path / one) if one == "dev.kubeconfig" else one for one in shlex.split(start)[1:]]
    async with kcr(*arguments, PATH=path) as dev:
        kubectl = Kubectl(await dev.kubeconfig(), {**environment, "PATH": path})
        await eventually(lambda: "deployment.apps/kcr created" in dev.err, seconds=30)
        _, *lines = use.splitlines()
        shown = await kubectl.in_shell("\n".join(lines), ROOT)
        assert "job.batch/pi condition met" in shown
        assert '"successfully acquired lease"' in shown
