"""The generated role is all that the controllers need."""

from random import Random
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from kcr.api.batch import CronJob, Job
from kcr.api.core import Pod
from kcr.api.meta import Key, controller_reference
from kcr.api.scheduling import BetaPodGroup, BetaWorkload
from kcr.app.plugins import find_plugins
from kcr.app.rbac import declared_by
from kcr.controller import Right
from kcr.errors import BadRequestError, ForbiddenError
from kcr.feature_gates import read_gates
from kcr.testing import FaultyTransport, VirtualClock
from kcr_devcluster.apiserver.authentication.users import user_named
from kcr_devcluster.cluster import EmbeddedCluster, InProcessTransport
from kcr_devcluster.cluster.node import RunResult
from kcr_devcluster.generators.roles import rbac_manifests
from tests.kit import cronjob_harness, harness
from tests.kit.api import Api
from tests.kit.harness import ttl_controller

pytestmark = pytest.mark.kcr_virtual

GATES = "GenericWorkload=true,WorkloadWithJob=true"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def rights() -> frozenset[Right]:
    return declared_by(find_plugins(("job", "ttl", "cronjob")), {"KCR_FEATURE_GATES": GATES}).rights


# Asked by the API server's own admission.
NEVER_ASKED = {
    Right("batch", "jobs/finalizers", "update"),
    Right("batch", "cronjobs/finalizers", "update"),
}


def asked(transport: FaultyTransport) -> set[Right]:
    return {
        Right(call.resource[0], "/".join(filter(None, (call.resource[2], call.subresource))), call.verb)
        for call in transport.calls
        if call.resource[2]  # discovery needs no right of this role
    }


async def test_missing_right_is_logged_at_its_first_refusal(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    words = (
        'pods is forbidden: User "system:serviceaccount:kcr:kcr" cannot create resource "pods" in API group "" in the '
        'namespace "default"'
    )
    faults = FaultyTransport(kcr_cluster.transport)
    faults.on("create", Pod).fail(ForbiddenError(403, "Forbidden", words))
    with capture_logs() as logs:
        async with harness.job_controller(kcr_cluster, kcr_clock, transport=faults):
            for name in ("a", "b"):
                await harness.create(kcr_cluster.client, harness.manifest(name))
            await kcr_clock.advance(600)
    (line,) = [line for line in logs if line["event"] == "permission is missing"]
    assert (line["log_level"], line["verb"], line["resource"], line["group"]) == ("error", "create", "pods", "")
    assert line["error"] == words
    assert "ClusterRole" in line["remedy"]


async def test_quota_is_no_missing_right(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    words = 'pods "pi-x" is forbidden: exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1'
    faults = FaultyTransport(kcr_cluster.transport)
    faults.on("create", Pod).fail(ForbiddenError(403, "Forbidden", words))
    with capture_logs() as logs:
        async with harness.job_controller(kcr_cluster, kcr_clock, transport=faults):
            await harness.create(kcr_cluster.client, harness.manifest())
            await kcr_clock.advance(60)
    assert [line for line in logs if line["event"] == "permission is missing"] == []


async def test_generated_role_suffices_and_has_no_more(kcr_clock: VirtualClock) -> None:
    def runs(pod: object, container: str, attempt: int) -> RunResult:
        return RunResult(run_for={"long": 70, "lasting": 1000}.get(container, 1))

    async with EmbeddedCluster(
        clock=kcr_clock, random=Random(0), gangs=True, kubernetes_version="1.37", on_run=runs, authorization="rbac"
    ) as cluster:
        client, api = cluster.client, Api(cluster.server)
        manifests = rbac_manifests(rights(), name="kcr", account=Key("kcr", "kcr"), namespace="", elects=False)
        _, role, bound = manifests
        await api.post(f"{RBAC}/clusterroles", role)
        await api.post(f"{RBAC}/clusterrolebindings", bound)
        # Who lacks a right is refused.
        account = user_named("system:serviceaccount:kcr:kcr")
        transport = FaultyTransport(InProcessTransport(cluster.server, account))
        for kind in (Job, Pod, CronJob, BetaWorkload, BetaPodGroup):
            # A server without WatchList is listed; a lost reply is looked for, and so is what a store may miss.
            transport.on("watch", kind, nth=1).fail(BadRequestError)
            transport.on("create", kind, nth=1).lose_reply("silence")
        transport.on("patch", CronJob, nth=1).lose_reply("silence")
        # What was created without a reply is created again, and then read, before its watch shows it.
        for kind, lag in ((BetaWorkload, 20), (BetaPodGroup, 90)):
            transport.on("watch", kind).lag(lag)
        async with (
            harness.job_controller(cluster, kcr_clock, transport=transport, feature_gates=read_gates(GATES)),
            ttl_controller(cluster, kcr_clock, transport=transport),
            cronjob_harness.cronjob_controller(cluster, kcr_clock, transport=transport),
        ):
            await api.post("/api/v1/namespaces", {"metadata": {"name": "poor"}})
            quota = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
            await api.post("/api/v1/namespaces/poor/resourcequotas", quota)
            refused = harness.manifest("refused")
            refused["metadata"]["namespace"] = "poor"
            await client.create_manifest(Job, refused, "poor")
            alike = {"completionMode": "Indexed", "completions": 2, "parallelism": 2}
            long = [{"name": "long", "image": "busybox"}]
            lasting = [{"name": "lasting", "image": "busybox"}]
            policy: dict[str, Any] = {"schedulingPolicy": {"gang": {}}}
            gang = await harness.create(
                client, harness.manifest("gang", containers=lasting, scheduling=policy, **alike)
            )
            await harness.create(client, harness.manifest("brief", ttlSecondsAfterFinished=1))
            stopped = await harness.create(client, harness.manifest("stopped", containers=long))
            left = await harness.create(client, harness.manifest("left", containers=long))
            cron = cronjob_harness.manifest("cron", concurrencyPolicy="Replace", successfulJobsHistoryLimit=0)
            cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"] = long
            made = await cronjob_harness.create(client, cron)
            # As `kubectl create job --from` makes one: of the CronJob, but none of its runs.
            by_hand = harness.manifest("by-hand")
            by_hand["metadata"]["ownerReferences"] = [msgspec.to_builtins(controller_reference(made))]
            await harness.create(client, by_hand)
            await kcr_clock.advance(5)
            await client.merge_patch(Job, stopped.key, {"spec": {"suspend": True}})
            await client.delete(Job, left.key, propagation="Orphan")
            await kcr_clock.advance(150)
            await client.merge_patch(Job, gang.key, {"spec": {"parallelism": 1, "completions": 1}})
            await kcr_clock.advance(250)
            await client.merge_patch(Job, gang.key, {"spec": {"suspend": True}})
            await kcr_clock.advance(250)
    assert asked(transport) - rights() == set()
    assert rights() - asked(transport) == NEVER_ASKED
