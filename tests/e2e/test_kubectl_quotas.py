"""The real kubectl on quotas, and on a node that is deleted."""

from collections.abc import AsyncIterator, Mapping

import pytest
import pytest_asyncio

from tests.e2e.kubectl import NEEDS_KUBECTL, Kubectl
from tests.e2e.processes import Start

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio, NEEDS_KUBECTL]


@pytest_asyncio.fixture
async def kubectl(kcr: Start, environment: Mapping[str, str]) -> AsyncIterator[Kubectl]:
    async with kcr("dev", "--runtime", "process") as dev:
        yield Kubectl(await dev.kubeconfig(), environment)


@pytest.mark.soak
async def test_quota_is_made_described_and_enforced(kubectl: Kubectl) -> None:
    made = await kubectl("create quota two --hard=pods=2,count/jobs.batch=1,requests.cpu=1 --scopes=NotTerminating")
    assert made == "resourcequota/two created\n"
    await kubectl("delete quota two")
    assert await kubectl("create quota two --hard=pods=2,count/jobs.batch=1") == "resourcequota/two created\n"
    await kubectl("run a --image=busybox --restart=Never -- sleep 100")
    await kubectl("run b --image=busybox --restart=Never -- sleep 100")
    refused = await kubectl("run c --image=busybox --restart=Never -- sleep 100", code=1)
    words = 'pods "c" is forbidden: exceeded quota: two, requested: pods=1, used: pods=2, limited: pods=2'
    assert words in refused
    assert [line.split() for line in (await kubectl("describe quota two")).splitlines()] == [
        ["Name:", "two"], ["Namespace:", "default"], ["Resource", "Used", "Hard"], ["--------", "----", "----"],
        ["count/jobs.batch", "0", "1"], ["pods", "2", "2"],
    ]  # fmt: skip
    assert "count/jobs.batch: 0/1, pods: 2/2" in await kubectl("get quota")
    assert "count/jobs.batch" in await kubectl("describe namespace default")


@pytest.mark.soak
async def test_deleted_node_takes_its_pods_and_comes_back(kubectl: Kubectl) -> None:
    await kubectl("apply -f examples/bare-pod.yaml")
    await kubectl("wait --for=condition=Ready pod --all --timeout=30s")
    assert await kubectl("delete node kcr-node-0") == 'node "kcr-node-0" deleted\n'
    await kubectl("wait --for=delete pod/bare --timeout=30s")
    await kubectl("wait --for=jsonpath={.status.failed}=1 job/safe --timeout=30s")
    await kubectl("wait --for=jsonpath={.status.ready}=1 job/safe --timeout=60s")
    assert "kcr-node-0" in await kubectl("get nodes")
