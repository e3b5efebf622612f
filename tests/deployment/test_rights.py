"""The chart grants exactly the rights that the controllers declare, and these suffice."""

import asyncio
from contextlib import AbstractAsyncContextManager
from itertools import combinations
from random import Random
from typing import Any, NamedTuple

import pytest
from structlog.testing import capture_logs

from kcr.api import codec
from kcr.api.batch import Job
from kcr.api.coordination import Lease
from kcr.api.meta import Key
from kcr.app.checks import Finding, Wanted, check_cluster
from kcr.app.plugins import attach, find_plugins
from kcr.app.rbac import LEASE_RIGHTS, SHARDING_RIGHTS, declared_by, with_events_api
from kcr.client import Client
from kcr.controller import policy_rules
from kcr.errors import ApiError
from kcr.manager import Manager
from kcr.scopes.leaderelection import LeaderElectionConfig, LeaderElector
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.charts import NEEDS_HELM, account, collection, documents, install, manifests, of_kind, rights_in
from tests.kit.harness import create, finished, manifest, read
from tools.chart import CONTROLLERS, INSTALL, RIGHTS, rights_by_controller

ALL = {"controllers": list(CONTROLLERS), "takeOver": True}
CHOICES = [names for count in (1, 2, 3) for names in combinations(CONTROLLERS, count)]
GATES = {"GenericWorkload": True, "WorkloadWithJob": True}
GATES_ENVIRON = {"KCR_FEATURE_GATES": ",".join(f"{name}=true" for name in GATES)}
EVERY_MINUTE = {
    "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick", "namespace": "default"},
    "spec": {
        "schedule": "* * * * *",
        "jobTemplate": {"spec": {"ttlSecondsAfterFinished": 30, "template": manifest()["spec"]["template"]}},
    },
}  # fmt: skip


async def declared(names: tuple[str, ...], environ: dict[str, str] | None = None) -> frozenset[Any]:
    return declared_by(find_plugins(names), environ or {}).rights


async def check(
    client: Client,
    clock: VirtualClock,
    names: tuple[str, ...],
    namespace: str = "",
    environ: dict[str, str] | None = None,
) -> Finding:
    wanted = Wanted(await declared(names, environ), namespace, lease=Key("kcr-system", "kcr"))
    found = await check_cluster(client, wanted, clock)
    return next(finding for finding in found if finding.check == "rights")


def running(client: Client, clock: VirtualClock, *, namespace: str = "") -> AbstractAsyncContextManager[Manager]:
    manager = Manager(client, clock=clock, random=Random(1), namespace=namespace)
    attach(find_plugins(CONTROLLERS), manager, {}, take_over=True)
    return manager.running()


def test_rights_in_the_chart_are_those_of_the_code() -> None:
    assert RIGHTS.read_text() == asyncio.run(rights_by_controller()), "run `python -m tools.chart`"


@NEEDS_HELM
@pytest.mark.parametrize("names", CHOICES, ids=",".join)
def test_role_grants_what_the_controllers_declare(names: tuple[str, ...]) -> None:
    found = manifests({"controllers": list(names), "takeOver": True})
    assert rights_in(of_kind(found, "ClusterRole")) == asyncio.run(declared(names))
    assert rights_in(of_kind(found, "Role")) == LEASE_RIGHTS


@NEEDS_HELM
@pytest.mark.parametrize("api", ["events.k8s.io", "auto"])
def test_other_group_of_events_is_granted_and_set(api: str) -> None:
    found = manifests({"eventsApi": api})
    assert rights_in(of_kind(found, "ClusterRole")) == with_events_api(asyncio.run(declared(("job",))), api)
    assert rights_in(of_kind(found, "Role")) == with_events_api(LEASE_RIGHTS, api)
    (deployment,) = of_kind(found, "Deployment")
    assert f"--events-api={api}" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]


@NEEDS_HELM
def test_role_of_a_sharded_program_covers_all_leases() -> None:
    found = manifests({"sharding": {"shards": 8}})
    assert rights_in(of_kind(found, "Role")) == SHARDING_RIGHTS


@NEEDS_HELM
def test_workloads_of_jobs_need_more_rights() -> None:
    found = manifests({"featureGates": GATES})
    assert rights_in(of_kind(found, "ClusterRole")) == asyncio.run(declared(("job",), GATES_ENVIRON))


