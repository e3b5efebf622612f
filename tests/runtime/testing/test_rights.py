"""`--kcr-rights`: the least roles of a project's tests, which suffice and have no rule too much; and what lacks."""

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml

# Loaded before the runs of pytest inside pytest, each of which forgets the modules that it has loaded.
import kcr_devcluster.testing.clusters
import kcr_devcluster.testing.rights_report  # noqa: F401  # see above
from kcr_devcluster.yaml_writer import yaml_documents

OPERATOR = """
import kcr
from kcr.api.core import ConfigMap, Pod, Secret
from kcr.api.meta import Object
from kcr.client import Request
from kcr.controller import Right

class ShopSpec(Object):
    text: str = ""

class ShopStatus(Object):
    text: str = ""

class Shop(kcr.Resource, api_version="example.dev/v1", plural="shops"):
    spec: ShopSpec = ShopSpec()
    status: ShopStatus = ShopStatus()

class Reconciler:
    def __init__(self, manager):
        self.client, self.shops, self.recorder = manager.client, manager.store(Shop), manager.recorder("shop")

    async def reconcile(self, key):
        shop = self.shops.get(key)
        if shop is None or shop.status.text:
            return kcr.Result()
        settings = await self.client.get(Secret, kcr.Key("default", "settings"))
        metadata = kcr.ObjectMeta(name=key.name, namespace=key.namespace)
        await self.client.apply(ConfigMap(metadata=metadata, data={"text": shop.spec.text}))
        pods = Request("GET", "/api/v1/namespaces/default/pods", {"Impersonate-User": "auditor"})
        async with self.client.exchange(pods) as response:
            assert response.status == 200, await response.read()
        await self.client.merge_patch(Shop, key, {"status": {"text": shop.spec.text}}, subresource="status")
        self.recorder.event(shop, "Normal", "Opened", "the shop has opened")
        await self.client.request("GET", "/version")
        return kcr.Result()

class Webhook:
    def __init__(self, manager):
        self.client = manager.client

    async def validate_create(self, obj, request):
        if len(await self.client.list(Shop, request.namespace)) > 5:
            raise kcr.Denied("there are enough shops")

RIGHTS = (
    kcr.rights(Secret, "get", names=["settings"])
    | kcr.rights(ConfigMap, "create", "patch")
    | kcr.rights(Shop, "patch", subresource="status")
    | kcr.rights(Shop, "update", subresource="finalizers")
    | {Right("", "users", "impersonate", namespaced=False, name="auditor")}
)

def setup(manager, rights=RIGHTS):
    manager.add_controller("shop", Reconciler(manager), watches=[kcr.watch(Shop)], rights=rights)
    manager.add_webhook(Shop, Webhook(manager))
"""

