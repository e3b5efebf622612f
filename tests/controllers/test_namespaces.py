"""Namespaces with live objects of the built-in controllers end, in whatever order the objects vanish."""

from typing import Any

import pytest
from structlog.testing import capture_logs

import kcr
from kcr.api.core import Namespace
from kcr.testing import VirtualClock, namespace_ends
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.workloads import setup as setup_workloads

pytestmark = pytest.mark.kcr_virtual

JOB = kcr.unstructured("batch/v1", "Job", plural="jobs")
CRON_JOB = kcr.unstructured("batch/v1", "CronJob", plural="cronjobs")
ENDPOINTS = kcr.unstructured("v1", "Endpoints", plural="endpoints")
DEPLOYMENT = kcr.unstructured("apps/v1", "Deployment", plural="deployments")
# Pods that run until they are deleted.
RUNNING = {
    "metadata": {"annotations": {"sim.kcr.dev/run-for": "100000s"}, "labels": {"app": "web"}},
    "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]},
}
ENDED = {**RUNNING, "metadata": {}}
WEB = {**RUNNING, "spec": {"containers": [{"name": "main", "image": "busybox"}]}}


def job(template: dict[str, Any] = RUNNING, **spec: Any) -> kcr.Unstructured:
    return JOB.of({"metadata": {"name": "work"}, "spec": {"template": template, **spec}})


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"parallelism": 2}, id="parallel"),
        pytest.param({"podReplacementPolicy": "Failed"}, id="replaced-after-the-end"),
        pytest.param({"suspend": True}, id="suspended"),
    ],
)
async def test_namespace_with_a_live_job_ends(kcr_cluster: EmbeddedCluster, spec: dict[str, Any]) -> None:
    await namespace_ends(kcr_cluster, "job", [job(**spec)])


@pytest.mark.kcr_cluster(controllers=["job"])
async def test_namespace_with_an_ended_job_and_its_ttl_ends(kcr_cluster: EmbeddedCluster) -> None:
    await namespace_ends(kcr_cluster, "ttl", [job(ENDED, ttlSecondsAfterFinished=60)])


@pytest.mark.kcr_cluster(controllers=["job"])
@pytest.mark.parametrize("policy", ["Replace", pytest.param("Allow", marks=pytest.mark.soak)])
async def test_namespace_with_a_live_cron_job_ends(kcr_cluster: EmbeddedCluster, policy: str) -> None:
    spec = {"schedule": "* * * * *", "concurrencyPolicy": policy, "jobTemplate": {"spec": {"template": RUNNING}}}
    cron = CRON_JOB.of({"metadata": {"name": "every-minute"}, "spec": spec})
    await namespace_ends(kcr_cluster, "cronjob", [cron], live_seconds=130)


@pytest.mark.kcr_cluster(deployments=False)
async def test_namespace_with_a_live_deployment_ends(kcr_cluster: EmbeddedCluster) -> None:
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": WEB}
    await namespace_ends(kcr_cluster, setup_workloads, [DEPLOYMENT.of({"metadata": {"name": "web"}, "spec": spec})])


async def test_end_of_a_namespace_warns_of_no_kind(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    client, key = kcr_cluster.client, kcr.Key("", "web")
    with capture_logs() as lines:
        await client.create(Namespace(metadata=kcr.ObjectMeta(name="web")))
        await client.delete(Namespace, key)
        await kcr_clock.advance(10)
        assert key not in [one.key for one in await client.list(Namespace)]
        assert not [line for line in lines if line["log_level"] == "warning"]
        await client.list(ENDPOINTS)
    assert ["v1 Endpoints is deprecated" in line["warning"] for line in lines if line["log_level"] == "warning"] == [
        True
    ]