@NEEDS_HELM
def test_one_namespace_needs_no_right_beside_it() -> None:
    found = manifests({**ALL, "watchNamespace": "team"})
    assert not of_kind(found, "ClusterRole") + of_kind(found, "ClusterRoleBinding")
    by_namespace = {role["metadata"]["namespace"]: rights_in([role]) for role in of_kind(found, "Role")}
    assert by_namespace == {"team": asyncio.run(declared(CONTROLLERS)), "kcr-system": LEASE_RIGHTS}


@NEEDS_HELM
@pytest.mark.kcr_virtual
async def test_protected_metrics_have_the_rights_they_need(kcr_clock: VirtualClock) -> None:
    found = manifests({"metrics": {"secure": True}, "watchNamespace": "default"})
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), authorization="rbac") as cluster:
        await install(cluster.client, found)
        wanted = Wanted(frozenset(), metrics_secure=True)
        for client, is_wrong in ((account(cluster, found), False), (cluster.client_as("other"), True)):
            checks = {finding.check: finding for finding in await check_cluster(client, wanted, kcr_clock)}
            assert checks["rights"].is_wrong is is_wrong
        assert "create tokenreviews.authentication.k8s.io; create subjectaccess" in checks["rights"].text
        bound = {one["roleRef"]["name"] for one in of_kind(found, "ClusterRoleBinding")}
        assert bound == {"kcr-metrics-auth"}, "who reads the metrics is for the administrator to say"


@NEEDS_HELM
@pytest.mark.kcr_virtual
async def test_controllers_work_with_these_rights(kcr_clock: VirtualClock) -> None:
    found = manifests(ALL)
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), authorization="rbac") as cluster:
        await install(cluster.client, found)
        client = account(cluster, found)
        assert not (await check(client, kcr_clock, CONTROLLERS)).is_wrong
        async with running(client, kcr_clock):
            await create(cluster.client, manifest("once", ttlSecondsAfterFinished=30, completions=2))
            await finished(cluster.client, "once")
            await cluster.client.create_manifest(Job, manifest("stays"), "default")
            await cluster.client.request(
                "POST", "/apis/batch/v1/namespaces/default/cronjobs", codec.encode(EVERY_MINUTE)
            )
            await kcr_clock.advance(200)
            names = {job.metadata.name for job in await cluster.client.list(Job, "default")}
        assert "once" not in names, "the TTL controller deletes it"
        assert "stays" in names
        status = await cluster.client.request("GET", "/apis/batch/v1/namespaces/default/cronjobs/tick")
        assert b"lastSuccessfulTime" in status


@NEEDS_HELM
@pytest.mark.kcr_virtual
@pytest.mark.parametrize("namespace", ["", "default", "default,team"], ids=["cluster", "namespace", "two"])
async def test_checks_ask_for_nothing_that_is_not_granted(kcr_clock: VirtualClock, namespace: str) -> None:
    found = manifests({**ALL, "watchNamespaces": list(filter(None, namespace.split(",")))})
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), authorization="rbac") as cluster:
        await install(cluster.client, found)
        wanted = Wanted(await declared(CONTROLLERS), namespace, takes_over=True, lease=Key("kcr-system", "kcr"))
        with capture_logs() as logs:
            findings = await check_cluster(account(cluster, found), wanted, kcr_clock)
        assert not [log for log in logs if log["log_level"] in ("warning", "error")]
        assert not [finding for finding in findings if finding.is_wrong]


@NEEDS_HELM
@pytest.mark.kcr_virtual
async def test_controllers_work_in_their_namespace_only(kcr_clock: VirtualClock) -> None:
    found = manifests({**ALL, "watchNamespace": "default"})
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), authorization="rbac") as cluster:
        await install(cluster.client, found)
        client = account(cluster, found)
        assert not (await check(client, kcr_clock, CONTROLLERS, "default")).is_wrong
        assert (await check(client, kcr_clock, CONTROLLERS)).is_wrong
        async with running(client, kcr_clock, namespace="default"):
            await create(cluster.client, manifest("once"))
            await finished(cluster.client, "once")


@NEEDS_HELM
@pytest.mark.kcr_virtual
async def test_controllers_work_in_each_of_their_namespaces_and_no_other(kcr_clock: VirtualClock) -> None:
    found = manifests({**ALL, "watchNamespaces": ["default", "team"]})
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), authorization="rbac") as cluster:
        await install(cluster.client, found)
        client = account(cluster, found)
        assert not (await check(client, kcr_clock, CONTROLLERS, "default,team")).is_wrong
        lacking = await check(client, kcr_clock, CONTROLLERS, "default,kcr-system")
        assert 'in the namespace "kcr-system"' in lacking.text
        async with running(client, kcr_clock, namespace="default,team"):
            for namespace in ("default", "team", "kcr-system"):
                named = {**manifest("once"), "metadata": {"name": "once", "namespace": namespace}}
                await cluster.client.create_manifest(Job, named, namespace)
            await finished(cluster.client, "once")
            await finished(cluster.client, "once", namespace="team")
            assert (await read(cluster.client, "once", "kcr-system")).status.start_time is None


