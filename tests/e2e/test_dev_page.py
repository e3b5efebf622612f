"""The page of `kcr dev` and what is behind it, as a browser, kubectl and curl meet them."""

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import yaml

from kcr.testing import eventually
from kcr_devcluster.dev.cluster_state import ClusterOverview
from tests.e2e.kubectl import NEEDS_KUBECTL, Kubectl
from tests.e2e.processes import ROOT, Running, Start

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio]

SIMULATED = ("dev", "--no-controllers", "--runtime", "simulated")
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: pi}
spec:
  completions: 2
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: busybox, command: [sh, -c, "echo one; echo two; echo three"]}]
"""


_TROUBLE = """
apiVersion: batch/v1
kind: Job
metadata: {name: %s, namespace: %s, annotations: {%s}}
spec:
  %s
  template:
    spec: {restartPolicy: Never, %s containers: [{name: main, image: busybox, command: [sleep, "1000"], %s}]}
"""
SIX_TROUBLES = "---".join(
    [
        "{apiVersion: v1, kind: Namespace, metadata: {name: full}}\n",
        '\n{apiVersion: v1, kind: ResourceQuota, metadata: {name: none, namespace: full}, spec: {hard: {pods: "0"}}}\n',
        _TROUBLE % ("unscheduled", "default", "", "", "nodeSelector: {disk: ssd},", ""),
        _TROUBLE % ("unconfigured", "default", "", "", "", "envFrom: [{configMapRef: {name: gone}}]"),
        _TROUBLE % ("refused", "full", "", "", "", ""),
        _TROUBLE % ("foreign", "default", "", "managedBy: example.com/queue", "", ""),
        _TROUBLE % ("on-hold", "default", 'kcr.dev/paused: "true"', "", "", ""),
        _TROUBLE % ("fine", "default", "", "", "", ""),
        """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: busybox, command: [sleep, "1000"]}]}
