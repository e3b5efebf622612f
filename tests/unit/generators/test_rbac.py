"""What `kcr rbac generate` writes for controllers of one's own, and what it says of those that declare too little."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from kcr.cli.main import exit_code_of

PROGRAM = """
import kcr
from kcr.api.core import ConfigMap, Namespace

class Idle:
    async def reconcile(self, key):
        return kcr.Result()

def declares(manager):
    wanted = kcr.rights(ConfigMap, "create")
    manager.add_controller("declares", Idle(), watches=[kcr.watch(Namespace)], rights=wanted)

class Hook:
    def default(self, obj, request): ...

def limits(manager):
    manager.add_controller("limits", Idle(), watches=[], rights=kcr.rights(ConfigMap, "get", names=["settings"]))

def serves(manager):
    declares(manager)
    manager.add_webhook(Namespace, Hook())

def records(manager):
    manager.recorder("records")
    declares(manager)

def reads(manager):
    manager.add_controller("reads", Idle(), watches=[kcr.watch(ConfigMap)])
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "idle_controllers.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_role_grants_what_all_setups_declare(capsys: pytest.CaptureFixture[str]) -> None:
    named = "idle_controllers:declares,idle_controllers:reads"
    assert exit_code_of(["rbac", "generate", "--controllers", named]) == 0
    _, role, _ = yaml.safe_load_all(capsys.readouterr().out)
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch", "create"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list", "watch"]},
    ]


def test_role_is_limited_to_declared_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["rbac", "generate", "--controllers", "idle_controllers:limits"]) == 0
    _, role, _ = yaml.safe_load_all(capsys.readouterr().out)
    named = {"resources": ["configmaps"], "resourceNames": ["settings"], "verbs": ["get"]}
    assert role["rules"] == [{"apiGroups": [""], **named}]


def test_setup_that_declares_no_requests_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    named = "idle_controllers:declares,idle_controllers:reads"
    assert exit_code_of(["rbac", "generate", "--controllers", named]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("kcr: controller 'idle_controllers:reads': no requests are declared beside what is watched")


def written(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, list[dict[str, Any]]]:
    """The rules of the roles, by kind, namespace and name, and whether they are bound."""
    assert exit_code_of(["rbac", "generate", "--controllers", "idle_controllers:declares", *options]) == 0
    found = list(yaml.safe_load_all(capsys.readouterr().out))
    bound = {(one["roleRef"]["kind"], one["metadata"].get("namespace"), one["roleRef"]["name"])
             for one in found if "roleRef" in one}  # fmt: skip
    rules = {}
    for one in found:
        if "rules" in one:
            metadata = one["metadata"]
            is_bound = (one["kind"], metadata.get("namespace"), metadata["name"]) in bound
            name = "/".join((metadata.get("namespace", ""), metadata["name"]))
            rules[f"{one['kind']} {name}{'' if is_bound else ' unbound'}"] = one["rules"]
    return rules


def test_kind_outside_of_namespaces_needs_a_cluster_role(capsys: pytest.CaptureFixture[str]) -> None:
    # A Role grants nothing on them.
    assert written(capsys, "--namespace", "team") == {
        "Role team/kcr": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}],
        "ClusterRole /kcr": [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list", "watch"]}],
    }


def test_changing_namespaces_have_a_cluster_role_to_be_bound_in_each(capsys: pytest.CaptureFixture[str]) -> None:
    named = ["--controllers", "idle_controllers:reads", "--service-account", "ops/site", "--name", "site"]
    assert exit_code_of(["rbac", "generate", "--namespace-selector", *named]) == 0
    told = capsys.readouterr()
    found = list(yaml.safe_load_all(told.out))
    rules = {one["metadata"]["name"]: one["rules"] for one in found if one["kind"] == "ClusterRole"}
    assert rules == {
        "site": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}],
        "site-cluster": [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list", "watch"]}],
    }
    assert [one["roleRef"]["name"] for one in found if "roleRef" in one] == ["site-cluster"]
    assert told.err.splitlines()[-1] == (
        "kcr: in each namespace to work in: "
        "kubectl create rolebinding site --clusterrole=site --serviceaccount=ops:site -n NAMESPACE"
    )


