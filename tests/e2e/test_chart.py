"""The replicas of the chart's Deployment as processes: its arguments, its account, and the rights that it grants."""

import re
import signal
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kcr.api.batch import Job, is_finished
from kcr.api.coordination import Lease
from kcr.api.meta import Key
from kcr.testing import eventually
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.generators.credentials import ServiceAccountLogin, issue_kubeconfig
from tests.e2e.processes import Start
from tests.kit.charts import NEEDS_HELM, install, manifests, of_kind
from tests.kit.harness import create, finished, manifest, read

pytestmark = [NEEDS_HELM, pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio]

VALUES = {
    "controllers": ["job", "ttl", "cronjob"], "takeOver": True,
    "leaderElection": {"leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "200ms"},
}  # fmt: skip
SLOW = {"sim.kcr.dev/run-for": "1s"}
PARALLEL: dict[str, Any] = {"completions": 6, "parallelism": 2, "annotations": SLOW}


async def account_kubeconfig(cluster: EmbeddedCluster, pod: dict[str, Any], namespace: str, folder: Path) -> str:
    """Write what stands in for the account's files in a pod: its token and the server's authority."""
    admin, own = folder / "admin", folder / "own"
    admin.write_text((await cluster.serve()).kubeconfig)
    login = ServiceAccountLogin(Key(namespace, pod["serviceAccountName"]), 3600)
    own.write_text(await issue_kubeconfig(login, str(admin)))
    return str(own)


@pytest.mark.soak
async def test_replicas_of_the_chart_run_jobs_through_a_change_of_leader(kcr: Start, tmp_path: Path) -> None:
    found = manifests(VALUES)
    (deployment,) = of_kind(found, "Deployment")
    namespace, pod = deployment["metadata"]["namespace"], deployment["spec"]["template"]["spec"]
    assert deployment["spec"]["replicas"] == 2
    # Pods have an address each; here a port that is free.
    arguments = [re.sub(r"=:\d+$", "=127.0.0.1:0", argument) for argument in pod["containers"][0]["args"]]
    async with EmbeddedCluster(random=Random(0), authorization="rbac") as cluster:
        await install(cluster.client, found)
        kubeconfig = await account_kubeconfig(cluster, pod, namespace, tmp_path)
        names = ("one", "other")
        async with (
            kcr("run", *arguments, KUBECONFIG=kubeconfig, HOSTNAME=names[0]) as one,
            kcr("run", *arguments, KUBECONFIG=kubeconfig, HOSTNAME=names[1]) as other,
        ):
            replicas = dict(zip(names, (one, other), strict=True))

            async def leader() -> str:
                lease = await cluster.client.get(Lease, Key(namespace, "kcr"))
                return lease.spec.holder_identity.partition("_")[0]

            first = await eventually(leader)
            for number in range(3):
                await create(cluster.client, manifest(f"job-{number}", **PARALLEL))
            await create(cluster.client, manifest("short-lived", ttlSecondsAfterFinished=1, annotations=SLOW))

            async def is_active() -> bool:
                return (await read(cluster.client, "job-2")).status.active == 2

            await eventually(is_active)
            await replicas.pop(first).stop(signal.SIGKILL)
            ((second, survivor),) = replicas.items()
            for number in range(3):
                status = (await finished(cluster.client, f"job-{number}", seconds=60)).status
                assert (status.succeeded, status.failed) == (6, 0)
            await eventually(lambda: is_gone(cluster, "short-lived"))
            assert await leader() == second
            assert await survivor.stop() == 0
            said = one.err + other.err
    assert "permission is missing" not in said
    assert "cluster check failed" not in said
    assert "forbidden" not in said


async def is_gone(cluster: EmbeddedCluster, name: str) -> bool:
    jobs = {job.metadata.name: job for job in await cluster.client.list(Job, "default")}
    return name not in jobs and all(map(is_finished, jobs.values()))
