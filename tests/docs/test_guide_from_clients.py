"""The guide for those who come from client libraries: its script runs, and the names on both sides exist."""

import asyncio
import re
from pathlib import Path
from random import Random

import kr8s
import kubernetes_asyncio.client
import lightkube
import pytest

import kcr
from kcr.api.core import Pod
from kcr.client import SyncClient, api_client
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from tests.kit.documents import ROOT, blocks, files
from tests.kit.generated import imported
from tests.kit.harness import job_controller

GUIDE = ROOT / "docs" / "guide" / "from-clients.md"
TEXT = GUIDE.read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading."""
    (found,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", TEXT, re.DOTALL | re.MULTILINE)
    return [line.strip("| ").split(" | ") for line in found.splitlines() if line.startswith("| ")][1:]


def test_every_block_is_run() -> None:
    assert [block.file for block in blocks(GUIDE)] == ["failed_pods.py", "official.py"]


@pytest.mark.kcr_virtual
async def test_program_of_kubernetes_aio_runs_a_job(kcr_clock: VirtualClock) -> None:
    outcome = RunResult(logs="hello\n", run_for=1)
    with imported(files(GUIDE)["official.py"], "official") as program:
        async with (
            EmbeddedCluster(clock=kcr_clock, random=Random(0), on_run=lambda *_: outcome) as cluster,
            job_controller(cluster, kcr_clock),
        ):
            for _ in range(2):
                assert await program.run(api_client(cluster.client), "hello", ["echo", "hello"]) == "hello\n"


@pytest.mark.asyncio
async def test_script_deletes_the_failed_pods(tmp_path: Path) -> None:
    async with EmbeddedCluster(runtime=None) as cluster:
        (tmp_path / "kubeconfig").write_text((await cluster.serve()).kubeconfig)
        for name, phase in (("good", "Running"), ("bad", "Failed")):
            manifest = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "app"}]}}
            pod = await cluster.client.create_manifest(Pod, manifest, "default")
            await cluster.client.merge_patch(Pod, pod.key, {"status": {"phase": phase}}, subresource="status")

        def run() -> list[str]:
            with (
                imported(files(GUIDE)["failed_pods.py"], "failed_pods") as script,
                kcr.connect(str(tmp_path / "kubeconfig")) as connected,
            ):
                deleted: list[str] = script.delete_failed(connected, "default")
                return deleted

        assert await asyncio.to_thread(run) == ["bad"]
        assert [pod.metadata.name for pod in await cluster.client.list(Pod)] == ["good"]


def test_names_of_kcr_exist() -> None:
    assert set(re.findall(r"\bkcr\.([A-Za-z_]\w+)", TEXT)) - {"api", "client"} <= set(dir(kcr))
    methods = {name for heading in ("From `kubernetes` and `kubernetes_asyncio`", "From kr8s and lightkube")
               for row in rows(heading) for name in re.findall(r"(?:client\.|`)(\w+)\(", row[-1])}  # fmt: skip
    assert methods - {"api_client", "connect", "load_config"} <= {*dir(kcr.Client), *dir(SyncClient)}


def test_names_of_the_others_exist() -> None:
    apis = set(dir(kubernetes_asyncio.client.CoreV1Api)) | set(dir(kubernetes_asyncio.client.BatchV1Api))
    theirs = " ".join(row[0] for row in rows("From `kubernetes` and `kubernetes_asyncio`"))
    named = set(re.findall(r"\b(?:read|list|create|replace|delete|patch)_\w+", theirs))
    assert {"list_pod_for_all_namespaces"} < named <= apis
    pods = re.findall(r"\b[Pp]od\.(\w+)", " ".join(row[0] for row in rows("From kr8s and lightkube")))
    assert pods
    assert not [name for name in pods if not hasattr(kr8s.asyncio.objects.Pod, name)]
    clients = re.findall(r"`(\w+)(?:\(|`)", " ".join(row[1] for row in rows("From kr8s and lightkube")))
    assert not set(clients) - {"AsyncClient", "Client", "create_namespaced_resource"} - set(dir(lightkube.AsyncClient))