""",
    ]
)
# State, explanation, and the reason of the last warning.
TOLD = {
    "unscheduled": ("Waiting", "waits for 1 pod that cannot be scheduled", "FailedScheduling"),
    "unconfigured": ("Waiting", "waits for 1 pod whose container lacks its configuration", "Failed"),
    "refused": ("Waiting", "cannot create pods: a ResourceQuota is used up", "FailedCreate"),
    "foreign": ("Left alone", "left to the controller example.com/queue", ""),
    "on-hold": ("Paused", "is paused: no controller of kcr reconciles it", ""),
    "fine": ("Running", "", ""),
}


def manifest(tmp_path: Path) -> str:
    path = tmp_path / "pi.yaml"
    path.write_text(JOB)
    return str(path)


async def page_of(dev: Running) -> tuple[str, str]:
    """Return the address of the page without its path, and the token."""

    def printed() -> re.Match[str] | None:
        assert dev.process.returncode is None, dev.err
        return re.search(r"^  page (http://127\.0\.0\.1:\d+)/debug/kcr\?token=(\S+)$", dev.err, re.MULTILINE)

    found = await eventually(printed)
    assert found
    return found[1], found[2]


def extensions_in(kubeconfig: Path) -> Any:
    return yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"].get("extensions")


async def get(url: str, **query: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url, params=query) as answer:
        return answer.status, await answer.text()


async def test_cluster_and_logs_are_there_for_those_with_the_token(kcr: Start, tmp_path: Path) -> None:
    async with kcr("dev", "-f", manifest(tmp_path)) as dev:
        address, token = await page_of(dev)
        await eventually(lambda: "job pi: Complete" in dev.err)
        status, text = await get(f"{address}/debug/kcr/cluster", token=token, job="default/pi")
        shown = msgspec.json.decode(text, type=ClusterOverview)
        assert status == 200
        assert [(job.name, job.state, job.succeeded) for job in shown.jobs] == [("pi", "Complete", 2)]
        assert [(pod.index, pod.phase, pod.exit_code) for pod in shown.pods] == [
            (0, "Succeeded", 0), (1, "Succeeded", 0),
        ]  # fmt: skip
        logs = f"{address}/debug/kcr/logs"
        assert await get(logs, token=token, pod=shown.pods[0].name, tail="2") == (200, "two\nthree\n")
        assert await get(logs, token=token, pod="gone") == (404, 'pods "gone" not found\n')
        status, text = await get(logs, pod=shown.pods[0].name)
        assert (status // 100, text.count("\n")) == (4, 1)
        assert "needs a token" in text
        status, text = await get(f"{address}/debug/kcr/state", token=token)
        assert msgspec.json.decode(text)["process"]["command"] == "kcr dev"
        assert await dev.stop() == 0


@pytest.mark.soak
async def test_six_jobs_that_wait_are_told_apart(kcr: Start, tmp_path: Path) -> None:
    path = tmp_path / "six.yaml"
    path.write_text(SIX_TROUBLES)
    async with kcr("dev", "-f", str(path)) as dev:
        address, token = await page_of(dev)

        async def told() -> ClusterOverview | None:
            shown = msgspec.json.decode(
                (await get(f"{address}/debug/kcr/cluster", token=token))[1], type=ClusterOverview
            )
            found = {job.name: (job.state, job.why, job.warning.reason if job.warning else "") for job in shown.jobs}
            is_available = [one.state for one in shown.deployments] == ["Available"]
            return shown if found == TOLD and is_available else None

        shown = await eventually(told, seconds=30)
        assert shown
        assert [pod.deployment for pod in shown.pods] == ["web"]
        # The terminal says the same.
        told_apart = [f"{job.name}: {job.state}: .*{re.escape(job.why)}$" for job in shown.jobs if job.is_troubled]
        await eventually(lambda: all(re.search(line, dev.err, re.MULTILINE) for line in told_apart))
        _, text = await get(f"{address}/debug/kcr/cluster", token=token, job="full/refused")
        explanation = msgspec.json.decode(text, type=ClusterOverview).explanation
        assert explanation is not None
        assert "exceeded quota: none" in explanation.reasons[0]


@pytest.mark.soak
async def test_kubeconfig_names_the_page_of_this_start(kcr: Start, tmp_path: Path) -> None:
    seen = set[str]()
    for _ in range(2):
        async with kcr(*SIMULATED, "--data-dir", str(tmp_path / "state")) as dev:
            address, token = await page_of(dev)
            kubeconfig = await dev.kubeconfig()
            (extension,) = extensions_in(kubeconfig)
            assert extension == {"name": "kcr.dev/debug", "extension": {"address": address, "accessToken": token}}
            assert kubeconfig.stat().st_mode & 0o777 == 0o600
            seen.add(token)
            assert await dev.stop() == 0
    assert len(seen) == 2


@pytest.mark.soak
async def test_page_can_be_switched_off(kcr: Start) -> None:
    async with kcr(*SIMULATED, "--no-debug-page", "-f", "examples/hello-cron.yaml") as dev:
        kubeconfig = await dev.kubeconfig()
        await eventually(lambda: " created\n" in dev.err)
        assert "page http" not in dev.err
        assert extensions_in(kubeconfig) is None


@pytest.mark.soak
@NEEDS_KUBECTL
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not on the PATH")
async def test_commands_of_the_guide_read_it(kcr: Start, environment: Mapping[str, str], tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "guide" / "dev-cluster.md").read_text(encoding="utf-8")
    script = guide.partition("## Web page")[2].split("```")[1]
    async with kcr("dev", "-f", manifest(tmp_path)) as dev:
        await page_of(dev)
        await eventually(lambda: "job pi: Complete" in dev.err)
        kubectl = Kubectl(await dev.kubeconfig(), environment)
        text = await kubectl.in_shell(script, tmp_path)
    of_no_job, end = json.JSONDecoder().raw_decode(text)
    of_pi, end = json.JSONDecoder().raw_decode(text := text[end:])
    assert (of_no_job["pods"], len(of_pi["pods"])) == ([], 2)
    assert text[end:].startswith('one\ntwo\nthree\n{"process":')
    assert '{"times":[' in text[end:]
