"""Users of `kcr dev`: impersonation, tokens, certificates and kubeconfigs, with the real kubectl."""

import json
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio

from tests.e2e.kubectl import NEEDS_KUBECTL, Kubectl
from tests.e2e.processes import Serve, Start
from tests.kit.client_certificates import USAGES, certificate_request

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio, NEEDS_KUBECTL]

WHOAMI = "auth whoami --output=json"


@pytest_asyncio.fixture
async def kubectl(serve: Serve, environment: Mapping[str, str]) -> AsyncIterator[Kubectl]:
    async with serve() as path:
        yield Kubectl(path, environment)


async def user_of(kubectl: Kubectl, *options: str) -> tuple[str, list[str]]:
    user = json.loads(await kubectl(WHOAMI, *options))["status"]["userInfo"]
    return user["username"], user["groups"]


@pytest.mark.soak
async def test_as_and_as_group_make_another_user(kubectl: Kubectl) -> None:
    assert await user_of(kubectl, "--as=jane") == ("jane", ["system:authenticated"])
    options = ("--as=jane", "--as-group=dev", "--as-group=ops", "--as-uid=7")
    assert await user_of(kubectl, *options) == ("jane", ["dev", "ops", "system:authenticated"])
    account = "system:serviceaccount:default:default"
    assert (await user_of(kubectl, f"--as={account}"))[1][1] == "system:serviceaccounts:default"


@pytest.mark.soak
async def test_created_token_is_that_of_the_account(kubectl: Kubectl) -> None:
    token = (await kubectl("create token default --duration=1h")).strip()
    await kubectl("config set-credentials builder", f"--token={token}")
    assert (await user_of(kubectl, "--user=builder"))[0] == "system:serviceaccount:default:default"
    assert "kube-root-ca.crt" in await kubectl("get configmaps --namespace=kube-system")


@pytest.mark.soak
async def test_approved_certificate_logs_in(kubectl: Kubectl, tmp_path: Path) -> None:
    key, request = certificate_request("jane", "dev")
    spec = {"request": b64encode(request.encode()).decode(), "usages": USAGES}
    manifest = {
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "jane"},
        "spec": {**spec, "signerName": "kubernetes.io/kube-apiserver-client"},
    }  # fmt: skip
    (tmp_path / "jane.json").write_text(json.dumps(manifest))
    (tmp_path / "jane.key").write_text(key)
    created = await kubectl(f"apply -f {tmp_path / 'jane.json'}")
    assert created == "certificatesigningrequest.certificates.k8s.io/jane created\n"
    assert "Pending" in await kubectl("get csr jane")
    approved = await kubectl("certificate approve jane")
    assert approved == "certificatesigningrequest.certificates.k8s.io/jane approved\n"
    while not (certificate := await kubectl("get csr jane --output=go-template={{.status.certificate|base64decode}}")):
        pass
    assert "Approved,Issued" in await kubectl("get csr jane")
    (tmp_path / "jane.crt").write_text(certificate)
    files = (f"--client-certificate={tmp_path / 'jane.crt'}", f"--client-key={tmp_path / 'jane.key'}")
    await kubectl("config set-credentials jane", *files)
    assert await user_of(kubectl, "--user=jane") == ("jane", ["dev", "system:authenticated"])


@pytest.mark.soak
async def test_pods_act_as_their_accounts_where_roles_grant(kcr: Start, environment: Mapping[str, str]) -> None:
    async with kcr("dev", "--authorization", "rbac") as dev:
        kubectl = Kubectl(await dev.kubeconfig(), environment)
        await kubectl("apply -f examples/patterns/controller-pod")
        script = "kubectl auth whoami; kubectl get jobs; ls /var/run/secrets/kubernetes.io/serviceaccount"
        await kubectl("run who --image=busybox --restart=Never --", "sh", "-c", script)
        await kubectl("wait --for=jsonpath={.status.phase}=Succeeded pod/who --timeout=60s")
        said = await kubectl("logs who")
        account = "system:serviceaccount:default:default"
        assert account in said
        assert f'User "{account}" cannot list resource "jobs"' in said
        await kubectl("wait --for=condition=complete job/controller --timeout=60s")
        assert "item-apple Complete" in await kubectl("logs job/controller")


@pytest.mark.soak
async def test_created_kubeconfigs_log_in(
    kubectl: Kubectl, kcr: Start, environment: Mapping[str, str], tmp_path: Path
) -> None:
    path = await kubectl("config view --output=json --raw")
    (tmp_path / "admin").write_text(path)
    for number, (options, name) in enumerate((
        (["--service-account", "kube-system/default"], "system:serviceaccount:kube-system:default"),
        (["--user", "jane", "--group", "dev"], "jane"),
    )):  # fmt: skip
        async with kcr("kubeconfig", "create", *options, "--kubeconfig", str(tmp_path / "admin")) as create:
            assert await create.process.wait() == 0
            written = tmp_path / f"{number}.kubeconfig"
            written.write_text(create.out)
        assert (await user_of(Kubectl(written, environment)))[0] == name