def test_changing_namespaces_have_no_names(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--controllers", "idle_controllers:reads", "--namespace", "a", "--namespace-selector"]
    assert exit_code_of(["rbac", "generate", *arguments]) == 2
    assert "leave --namespace away" in capsys.readouterr().err


def test_protected_metrics_need_reviews_and_a_role_for_readers(capsys: pytest.CaptureFixture[str]) -> None:
    found = written(capsys, "--namespace", "team", "--metrics-secure")
    assert found["ClusterRole /kcr-metrics-auth"] == [
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
        {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
    ]
    assert found["ClusterRole /kcr-metrics-reader unbound"] == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]


def test_certificates_of_webhooks_need_a_secret_and_the_configurations(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--controllers", "idle_controllers:serves", "--service-account", "web/site", "--name", "site"]
    assert exit_code_of(["rbac", "generate", *arguments, "--webhook-certificates"]) == 0
    found = {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(capsys.readouterr().out)}
    role, cluster_role = found["Role", "site-webhooks"], found["ClusterRole", "site-webhooks"]
    assert role["metadata"]["namespace"] == "web"
    assert [rule["resources"] for rule in role["rules"]] == [["secrets"]]
    assert [rule["resources"] for rule in cluster_role["rules"]] == [
        ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]
    ]
    assert found["RoleBinding", "site-webhooks"]["subjects"][0]["name"] == "site"


def test_certificates_need_no_rights_without_webhooks(capsys: pytest.CaptureFixture[str]) -> None:
    assert not [name for name in written(capsys, "--webhook-certificates") if "-webhooks" in name]


def test_leases_of_sharding_are_granted_without_names(capsys: pytest.CaptureFixture[str]) -> None:
    found = written(capsys, "--shards", "--service-account", "ops/kcr")
    (rules,) = [rules for name, rules in found.items() if "sharding" in name]
    verbs = ["get", "list", "watch", "create", "update", "delete"]
    assert rules == [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs}]


@pytest.mark.parametrize(
    ("options", "groups"),
    [
        pytest.param([], [""], id="core"),
        pytest.param(["--events-api", "events.k8s.io"], ["", "events.k8s.io"], id="new"),
        pytest.param(["--events-api", "auto"], ["", "events.k8s.io"], id="auto"),
    ],
)
def test_events_are_granted_in_the_chosen_group(
    capsys: pytest.CaptureFixture[str], options: list[str], groups: list[str]
) -> None:
    arguments = ["--controllers", "idle_controllers:records", "--leader-elect", *options]
    assert exit_code_of(["rbac", "generate", *arguments]) == 0
    roles = [one for one in yaml.safe_load_all(capsys.readouterr().out) if "rules" in one]
    for role in roles:
        found = [rule for rule in role["rules"] if "events" in rule["resources"]]
        assert [rule["apiGroups"] for rule in found] == [[group] for group in groups], role["metadata"]["name"]
        assert all(rule["verbs"] == ["create", "patch"] for rule in found)


def test_program_without_a_recorder_gets_no_events(capsys: pytest.CaptureFixture[str]) -> None:
    rules = written(capsys, "--events-api", "events.k8s.io")["ClusterRole /kcr"]
    assert not [rule for rule in rules if "events" in rule["resources"]]


def test_setups_are_named_as_arguments_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["rbac", "generate", "idle_controllers:declares", "idle_controllers:reads"]) == 0
    told = capsys.readouterr().out
    named = "idle_controllers:declares,idle_controllers:reads"
    assert exit_code_of(["rbac", "generate", "--controllers", named]) == 0
    assert capsys.readouterr().out == told


def test_namespace_of_the_account_comes_first_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    account = ["--service-account", "web/operator", "--create-namespace"]
    assert exit_code_of(["rbac", "generate", "idle_controllers:declares", *account]) == 0
    namespace, account_made, *_ = yaml.safe_load_all(capsys.readouterr().out)
    assert namespace == {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}}
    assert account_made["metadata"] == {"name": "operator", "namespace": "web"}
