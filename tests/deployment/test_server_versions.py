"""What kcr writes is known to every server version that it supports, and what it needs of them is there."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
import yaml
from kubernetes_validate.utils import latest_version

from kcr.api import codec
from kcr.api.batch import Job
from kcr.api.core import Event
from kcr.app.checks import NEWEST, OLDEST
from kcr.app.plugins import attach, find_plugins
from kcr.client import Client, Request
from kcr.manager import Manager
from kcr.scopes.leaderelection import LeaderElectionConfig, LeaderElector
from kcr.testing import VirtualClock, eventually
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.versions import KubernetesVersion
from tests.kit.documents import ROOT
from tests.kit.harness import conditions, create, finished, has_ended, manifest
from tests.kit.older_server import WITHOUT_WATCH_LIST, OlderServer, schema
from tools.chart import CHART

VERSIONS = [f"1.{minor}.0" for minor in range(OLDEST[1], NEWEST[1] + 1)]
STATUS = "/apis/batch/v1/namespaces/default/jobs/pi/status"
MERGE, STRATEGIC, JSON_PATCH, JSON = (
    {"content-type": f"application/{kind}json"}
    for kind in ("merge-patch+", "strategic-merge-patch+", "json-patch+", "")
)
JSON = {"content-type": "application/json"}
POD = "/api/v1/namespaces/default/pods/pi"
INDEXED: dict[str, Any] = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}
FAILS = {"sim.kcr.dev/exit-code": "1"}
ON_EXIT_1 = {"onExitCodes": {"operator": "In", "values": [1]}}
# Each field of a Job's spec by which the controller writes something else.
JOBS: Mapping[str, Mapping[str, Any]] = {
    "complete": {"completions": 4, "parallelism": 2},
    "indexed": INDEXED,
    "per-index": {**INDEXED, "backoffLimitPerIndex": 1, "maxFailedIndexes": 1, "annotations": FAILS},
    "success-policy": {**INDEXED, "successPolicy": {"rules": [{"succeededCount": 1}]}},
    "failure-policy": {
        "podFailurePolicy": {"rules": [{"action": "FailJob", **ON_EXIT_1}]}, "annotations": FAILS,
    },
    "failed": {"backoffLimit": 1, "annotations": FAILS},
    "replaced": {"backoffLimit": 1, "podReplacementPolicy": "Failed", "annotations": FAILS},
    "deadline": {"activeDeadlineSeconds": 5, "annotations": {"sim.kcr.dev/run-for": "1h"}},
    "ttl": {"ttlSecondsAfterFinished": 120},
}  # fmt: skip
ENDS = {
    "complete": "Complete", "indexed": "Complete", "success-policy": "Complete", "ttl": "Complete",
}  # fmt: skip
EVERY_MINUTE = {
    "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick", "namespace": "default"},
    "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": manifest()["spec"]}, "successfulJobsHistoryLimit": 1},
}  # fmt: skip


@asynccontextmanager
async def all_controllers(
    server: OlderServer, clock: VirtualClock, environ: Mapping[str, str] = {}
) -> AsyncIterator[None]:
    """Jobs, CronJobs and TTL with leader election, on a server of an older release."""
    client = Client(server)
    elector = LeaderElector(client, LeaderElectionConfig(name="kcr"), clock=clock, random=Random(1))
    manager = Manager(client, clock=clock, random=Random(1), leader_election=elector)
    attach(find_plugins(("job", "ttl", "cronjob")), manager, environ, take_over=True)
    async with manager.running():
        yield


async def suspend(client: Client, *, on: bool) -> None:
    patch = {"spec": {"suspend": on}}
    await client.request(
        "PATCH",
        "/apis/batch/v1/namespaces/default/jobs/stopped",
        codec.encode(patch),
        content_type=MERGE["content-type"],
    )


@pytest.mark.kcr_virtual
@pytest.mark.parametrize(
    "version",
    [pytest.param(one, marks=[] if one in (VERSIONS[0], VERSIONS[-1]) else pytest.mark.soak) for one in VERSIONS],
)
async def test_controllers_write_what_the_version_knows(kcr_clock: VirtualClock, version: str) -> None:
    served: KubernetesVersion = "1.37" if version == VERSIONS[-1] else "1.36"
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), kubernetes_version=served) as cluster:
        client, server = cluster.client, OlderServer(cluster.transport, version)
        async with all_controllers(server, kcr_clock):
            for name, spec in JOBS.items():
                await create(client, manifest(name, **spec))
            await create(client, manifest("stopped", parallelism=2, annotations={"sim.kcr.dev/run-for": "20s"}))
            await client.request("POST", "/apis/batch/v1/namespaces/default/cronjobs", codec.encode(EVERY_MINUTE))
            await kcr_clock.advance(5)
            await suspend(client, on=True)
            await kcr_clock.advance(60)
            await suspend(client, on=False)
            for name in [*JOBS, "stopped"]:
                job = await finished(client, name)
                assert conditions(job)[-1][0] == ENDS.get(name, "Failed" if name in JOBS else "Complete")
            await kcr_clock.advance(200)
            assert "ttl" not in {job.metadata.name for job in await client.list(Job, "default")}
            assert "LeaderElection" in {event.reason for event in await client.list(Event, "default")}
        assert server.unknown == set()


@pytest.mark.kcr_virtual
@pytest.mark.parametrize("version", WITHOUT_WATCH_LIST)
async def test_caches_are_filled_without_watch_list(kcr_clock: VirtualClock, version: str) -> None:
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0)) as cluster:
        server = OlderServer(cluster.transport, version)
        await create(cluster.client, manifest("before"))
        async with all_controllers(server, kcr_clock):
            before = await eventually(lambda: finished(cluster.client, "before"))
        assert has_ended(before)


@pytest.mark.kcr_virtual
@pytest.mark.parametrize("version", ["1.35.0", "1.36.0"])
async def test_gangs_need_a_server_that_has_them(kcr_clock: VirtualClock, version: str) -> None:
    gates = {"KCR_FEATURE_GATES": "GenericWorkload=true,WorkloadWithJob=true"}
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), gangs=True) as cluster:
        server = OlderServer(cluster.transport, version)
        async with all_controllers(server, kcr_clock, gates):
            await create(cluster.client, manifest("gang", containers=None, **INDEXED))
            await finished(cluster.client, "gang")
        lacks = {"scheduling.k8s.io/v1alpha2 Workload", "scheduling.k8s.io/v1alpha2 PodGroup"}
        assert {name for name in server.unknown if " " in name} == (lacks if version == "1.35.0" else set())


@pytest.mark.parametrize(
    ("method", "target", "headers", "body", "unknown"),
    [
        pytest.param("PATCH", STATUS, MERGE, b'{"status":{"ready":1}}', "", id="known"),
        pytest.param("PATCH", STATUS, MERGE, b'{"status":{"steady":1}}', "batch.v1.JobStatus.steady", id="field"),
        pytest.param(
            "PATCH", STATUS, MERGE, b'{"status":{"conditions":[{"since":1}]}}', "batch.v1.JobCondition.since", id="item"
        ),
        pytest.param(
            "PATCH", POD, JSON_PATCH, b'[{"op":"remove","path":"/metadata/finalizerz/0"}]',
            "meta.v1.ObjectMeta.finalizerz", id="json-patch",
        ),
        pytest.param(
            "PATCH", POD, STRATEGIC,
            b'{"metadata":{"$deleteFromPrimitiveList/finalizers":["x"],"$setElementOrder/ownerz":[]}}',
            "meta.v1.ObjectMeta.ownerz", id="directives",
        ),
        pytest.param("POST", "/apis/x/v1/ys", JSON, b'{"apiVersion":"x/v1","kind":"Y"}', "x/v1 Y", id="kind"),
        pytest.param("PATCH", "/apis/x/v1/ys/a", MERGE, b"{}", "x/v1 ys", id="resource"),
    ],
)  # fmt: skip
def test_unknown_fields_are_found(
    method: str, target: str, headers: Mapping[str, str], body: bytes, unknown: str
) -> None:
    assert schema(VERSIONS[0]).unknown(Request(method, target, headers, body)) == [unknown] * bool(unknown)


def test_versions_are_the_same_everywhere() -> None:
    oldest, newest = (f"{major}.{minor}" for major, minor in (OLDEST, NEWEST))
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["kubeVersion"] == f">={oldest}.0-0"
    assert latest_version().removeprefix("v").startswith(f"{newest}.")
    guide = (ROOT / "docs" / "guide" / "compatibility.md").read_text()
    assert re.search(rf"Kubernetes {re.escape(oldest)} to {re.escape(newest)}\b", guide)