TESTS = """
import asyncio
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest
import yaml

import kcr
from kcr.api.core import ConfigMap, Event, Secret
from kcr.api.full.rbac_v1 import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from kcr.scopes.leaderelection import LeaderElectionConfig, LeaderElector
from kcr.testing import eventually
from operator_of_shops import RIGHTS, Shop, ShopSpec, setup

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.kcr_cluster(kinds=[Shop], authorization="rbac")]
KEY = kcr.Key("default", "one")

# Without roles the account is the admin's; with them it has these roles, all of their rules or all but one.
ROLES = [*yaml.safe_load_all(Path("roles.yaml").read_text())] if Path("roles.yaml").exists() else []
RULES = [(place, rule) for place, role in enumerate(ROLES) for rule in range(len(role["rules"]))]

def pytest_generate_tests(metafunc):
    metafunc.parametrize("left_out", [None, *RULES], ids=lambda one: f"without-{one}" if one else "all")

ACCOUNT = {"kind": "ServiceAccount", "name": "shop", "namespace": "default"}

async def account(cluster, left_out):
    await grant(cluster, {"kind": "ClusterRole", "metadata": {"name": "auditor"}, "rules": [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]}, {"kind": "User", "name": "auditor"})
    if not ROLES:
        return cluster.client
    for place, role in enumerate(ROLES):
        rules = [rule for number, rule in enumerate(role["rules"]) if (place, number) != left_out]
        await grant(cluster, {**role, "rules": rules}, ACCOUNT)
    return cluster.client_as("system:serviceaccount:default:shop", ("system:serviceaccounts", "system:authenticated"))

async def grant(cluster, role, subject):
    kind, name = role["kind"], role["metadata"]["name"]
    group = {"apiGroup": "rbac.authorization.k8s.io"}
    metadata = {"name": name, **({"namespace": "default"} if kind == "Role" else {})}
    binding = {"metadata": metadata, "roleRef": {**group, "kind": kind, "name": name},
               "subjects": [subject if "namespace" in subject else {**group, **subject}]}
    types = (Role, RoleBinding) if kind == "Role" else (ClusterRole, ClusterRoleBinding)
    await cluster.client.create_manifest(types[0], {**role, "metadata": metadata})
    await cluster.client.create_manifest(types[1], binding)

@asynccontextmanager
async def running(cluster, clock, left_out, **options):
    client = await account(cluster, left_out)
    config = LeaderElectionConfig(name="shops", namespace="default")
    elector = LeaderElector(client, config, clock=clock, random=Random(1))
    manager = kcr.Manager(client, clock=clock, random=Random(1), leader_election=elector)
    setup(manager, **options)
    async with asyncio.timeout(600), manager.running():
        await elector.elected.wait()
        yield

async def open_shop(client):
    await client.create(Secret(metadata=kcr.ObjectMeta(name="settings", namespace="default")))
    metadata = kcr.ObjectMeta(name=KEY.name, namespace=KEY.namespace)
    await client.create(Shop(metadata=metadata, spec=ShopSpec(text="hello")))

async def test_shop_opens(kcr_cluster, kcr_clock, left_out):
    client = kcr_cluster.client
    async with running(kcr_cluster, kcr_clock, left_out):
        await open_shop(client)
        await kcr_clock.advance(60)
        assert (await client.get(Shop, KEY)).status.text == "hello"

async def test_text_is_copied_and_the_event_written(kcr_cluster, kcr_clock, left_out):
    client = kcr_cluster.client
    async with running(kcr_cluster, kcr_clock, left_out):
        await open_shop(client)
        await kcr_clock.advance(300)
        assert (await client.get(ConfigMap, KEY)).data == {"text": "hello"}
        assert [one.reason for one in await client.list(Event, "default") if one.reason == "Opened"]
"""
LACKING = """
async def test_less_is_declared(kcr_cluster, kcr_clock, left_out):
    lacking = kcr.rights(ConfigMap, "create", "patch") | kcr.rights(Secret, "get", names=["settings"])
    rights = RIGHTS - lacking | kcr.rights(Secret, "get", names=["others"]) | kcr.rights(ConfigMap, "delete")
    async with running(kcr_cluster, kcr_clock, left_out, rights=rights):
        await open_shop(kcr_cluster.client)
        await kcr_clock.advance(60)
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makepyfile(operator_of_shops=OPERATOR, test_shops=TESTS)
    return pytester


def run(project: pytest.Pytester, *options: str) -> pytest.RunResult:
    return project.runpytest_inprocess("-p", "no:cacheprovider", *options)


def roles_in(result: pytest.RunResult) -> list[dict[str, Any]]:
    """The roles that a run has printed."""
    text = "\n".join(result.outlines)
    found = re.search(r"^the least roles.*\n((?:.*\n)*?)(?=declared, and|used, and|=)", text, re.MULTILINE)
    assert found is not None, text
    return list(yaml.safe_load_all(found[1]))


EXPECTED: list[dict[str, Any]] = [
    {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "kcr"},
        "rules": [
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "patch"]},
            {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
            {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["settings"], "verbs": ["get"]},
            {"apiGroups": [""], "resources": ["users"], "resourceNames": ["auditor"], "verbs": ["impersonate"]},
            {"apiGroups": ["example.dev"], "resources": ["shops"], "verbs": ["list", "watch"]},
            {"apiGroups": ["example.dev"], "resources": ["shops/status"], "verbs": ["patch"]},
        ],
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "kcr-leader-election", "namespace": "default"},
        "rules": [
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
            {
                "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["shops"],
                "verbs": ["get", "update"],
            },
        ],
    },
]  # fmt: skip


@pytest.mark.timeout(180)
def test_tests_pass_under_the_printed_roles_and_each_rule_left_out_fails_one(project: pytest.Pytester) -> None:
    first = run(project, "--kcr-rights")
    first.assert_outcomes(passed=2)
    roles = roles_in(first)
    assert roles == EXPECTED
    Path(project.path, "roles.yaml").write_text(yaml_documents(roles))
    second = run(project, "-v")
    outcomes: dict[str, set[str]] = defaultdict(set)
    for name, outcome in re.findall(
        r"^test_shops.py::\w+\[(.*)\] (PASSED|FAILED|ERROR)", str(second.stdout), re.MULTILINE
    ):
        outcomes[name].add(outcome)
    assert outcomes.pop("all") == {"PASSED"}
    assert len(outcomes) == sum(len(role["rules"]) for role in roles)
    assert [name for name, found in outcomes.items() if "FAILED" not in found] == []


@pytest.mark.timeout(180)
def test_right_that_is_not_declared_fails_the_session_and_is_named(project: pytest.Pytester) -> None:
    with Path(project.path, "test_shops.py").open("a") as file:
        file.write(LACKING)
    result = run(project, "--kcr-rights")
    result.assert_outcomes(passed=3)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([
        "declared, and never used:",
        "  delete configmaps",
        "  patch events",
        "  get secrets others",
        "used, and not declared, which fails the session:",
        "  test_shops.py::test_less_is_declared[[]all]: controller shop: create configmaps",
        "  test_shops.py::test_less_is_declared[[]all]: controller shop: patch configmaps",
        "  test_shops.py::test_less_is_declared[[]all]: controller shop: get secrets settings",
        "declare them with manager.add_controller(*",
    ])  # fmt: skip


@pytest.mark.timeout(180)
@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.soak)])
def test_workers_of_xdist_hand_in_what_they_have_seen(project: pytest.Pytester, workers: str) -> None:
    with Path(project.path, "test_shops.py").open("a") as file:
        file.write(LACKING)
    result = run(project, "--kcr-rights", "-n", workers)
    result.assert_outcomes(passed=3)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*test_shops.py::test_less_is_declared[[]all]: controller shop: create configmaps"])
    (role, election) = roles_in(result)
    assert election == EXPECTED[1]
    assert role["rules"][-2:] == EXPECTED[0]["rules"][-2:]


def test_session_without_a_manager_passes_and_says_so(project: pytest.Pytester) -> None:
    project.makepyfile(test_shops="def test_nothing(): pass")
    result = run(project, "--kcr-rights")
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*kcr rights*", "no manager has sent a request"])
