"""Which rights a request needs, which role has them, and whether they are declared."""

import pytest
from structlog.contextvars import bound_contextvars

import kcr
from kcr.api.coordination import Lease
from kcr.api.core import ConfigMap, Secret
from kcr.client import Request
from kcr.client.context import writing
from kcr.controller import Right, policy_rules
from kcr.scopes.leaderelection import LeaderElectionConfig, LeaderElector
from kcr.serving.webhooks.authority import ServingSecret
from kcr.testing import FakeManager, FakeSource, VirtualClock
from kcr_devcluster.testing.rights import RightsInUse, spoken

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


class Idle:
    """Does nothing."""

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        return kcr.Result()


def manager_of(*rights: Right, namespace: str = "") -> kcr.Manager:
    manager = kcr.Manager(kcr.Client(FakeSource(ConfigMap)), namespace=namespace)
    manager.add_controller("idle", Idle(), watches=[], rights=frozenset(rights))
    return manager


def in_use(manager: kcr.Manager, *sent: tuple[Request, int]) -> RightsInUse:
    """What is known after a manager has sent requests, with the codes of their answers."""
    found = RightsInUse()
    with writing(manager=manager):
        for request, code in sent:
            found.answered(request, code, 0.0)
    return found


def used(method: str, target: str, code: int = 200, **headers: str) -> list[str]:
    """The rights that one request needs, in words."""
    request = Request(method, target, {name.replace("_", "-"): value for name, value in headers.items()})
    return sorted(spoken(right) for _, right in in_use(manager_of(), (request, code)).used)


@pytest.mark.parametrize(
    ("method", "target", "code", "expected"),
    [
        pytest.param("GET", CONFIG_MAPS, 200, ["list configmaps"], id="list"),
        pytest.param("GET", f"{CONFIG_MAPS}?watch=true", 200, ["watch configmaps"], id="watch"),
        pytest.param("DELETE", CONFIG_MAPS, 200, ["deletecollection configmaps"], id="collection"),
        pytest.param("PATCH", f"{CONFIG_MAPS}/a", 200, ["patch configmaps"], id="patch"),
        pytest.param("PATCH", f"{CONFIG_MAPS}/a", 201, ["create configmaps", "patch configmaps"], id="apply-creates"),
        pytest.param("PUT", f"{CONFIG_MAPS}/a", 201, ["create configmaps", "update configmaps"], id="put-creates"),
        pytest.param("PATCH", f"{CONFIG_MAPS}/a", 0, ["patch configmaps"], id="no-answer"),
        pytest.param(
            "PATCH", "/apis/batch/v1/namespaces/a/jobs/b/status", 200, ["patch jobs.batch/status"], id="status"
        ),
        pytest.param("POST", "/api/v1/namespaces/a/pods/b/eviction", 201, ["create pods/eviction"], id="subresource"),
        pytest.param("GET", "/apis/batch/v1", 200, [], id="discovery"),
        pytest.param("GET", "/version", 200, [], id="version"),
        pytest.param("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", 201, [], id="self-review"),
        pytest.param("GET", "/metrics", 200, ["get /metrics"], id="path"),
    ],
)
def test_request_needs_the_rights_that_the_server_checks(
    method: str, target: str, code: int, expected: list[str]
) -> None:
    assert used(method, target, code) == expected


def test_impersonation_needs_rights_on_the_user_in_place_of_those_of_the_request() -> None:
    assert used("DELETE", f"{CONFIG_MAPS}/a", impersonate_user="ann", impersonate_uid="1", impersonate_group="ops") == [
        "impersonate groups ops", "impersonate uids.authentication.k8s.io 1", "impersonate users ann",
    ]  # fmt: skip
    assert used(
        "GET", CONFIG_MAPS, impersonate_user="system:serviceaccount:team:web", impersonate_extra_scopes="view"
    ) == ["impersonate serviceaccounts web", "impersonate userextras.authentication.k8s.io/scopes view"]
    assert used("GET", CONFIG_MAPS, impersonate_group="ops") == [], "the server refuses it"


def test_role_of_a_program_with_namespaces_has_none_of_its_own() -> None:
    requests = [(Request("PATCH", f"{CONFIG_MAPS}/a"), 200), (Request("GET", "/api/v1/nodes?watch=true"), 200)]
    cluster_wide, role = in_use(manager_of(namespace="default"), *requests).roles("web")
    assert (cluster_wide["kind"], role["kind"], role["metadata"]) == ("ClusterRole", "Role", {"name": "web"})
    assert cluster_wide["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}]
    assert role["rules"] == [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]}]