@pytest.mark.kcr_virtual
async def test_manifests_without_helm_suffice_for_jobs(kcr_clock: VirtualClock) -> None:
    found = documents(INSTALL.read_text())
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), authorization="rbac") as cluster:
        await install(cluster.client, found)
        client = account(cluster, found)
        assert not (await check(client, kcr_clock, ("job",))).is_wrong
        manager = Manager(client, clock=kcr_clock, random=Random(1))
        attach(find_plugins(("job",)), manager, {})
        async with manager.running():
            await create(cluster.client, manifest("once", managedBy="kcr.dev/job-controller"))
            await finished(cluster.client, "once")


@pytest.mark.kcr_virtual
async def test_account_can_be_elected_in_its_namespace(kcr_clock: VirtualClock) -> None:
    found = documents(INSTALL.read_text())
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), authorization="rbac") as cluster:
        await install(cluster.client, found)
        client = account(cluster, found)
        elector = LeaderElector(
            client, LeaderElectionConfig(name="kcr", namespace="kcr-system"), clock=kcr_clock, random=Random(1)
        )
        manager = Manager(client, clock=kcr_clock, random=Random(1), leader_election=elector)
        async with manager.running():
            await asyncio.wait_for(elector.elected.wait(), 30)
        await cluster.client.get(Lease, Key("kcr-system", "kcr"))
        with pytest.raises(ApiError, match="forbidden"):
            await client.get(Lease, Key("default", "kcr"))


class Granted(NamedTuple):
    """A rendering, and the role in it of which one verb after the other is taken away."""

    values: dict[str, Any]
    controllers: tuple[str, ...]
    role: str
    scope: str
    namespace: str = ""
    environ: dict[str, str] = {}


def everywhere(*controllers: str) -> Granted:
    values = {"controllers": list(controllers), "takeOver": True}
    return Granted(values, controllers, "/kcr", "at the cluster scope")


@NEEDS_HELM
@pytest.mark.kcr_virtual
@pytest.mark.parametrize(
    "granted",
    [
        pytest.param(everywhere(*CONTROLLERS), id="all", marks=pytest.mark.soak),
        *(pytest.param(everywhere(name), id=name) for name in CONTROLLERS),
        pytest.param(
            Granted({"featureGates": GATES}, ("job",), "/kcr", "at the cluster scope", environ=GATES_ENVIRON),
            id="workloads",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            Granted({**ALL, "watchNamespace": "team"}, CONTROLLERS, "team/kcr", 'in the namespace "team"', "team"),
            id="one-namespace",
        ),
        pytest.param(
            Granted(ALL, CONTROLLERS, "kcr-system/kcr-leader-election", 'in the namespace "kcr-system"'),
            id="leader-election",
        ),
    ],
)
async def test_each_verb_that_is_missing_is_named(kcr_clock: VirtualClock, granted: Granted) -> None:
    found = manifests(granted.values)
    roles = of_kind(found, "ClusterRole") + of_kind(found, "Role")
    role = next(role for role in roles if full_name(role) == granted.role)
    name = f"{collection(role)}/{role['metadata']['name']}"
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), authorization="rbac") as cluster:
        await install(cluster.client, found)
        client = account(cluster, found)
        rights = sorted(rights_in([role]))
        for lacking in rights:
            group, resource, verb, *_ = lacking
            rules = policy_rules(right for right in rights if right != lacking)
            await cluster.client.request("PUT", name, codec.encode({**role, "rules": rules}))
            finding = await check(client, kcr_clock, granted.controllers, granted.namespace, granted.environ)
            if granted.role.endswith("election") and resource == "events":
                # The ClusterRole grants it everywhere.
                assert not finding.is_wrong
                continue
            which = f"{resource}.{group}" if group else resource
            assert finding.text.startswith(f"cannot {verb} {which} {granted.scope}: grant them"), finding


def full_name(role: dict[str, Any]) -> str:
    return f"{role['metadata'].get('namespace', '')}/{role['metadata']['name']}"
