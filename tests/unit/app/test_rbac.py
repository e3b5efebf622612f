"""Which rights a program has: by a list of rules where that is complete, else one by one; the answers are the same."""

from collections.abc import AsyncIterator
from random import Random
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from kcr.api.coordination import Lease
from kcr.api.core import ConfigMap, Node, Pod
from kcr.app.rbac import REVIEWS, RULES_REVIEWS, Need, Permissions
from kcr.client import Client, Request
from kcr.controller import Right, rights
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster, InProcessTransport
from tests.kit.api import Api, binding, role
from tests.kit.scripted_transport import Say, Script, failure
from tests.kit.transports import ObservedTransport

pytestmark = pytest.mark.kcr_virtual

RBAC = "/apis/rbac.authorization.k8s.io/v1"
PODS = sorted(rights(Pod, "get", "list", "watch", "patch"))
NODES = sorted(rights(Node, "get", "list", "watch"))


class Operator:
    """A user, what the admin grants him, and the reviews that he sends."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.admin = Api(cluster.server)
        self.sent: list[str] = []
        inner = InProcessTransport(cluster.server, self.admin.as_user("operator").user)
        self.permissions = Permissions(Client(ObservedTransport(inner, before=self._note)))

    async def _note(self, request: Request) -> None:
        self.sent.append(request.target)

    async def grant(self, verbs: str, *resources: str, namespace: str = "", **rule: Any) -> None:
        kind, place = ("Role", f"namespaces/{namespace}/role") if namespace else ("ClusterRole", "clusterrole")
        path = f"{RBAC}/{place}"
        name = f"r{len(resources)}{verbs.replace(' ', '')}".replace("*", "all")
        await self.admin.post(f"{path}s", role(name, verbs, *resources, **rule))
        await self.admin.post(f"{path}bindings", binding(name, kind, name, "User:operator"))

    async def ask(self, needs: list[Right], namespace: str = "") -> list[bool | None]:
        return [*(await self.permissions.ask(Need.of(right, namespace) for right in needs)).values()]


@pytest_asyncio.fixture
async def operator(kcr_clock: VirtualClock) -> AsyncIterator[Operator]:
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), runtime=None, authorization="rbac") as cluster:
        yield Operator(cluster)


async def test_complete_list_of_rules_is_one_request(operator: Operator) -> None:
    await operator.grant("get list watch patch", "pods")
    assert await operator.ask(PODS) == [True] * 4
    assert operator.sent == [RULES_REVIEWS]


async def test_right_that_a_list_lacks_is_asked_for(operator: Operator) -> None:
    await operator.grant("list watch", "pods")
    assert await operator.ask(PODS) == [False, True, False, True], "get and patch are missing"
    assert operator.sent == [RULES_REVIEWS, REVIEWS, REVIEWS]


async def test_right_in_a_namespace_is_none_at_the_cluster_scope(operator: Operator) -> None:
    await operator.grant("*", "pods", namespace="default")
    assert await operator.ask(PODS) == [False] * 4
    assert await operator.ask(PODS, "default") == [True] * 4


async def test_role_of_a_namespace_grants_nothing_outside_of_namespaces(operator: Operator) -> None:
    await operator.grant("*", "nodes", namespace="default")
    assert await operator.ask(NODES, "default") == [False] * 3
    await operator.grant("*", "nodes")
    fresh = Permissions(Client(InProcessTransport(operator.admin.server, operator.admin.as_user("operator").user)))
    assert all((await fresh.ask(Need.of(right, "default") for right in NODES)).values())


@pytest.mark.parametrize(
    ("resources", "rule", "granted"),
    [
        pytest.param(["*"], {"apiGroups": ["*"]}, "get list scale", id="everything"),
        pytest.param(["*"], {}, "get list", id="core-group"),
        pytest.param(["*/scale"], {"apiGroups": ["apps"]}, "scale", id="one-subresource"),
        pytest.param(["pods"], {"resourceNames": ["one"]}, "", id="one-object"),
        pytest.param(["deployments"], {"apiGroups": ["apps"]}, "", id="without-subresources"),
    ],
)
async def test_rules_grant_what_the_server_grants(
    operator: Operator, resources: list[str], rule: dict[str, Any], granted: str
) -> None:
    await operator.grant("*", *resources, **rule)
    wanted = {
        "get": Right("", "pods", "get"), "list": Right("", "pods", "list"),
        "scale": Right("apps", "deployments/scale", "update"),
    }  # fmt: skip
    answers = dict(zip(wanted, await operator.ask([*wanted.values()]), strict=True))
    assert " ".join(name for name, answer in answers.items() if answer) == granted
    # The rights of the list are not asked for again, and all others are: the server has the last word.
    assert operator.sent.count(REVIEWS) == 3 - len(granted.split())


async def test_right_is_asked_for_once(operator: Operator) -> None:
    await operator.grant("list watch", "pods")
    first = await operator.ask(PODS)
    asked = len(operator.sent)
    assert await operator.ask(PODS) == first
    assert len(operator.sent) == asked


RULE = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param(Say({"status": {"resourceRules": [RULE], "incomplete": True}}, status=201), id="webhook"),
        pytest.param(Say({"status": {"resourceRules": [RULE]}}, status=201), id="does-not-tell"),
        pytest.param(failure(403, "Forbidden"), id="forbidden"),
        pytest.param(failure(404, "NotFound"), id="unknown"),
        pytest.param(Say(b"<html>"), id="no-review"),
    ],
)
async def test_incomplete_list_of_rules_tells_nothing(rules: Say) -> None:
    script = Script(
        rules, *[Say({"status": {"allowed": allowed}}, status=201) for allowed in (True, False, True, True)]
    )
    answers = await Permissions(Client(script)).ask(Need(right) for right in PODS)
    assert [*answers.values()] == [True, False, True, True]
    assert script.targets == [RULES_REVIEWS] + [REVIEWS] * 4


async def test_scopes_are_listed_each_by_itself() -> None:
    rules = Say({"status": {"resourceRules": [RULE], "incomplete": False}}, status=201)
    script = Script(rules, rules)
    election = sorted(rights(Lease, "get", "create", "update"))
    needs = [Need(right) for right in PODS] + [Need(right, "ops") for right in election]
    assert all((await Permissions(Client(script)).ask(needs)).values())
    asked = [msgspec.json.decode(request.body)["spec"] for request in script.requests]
    assert asked == [{"namespace": "-"}, {"namespace": "ops"}]


async def test_few_rights_need_no_list() -> None:
    script = Script(Say({"status": {"allowed": True}}), failure(404, "NotFound"))
    answers = await Permissions(Client(script)).ask(Need(right) for right in sorted(rights(ConfigMap, "get", "list")))
    assert [*answers.values()] == [True, None]
    assert script.targets == [REVIEWS, REVIEWS]


@pytest.mark.parametrize("others", [0, 3], ids=["asked-one-by-one", "listed"])
async def test_role_that_names_an_object_grants_a_right_on_it_alone(operator: Operator, others: int) -> None:
    # As a role for one Lease does.
    await operator.grant("get update", "configmaps", namespace="default", resourceNames=["mine"])
    (get,) = rights(ConfigMap, "get")
    needs = [Need(get, "default", "mine"), Need(get, "default", "other"), Need(get, "default")]
    more = [Need(right, "default") for right in PODS[:others]]
    answers = await operator.permissions.ask([*needs[: 3 if others else 2], *more])
    assert [answers[need] for need in needs[:2]] == [True, False]
    assert not answers.get(needs[2])
