"""The real kubectl on roles and rights: `kcr dev --authorization rbac` (api-server §28)."""

import shlex
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from tests.e2e.kubectl import NEEDS_KUBECTL, Kubectl
from tests.e2e.processes import Serve

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio, NEEDS_KUBECTL]

RBAC = "rbac.authorization.k8s.io"
RECONCILED = f"""
apiVersion: {RBAC}/v1
kind: Role
metadata: {{name: reader, namespace: default}}
rules: [{{apiGroups: [""], resources: [configmaps], verbs: [create]}}]
---
apiVersion: {RBAC}/v1
kind: RoleBinding
metadata: {{name: builder-reads, namespace: default}}
roleRef: {{apiGroup: {RBAC}, kind: Role, name: reader}}
subjects: [{{apiGroup: {RBAC}, kind: User, name: alice}}]
"""
REVIEW = """
apiVersion: authorization.k8s.io/v1
kind: SubjectAccessReview
spec:
  user: system:serviceaccount:default:builder
  resourceAttributes: {namespace: default, verb: watch, resource: pods, subresource: log}
"""


class Users(Kubectl):
    """kubectl as the admin, and the kubeconfigs of service accounts."""

    def __init__(self, kubeconfig: Path, environment: Mapping[str, str]) -> None:
        super().__init__(kubeconfig, environment)
        self._config, self._env = kubeconfig, environment

    async def account(self, name: str, folder: Path) -> Kubectl:
        """Return kubectl as a service account of the namespace default."""
        token = (await self(f"create token {name}")).strip()
        config = yaml.safe_load(self._config.read_text())
        config["users"][0]["user"] = {"token": token}
        path = folder / f"{name}.kubeconfig"
        path.write_text(yaml.safe_dump(config))
        return Kubectl(path, self._env)


@pytest_asyncio.fixture
async def admin(serve: Serve, environment: Mapping[str, str]) -> AsyncIterator[Users]:
    async with serve(authorization="rbac") as path:
        yield Users(path, environment)


@pytest.mark.soak
async def test_account_does_what_its_roles_allow(admin: Users, tmp_path: Path) -> None:
    assert await admin("create serviceaccount builder") == "serviceaccount/builder created\n"
    builder = await admin.account("builder", tmp_path)
    refused = await builder("get pods", code=1)
    assert refused == (
        'Error from server (Forbidden): pods is forbidden: User "system:serviceaccount:default:builder" cannot list '
        'resource "pods" in API group "" in the namespace "default"\n'
    )
    assert await builder("auth can-i list pods", code=1) == "no\n"
    made = await admin("create role reader --verb=get,list,watch --resource=pods,pods/log")
    assert made == f"role.{RBAC}/reader created\n"
    made = await admin("create rolebinding builder-reads --role=reader --serviceaccount=default:builder")
    assert made == f"rolebinding.{RBAC}/builder-reads created\n"
    assert await builder("get pods") == "No resources found in default namespace.\n"
    assert await builder("auth can-i list pods") == "yes\n"
    assert await builder("auth can-i list pods --all-namespaces", code=1) == "no\n"
    assert await builder("auth can-i create pods", code=1) == "no\n"
    assert await builder("auth can-i get /metrics", code=1) == "no\n"
    rows = [line.split() for line in (await builder("auth can-i --list")).splitlines()]
    assert ["pods/log", "[]", "[]", "[get", "list", "watch]"] in rows
    assert "system:serviceaccount:default:builder" in await builder("auth whoami")
    (tmp_path / "review.yaml").write_text(REVIEW)
    reviewed = await admin(f"create -f {shlex.quote(str(tmp_path / 'review.yaml'))} -o jsonpath={{.status.allowed}}")
    assert reviewed == "true"
    refused = await builder("create configmap a", code=1)
    assert 'cannot create resource "configmaps" in API group ""' in refused


@pytest.mark.soak
async def test_auth_reconcile_adds_what_is_missing(admin: Users, tmp_path: Path) -> None:
    await admin("create role reader --verb=get --resource=pods")
    await admin("create rolebinding builder-reads --role=reader --serviceaccount=default:builder")
    (tmp_path / "roles.yaml").write_text(RECONCILED)
    told = await admin(f"auth reconcile -f {shlex.quote(str(tmp_path / 'roles.yaml'))}")
    assert f"role.{RBAC}/reader reconciled" in told
    assert "{Verbs:[create] APIGroups:[] Resources:[configmaps] ResourceNames:[] NonResourceURLs:[]}" in told
    assert f"rolebinding.{RBAC}/builder-reads reconciled" in told
    rows = [line.split() for line in (await admin("describe role reader")).splitlines()]
    assert ["configmaps", "[]", "[]", "[create]"] in rows
    assert ["pods", "[]", "[]", "[get]"] in rows
    rows = [line.split() for line in (await admin("get rolebindings -o wide --no-headers")).splitlines()]
    assert [row[:2] + row[3:] for row in rows] == [["builder-reads", "Role/reader", "alice", "default/builder"]]


@pytest.mark.soak
async def test_cluster_roles_are_made_bound_and_aggregated(admin: Users, tmp_path: Path) -> None:
    await admin("create serviceaccount auditor")
    auditor = await admin.account("auditor", tmp_path)
    made = await admin("create clusterrole node-reader --verb=get,list --resource=nodes")
    assert made == f"clusterrole.{RBAC}/node-reader created\n"
    assert "created" in await admin("create clusterrole metrics --verb=get --non-resource-url=/metrics")
    assert "created" in await admin("create clusterrolebinding a --clusterrole=view --serviceaccount=default:auditor")
    await auditor("get pods --all-namespaces")
    assert "cannot list resource" in await auditor("get nodes", code=1)
    await admin(f"label clusterrole node-reader {RBAC}/aggregate-to-view=true")
    await admin("wait clusterrole/view --for=jsonpath={.rules[0].resources[0]}=nodes --timeout=20s")
    assert "kcr-node-0" in await auditor("get nodes")
    changed = await admin("patch clusterrolebinding a --type=merge -p", '{"roleRef":{"name":"edit"}}', code=1)
    assert "cannot change roleRef" in changed
    refused = await auditor("create clusterrole mine --verb=get --resource=pods", code=1)
    assert 'cannot create resource "clusterroles"' in refused
