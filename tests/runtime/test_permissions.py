"""The role in the README is all that the controllers need."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest
import yaml
from structlog.testing import capture_logs

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.client import Request, Response, Transport
from kcr.cluster import EmbeddedCluster
from kcr.cluster.node import Outcome
from kcr.errors import ForbiddenError
from kcr.testing import FaultyTransport, VirtualClock
from kcr.testing.faults import call_of
from tests.kit import cronjob_harness, harness
from tests.kit.ttl_harness import ttl_controller

pytestmark = pytest.mark.virtual

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
# Group, resource with its subresource, and verb.
Right = tuple[str, str, str]


def role() -> set[Right]:
    (text,) = re.findall(r"```yaml\n(apiVersion: rbac.*?)```", README, re.DOTALL)
    return {
        (group, resource, verb)
        for rule in yaml.safe_load(text)["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


class Ledger:
    """The way to the server, which writes down what is asked for."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.asked: set[Right] = set()

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        call = call_of(request)
        self.asked.add((call.resource[0], "/".join(filter(None, (call.resource[2], call.subresource))), call.verb))
        async with self._inner.send(request) as response:
            yield response


async def test_missing_right_is_logged_at_its_first_refusal(cluster: EmbeddedCluster, clock: VirtualClock) -> None:
    words = (
        'pods is forbidden: User "system:serviceaccount:kcr:kcr" cannot create resource "pods" in API group "" in the '
        'namespace "default"'
    )
    faults = FaultyTransport(cluster.transport)
    faults.on("create", Pod).fail(ForbiddenError(403, "Forbidden", words))
    with capture_logs() as logs:
        async with harness.job_controller(cluster, clock, transport=faults):
            for name in ("a", "b"):
                await harness.create(cluster.client, harness.manifest(name))
            await clock.advance(600)
    (line,) = [line for line in logs if line["event"] == "permission is missing"]
    assert (line["log_level"], line["verb"], line["resource"], line["group"]) == ("error", "create", "pods", "")
    assert line["error"] == words
    assert "ClusterRole" in line["remedy"]


async def test_quota_is_no_missing_right(cluster: EmbeddedCluster, clock: VirtualClock) -> None:
    words = 'pods "pi-x" is forbidden: exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1'
    faults = FaultyTransport(cluster.transport)
    faults.on("create", Pod).fail(ForbiddenError(403, "Forbidden", words))
    with capture_logs() as logs:
        async with harness.job_controller(cluster, clock, transport=faults):
            await harness.create(cluster.client, harness.manifest())
            await clock.advance(60)
    assert [line for line in logs if line["event"] == "permission is missing"] == []


async def test_role_of_the_readme_suffices(clock: VirtualClock) -> None:
    def runs(pod: object, container: str, attempt: int) -> Outcome:
        return Outcome(run_for=70 if container == "long" else 1)

    async with EmbeddedCluster(clock=clock, random=Random(0), gangs=True, on_run=runs) as cluster:
        ledger = Ledger(cluster.transport)
        client = cluster.client
        gates = "GenericWorkload=true,WorkloadWithJob=true"
        async with (
            harness.job_controller(cluster, clock, transport=ledger, feature_gates=gates),
            ttl_controller(cluster, clock, transport=ledger),
            cronjob_harness.cron_controller(cluster, clock, transport=ledger),
        ):
            gang = harness.manifest("gang", completionMode="Indexed", completions=2, parallelism=2)
            await harness.create(client, gang)
            await harness.create(client, harness.manifest("brief", ttlSecondsAfterFinished=1))
            long = [{"name": "long", "image": "busybox"}]
            stopped = await harness.create(client, harness.manifest("stopped", containers=long))
            left = await harness.create(client, harness.manifest("left", containers=long))
            cron = cronjob_harness.manifest("cron", concurrencyPolicy="Replace", successfulJobsHistoryLimit=0)
            cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"] = long
            await cronjob_harness.create(client, cron)
            await clock.advance(5)
            await client.merge_patch(Job, stopped.key, {"spec": {"suspend": True}})
            await client.delete(Job, left.key, propagation="Orphan")
            await clock.advance(300)
    assert ledger.asked - role() == set()
    # Else the test has seen too little.
    writes = {f"{verb} {resource}" for _, resource, verb in ledger.asked}
    assert writes >= {"create pods", "patch pods", "delete pods", "create jobs", "delete jobs", "create workloads"}
