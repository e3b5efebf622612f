"""The real kubectl's server-side apply on `kcr dev`: conflicts, other writers in between, migration, diff."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio

from tests.e2e.kubectl import NEEDS_KUBECTL, Kubectl
from tests.e2e.processes import Serve

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio, NEEDS_KUBECTL]

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: "nginx:1"}]}
"""
APPLIED = "deployment.apps/web serverside-applied\n"
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm}\ndata:\n  a: '1'\n"


@pytest_asyncio.fixture
async def kubectl(serve: Serve, environment: Mapping[str, str]) -> AsyncIterator[Kubectl]:
    # A status that is written between its two reads would be a difference that `kubectl diff` shows.
    async with serve(runtime=None, deployments=False) as path:
        yield Kubectl(path, environment)


@pytest.mark.soak
async def test_conflicts_are_shown_and_forced(kubectl: Kubectl, tmp_path: Path) -> None:
    mine, theirs = tmp_path / "mine.yaml", tmp_path / "theirs.yaml"
    mine.write_text(DEPLOYMENT, encoding="utf-8")
    theirs.write_text(DEPLOYMENT.replace("nginx:1", "nginx:2"), encoding="utf-8")
    assert (await kubectl(f"apply --server-side -f {mine}")).endswith(APPLIED)
    image = '.spec.template.spec.containers[name="c"].image'
    refused = await kubectl(f"apply --server-side --field-manager other -f {theirs}", code=1)
    assert f'error: Apply failed with 1 conflict: conflict with "kubectl": {image}\n' in refused
    assert "+      - image: nginx:2" in await kubectl(f"diff --server-side -f {theirs}", code=1)
    await kubectl(f"apply --server-side --field-manager other --force-conflicts -f {theirs}")
    assert await kubectl(f"diff --server-side --field-manager other -f {theirs}") == ""
    await kubectl("scale deployment web --replicas 7")
    await kubectl("label deployment web x=y")
    refused = await kubectl(f"apply --server-side -f {mine}", code=1)
    assert 'conflicts with "kubectl" with subresource "scale" using apps/v1:\n- .spec.replicas\n' in refused
    owners = await kubectl(
        "get deployment web --show-managed-fields --output=jsonpath={.metadata.managedFields[*].manager}"
    )
    # The Deployment controller owns the status, and its revision.
    assert [one for one in owners.split() if one != "kcr-cluster"] == ["kubectl", "other", "kubectl", "kubectl-label"]


@pytest.mark.soak
async def test_client_side_apply_is_migrated(kubectl: Kubectl, tmp_path: Path) -> None:
    before, after = tmp_path / "before.yaml", tmp_path / "after.yaml"
    before.write_text(CONFIG_MAP + "  b: '2'\n", encoding="utf-8")
    after.write_text(CONFIG_MAP.replace("'1'", "'9'"), encoding="utf-8")
    await kubectl(f"apply -f {before}")
    assert await kubectl(f"apply --server-side -f {after}") == "configmap/cm serverside-applied\n"
    assert await kubectl("get configmap cm --output=jsonpath={.data}") == '{"a":"9"}'
    owners = "get configmap cm --show-managed-fields --output=jsonpath={.metadata.managedFields[*].manager}"
    # In the order of their times.
    assert sorted((await kubectl(owners)).split()) == ["kubectl", "kubectl-last-applied"]
    # And back.
    assert await kubectl(f"apply -f {before}") == "configmap/cm configured\n"
    assert await kubectl("get configmap cm --output=jsonpath={.data}") == '{"a":"1","b":"2"}'