def test_right_that_a_cluster_role_has_is_in_no_role_beside_it() -> None:
    requests = [(Request("PATCH", f"{CONFIG_MAPS}/a"), 200), (Request("GET", "/metrics"), 200)]
    found = in_use(manager_of(), *requests)
    found.used |= in_use(manager_of(namespace="default"), *requests).used
    (role,) = found.roles("web")
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]},
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
    ]


def test_declared_name_is_kept_and_another_name_lacks() -> None:
    manager = manager_of(*kcr.rights(Secret, "get", names=["tls", "token"]))
    secrets = "/api/v1/namespaces/default/secrets"
    found = in_use(manager, *((Request("GET", f"{secrets}/{name}"), 200) for name in ("tls", "other")))
    assert [spoken(one.right) for one in found.lacking.values()] == ["get secrets other"]
    assert [spoken(one) for one in found.never_used()] == ["get secrets token"]
    (role,) = found.roles("web")
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["other", "tls"], "verbs": ["get"]}
    ]


def test_declared_right_that_no_request_shows_is_listed_but_for_lists_and_finalizers() -> None:
    wanted = kcr.rights(ConfigMap, "list", "watch", "delete") | kcr.rights(
        ConfigMap, "update", subresource="finalizers"
    )
    found = in_use(manager_of(*wanted), (Request("GET", f"{CONFIG_MAPS}?watch=1"), 200))
    assert [spoken(one) for one in found.never_used()] == ["delete configmaps"]
    assert found.lacking == {}


@pytest.mark.kcr_virtual
async def test_leader_election_has_a_role_in_the_namespace_of_its_lease(kcr_clock: VirtualClock) -> None:
    client, config = kcr.Client(FakeSource(ConfigMap)), LeaderElectionConfig(name="web", namespace="ops")
    elector = LeaderElector(client, config, clock=kcr_clock, random=FakeManager().random)
    manager = kcr.Manager(client, leader_election=elector)
    leases = "/apis/coordination.k8s.io/v1/namespaces/ops/leases"
    requests = [
        Request("POST", leases),
        Request("PUT", f"{leases}/web"),
        Request("POST", "/api/v1/namespaces/ops/events"),
    ]
    found = in_use(manager, *((request, 200) for request in requests))
    (role,) = found.roles("web")
    assert role["metadata"] == {"name": "web-leader-election", "namespace": "ops"}
    assert [rule.get("resourceNames") for rule in role["rules"]] == [None, None, ["web"]]
    assert found.lacking == {}
    assert [spoken(one) for one in found.never_used()] == ["patch events", "get leases.coordination.k8s.io"]


def test_certificates_and_protected_metrics_are_declared_by_kcr_itself() -> None:
    manager = manager_of()
    manager.select(kcr.Selection(ServingSecret, "ops", fields="metadata.name=web"))
    manager.informer(ServingSecret)
    requests = [Request("PUT", "/api/v1/namespaces/ops/secrets/web")]
    requests += [Request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", component="metrics")]
    assert in_use(manager, *((request, 200) for request in requests)).lacking == {}
    assert len(in_use(manager_of(), *((request, 200) for request in requests)).lacking) == 1, "the Secret"
    with bound_contextvars(controller="idle", namespace="default", name="a", reconcile_id="1"):
        assert len(in_use(manager, *((request, 200) for request in requests)).lacking) == 2, "those of a reconcile"


def test_fake_managers_and_managers_of_the_cluster_are_no_programs_under_test() -> None:
    of_cluster = kcr.Manager(kcr.Client(FakeSource(ConfigMap)).with_options(field_manager="kcr-cluster"))
    for manager in (FakeManager(), of_cluster):
        assert in_use(manager, (Request("GET", CONFIG_MAPS), 200)).used == set()


def test_rules_have_names_and_verbs_of_other_resources() -> None:
    wanted = kcr.rights(Secret, "get", names=["b", "a"]) | kcr.rights(Lease, "get", "watch", names=["a"])
    wanted |= kcr.rights(Lease, "get", "watch") | {Right("", "users", "impersonate", name="ann")}
    assert policy_rules(wanted) == [
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a", "b"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["users"], "resourceNames": ["ann"], "verbs": ["impersonate"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "watch"]},
    ]
