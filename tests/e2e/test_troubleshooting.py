"""Every command of the guide on troubleshooting and of the runbooks, on a cluster that has each symptom."""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from kcr.testing import eventually
from tests.e2e.kubectl import NEEDS_KUBECTL, Kubectl
from tests.e2e.processes import ROOT, Start
from tests.kit.documents import blocks

GUIDE = ROOT / "docs" / "guide" / "troubleshooting.md"
# Its commands are some of those of the others.
ON_CALL = GUIDE.with_name("on-call.md")
RUNBOOKS = sorted((ROOT / "docs" / "runbooks").glob("*.md"))
FORWARD = "kubectl -n kcr-system port-forward deployment/kcr 8081 8080"
LABELS = {"app.kubernetes.io/name": "kcr"}
# As the chart's, but for a node that runs programs of this machine.
ARGUMENTS = [
    "run", "--take-over", "--leader-elect", "--leader-elect-resource-name=kcr",
    "--leader-elect-resource-namespace=kcr-system",
    "--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0", "--log-format=json",
    "--kube-api-qps=500",
]  # fmt: skip
IN_SYSTEM = {"name": "kcr", "namespace": "kcr-system"}
RELEASE = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kcr-system"}},
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": IN_SYSTEM},
    {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": IN_SYSTEM,
        "spec": {
            "selector": {"matchLabels": LABELS},
            "template": {
                "metadata": {"labels": LABELS},
                "spec": {"containers": [
                    {"name": "kcr", "image": "kcr", "command": [str(Path(sys.executable).with_name("kcr"))],
                     "args": ARGUMENTS},
                ]},
            },
        },
    },
]  # fmt: skip
# Its process ignores SIGTERM once it has printed this; then its pod is deleted.
STUBBORN, BEGUN = "kcr explain job/stubborn", ("kcr logs job/stubborn", "at work")
DELETE = "kubectl delete pod -l job-name=stubborn --wait=false"
# Each command of the guide by its beginning, and what its output has, sooner or later.
IN_GUIDE = {
    "kcr explain job/parked": "suspended",
    "kcr explain job/foreign": "left to the controller example.com/queue",
    "kcr explain job/unscheduled": "waits for 1 pod that cannot be scheduled(.|\n)*Unschedulable",
    "kcr explain job/failing": r"before it replaces a failed pod \(backoff\)(.|\n)*exit code 3",
    "kcr logs job/failing": "no disk",
    "kcr explain job/failing --debug-address": r"controller  job: (.|\n)*at kcr run .*, leads",
    "kcr debug stacks": "MainThread: ",
    "kcr debug profile 1": r"\d+ samples",
    "kcr debug dump": r"wrote kcr-debug-.*\.tar\.gz, \d+ bytes: .*metrics\.txt",
    "kcr explain job/refused -n full": "cannot create pods: a ResourceQuota is used up",
    "kubectl get events -n full": "exceeded quota: none",
    "kubectl describe resourcequota -n full": r"pods +0 +0",
    "kcr explain job/stubborn": "waits for 1 terminating pod to end",
    "kubectl delete pod -l job-name=stubborn": "force deleted",
    "kcr explain job/endless": "runs 1 pod",
    "kubectl get pods -l job-name=endless": "1/1 +Running",
    "kcr logs job/endless": "at work",
    "kcr wait job/endless": "exit code 124",
    "kcr explain cronjob/never": "never runs: no time fits its schedule",
    "kcr explain cronjob/paused": "suspended",
    "kubectl get jobs --sort-by": "endless",
    "kcr explain deployment/web": "has . of 2 pods whose container crash(.|\n)*exit code 4(.|\n)*-p\n",
    "kcr explain pod/broken": "its container crash(.|\n)*kubectl -n default logs broken -p",
    "kubectl delete namespace stuck": "deleted|deletion",
    "kcr explain namespace/stuck": r"waits for the finalizer example.com/dns of 1\s+object",
    "kcr explain node/kcr-node-0": "has been ready for",
    "kcr check --take-over": "ok    controllers",
    "kcr check": "ok    rights",
    "kubectl get jobs -A -o custom-columns": r"foreign +example.com/queue",
    "kubectl -n kcr-system logs": "ready: caches are synced, workers run",
    "curl -s 'localhost:8081/readyz": r"\[\+\]informer-pods ok(.|\n)*readyz check passed",
    "kubectl get job endless --show-managed-fields": r"kcr status 20",
    "curl -s localhost:8080/metrics | grep -E '^(workqueue_depth": r'max_concurrent_reconciles{controller="job"} \d',
    "curl -s localhost:8080/metrics | grep -E '^(workqueue_queue": "rest_client_rate_limiter_duration_seconds_count",
    "curl -s localhost:8080/metrics | grep -E '^controller_runtime_reconcile_total": 'result="success"} [1-9]',
    "curl -s localhost:8080/metrics | grep -E '^(kcr_cache": r'resource="pods",version="v1"} [1-9]',
}  # fmt: skip
IN_RUNBOOKS = {
    "kubectl -n kcr-system get pods": "1/1 +Running",
    "kubectl -n kcr-system describe pods": "Node:",
    "kubectl -n kcr-system get lease kcr": "holderIdentity: kcr-",
    "kubectl -n kcr-system logs -l app.kubernetes.io/name=kcr --prefix --tail=100": "successfully acquired lease",
    "kubectl -n kcr-system logs -l app.kubernetes.io/name=kcr --prefix --tail=-1 |": "reconcile failed",
    "kubectl -n kcr-system get deployment kcr": "--kube-api-qps=500",
    "kubectl get events -A": "FailedCreate",
    "kubectl get events -A --field-selector type=Warning,involvedObject.kind=CronJob": "InvalidSchedule|REASON",
    "kubectl get pods -A -l batch.kubernetes.io/job-name": "FINALIZERS",
    # Its replicas elect a leader.
    "kubectl -n kcr-system logs -l app.kubernetes.io/name=kcr --prefix --tail=-1 | grep -E 'shard|lease'": "lease",
    "kcr jobs -A": "refused +cannot start +quota",
    "kcr shards -n kcr-system --name kcr": "no leases of sharding named kcr in namespace kcr-system",
    "kcr kubeconfig create": "",
    "kcr check --kubeconfig kcr.kubeconfig": "ok    rights",
    "curl -s 'localhost:8081/readyz": "readyz check passed",
    "curl -s localhost:8080/metrics |": r"} \d",
}

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), NEEDS_KUBECTL]


