"""Admission webhooks of programs on `kcr dev`, behind Services, over TLS."""

import base64
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trustme

from kcr.testing import eventually
from tests.e2e.kubectl import NEEDS_KUBECTL, Kubectl
from tests.e2e.processes import Serve
from tests.kit.http_servers import free_port

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio, NEEDS_KUBECTL]

PROGRAM = Path(__file__).parent / "operators" / "webhook_in_a_pod.py"
CALL = 'failed calling webhook "pods.example.com": failed to call webhook: Post "https://hooks.default.svc:443/review'


def manifests(port: int, chain: Path, authority: trustme.CA) -> dict[str, Any]:
    """Return a pod that serves a webhook, its Service, and the configuration."""
    container = {
        "name": "main", "image": "python", "command": [sys.executable, str(PROGRAM), str(port), str(chain)],
        "ports": [{"name": "https", "containerPort": port}],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 1},
    }  # fmt: skip
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    webhook = {
        "name": "pods.example.com", "rules": [rule], "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {
            "service": {"namespace": "default", "name": "hooks", "path": "/review"},
            "caBundle": base64.b64encode(authority.cert_pem.bytes()).decode(),
        },
    }  # fmt: skip
    group = "admissionregistration.k8s.io/v1"
    return {"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "hooks", "labels": {"app": "hooks"}},
         "spec": {"containers": [container]}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hooks"},
         "spec": {"selector": {"app": "hooks"}, "ports": [{"port": 443, "targetPort": "https"}]}},
        {"apiVersion": group, "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "hooks"},
         "webhooks": [webhook]},
    ]}  # fmt: skip


@pytest.mark.soak
async def test_service_of_a_webhook_leads_to_its_pod(
    serve: Serve, environment: Mapping[str, str], tmp_path: Path
) -> None:
    authority, chain, file = trustme.CA(), tmp_path / "tls.pem", tmp_path / "webhook.json"
    authority.issue_cert("hooks.default.svc").private_key_and_cert_chain_pem.write_to_path(chain)
    file.write_text(json.dumps(manifests(free_port(), chain, authority)))
    async with serve(runtime="process") as kubeconfig:
        kubectl = Kubectl(kubeconfig, environment)
        await kubectl(f"apply -f {file}")
        await eventually(lambda: _is_ready(kubectl), seconds=30)
        assert "Warning: seen by the pod" in await kubectl("create configmap good")
        denied = await kubectl("create configmap bad", code=1)
        assert 'admission webhook "pods.example.com" denied the request: a bad name' in denied
        await kubectl("delete pod hooks --now")
        failed = await kubectl("create configmap late", code=1)
        assert f'{CALL}?timeout=10s": no endpoints available for service "hooks"' in failed


async def _is_ready(kubectl: Kubectl) -> bool:
    return await kubectl("get pod hooks --output=jsonpath={.status.containerStatuses[0].ready}") == "true"