def commands(*pages: Path) -> list[str]:
    """The commands of pages, each once, in their order."""
    lines = [line for page in pages for block in blocks(page) if block.language == "console"
             for line in block.text.splitlines()]  # fmt: skip
    return list(dict.fromkeys(lines))


def expected(command: str, table: Mapping[str, str]) -> str:
    """What the output of a command has, by the longest beginning of it that is in a table."""
    found = max((start for start in table if command.startswith(start)), key=len, default=None)
    assert found is not None, f"the test has no such command: {command}"
    return table[found]


def test_blocks_of_the_pages_are_for_the_shell() -> None:
    assert {block.language for page in (GUIDE, ON_CALL, *RUNBOOKS) for block in blocks(page)} == {"console"}


def test_commands_for_the_one_on_call_are_run_with_the_other_pages() -> None:
    assert not {*commands(ON_CALL)} - {*commands(GUIDE, *RUNBOOKS)}


@pytest.mark.parametrize(("table", "pages"), [(IN_GUIDE, [GUIDE]), (IN_RUNBOOKS, RUNBOOKS)], ids=["guide", "runbooks"])
def test_table_has_the_commands_of_the_pages_only(table: Mapping[str, str], pages: Iterable[Path]) -> None:
    there = commands(*pages)
    assert not [start for start in table if not any(command.startswith(start) for command in there)]


class Shell:
    """Runs lines of a page in a folder, as they stand there but for the ports of this machine."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        # What stands on the page, and what is typed here.
        self.ports: dict[str, str] = {}

    async def start(self, line: str) -> asyncio.subprocess.Process:
        for page, here in self.ports.items():
            line = line.replace(page, here)
        return await asyncio.create_subprocess_exec(
            "sh", "-c", line, cwd=self._folder, env=self._environment, start_new_session=True,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip

    async def __call__(self, line: str) -> str:
        return (await (await self.start(line)).communicate())[0].decode()

    async def until(self, line: str, pattern: str) -> None:
        """Repeat a command until its output has something."""
        last = ""

        async def matches() -> bool:
            nonlocal last
            last = await self(line)
            return re.search(pattern, last) is not None

        try:
            await eventually(matches, seconds=30)
        except AssertionError:
            raise AssertionError(f"{line}: no {pattern!r} in\n{last}") from None

    @asynccontextmanager
    async def forwarded(self) -> AsyncIterator[None]:
        """Forward the two ports of the release, as the pages say, while the body runs."""
        log = "kubectl -n kcr-system logs deployment/kcr"
        await self.until(log, "workers run")
        said = [json.loads(line) for line in (await self(log)).splitlines() if '"listening"' in line]
        served = {one["what"]: one["address"].rpartition(":")[2] for one in said}
        self.ports["8081 8080"] = f":{served['probes']} :{served['metrics']}"
        process = await self.start(f"exec {FORWARD}")
        try:
            assert process.stdout is not None
            pages = {served["probes"]: "localhost:8081", served["metrics"]: "localhost:8080"}
            while not self.ports.keys() >= set(pages.values()):
                line = (await process.stdout.readline()).decode()
                assert line.startswith("Forwarding from"), line
                if found := re.search(r"127\.0\.0\.1:(\d+) -> (\d+)", line):
                    self.ports[pages[found[2]]] = f"127.0.0.1:{found[1]}"
            yield
        finally:
            process.kill()
            await process.wait()


@pytest.mark.soak
@pytest.mark.asyncio
async def test_each_command_shows_what_the_pages_say(
    environment: Mapping[str, str], kcr: Start, tmp_path: Path
) -> None:
    release = tmp_path / "release.yaml"
    release.write_text(yaml.safe_dump_all(RELEASE))
    path = f"{Path(sys.executable).parent}:{environment['PATH']}"
    async with kcr("dev", "--controllers", "ttl,cronjob", "-f", str(release)) as dev:
        kubeconfig = await dev.kubeconfig()
        shell = Shell(tmp_path, {**environment, "PATH": path, "KUBECONFIG": str(kubeconfig)})
        kubectl = Kubectl(kubeconfig, environment)
        await kubectl("apply --server-side -f examples/symptoms.yaml")
        async with shell.forwarded():
            for table, pages in ((IN_GUIDE, [GUIDE]), (IN_RUNBOOKS, RUNBOOKS)):
                for command in commands(*pages):
                    if command == FORWARD:
                        continue
                    if command == STUBBORN:
                        await shell.until(*BEGUN)
                        await shell(DELETE)
                    await shell.until(command, expected(command, table))
