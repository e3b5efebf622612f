"""Nodes, taints and priorities with the real kubectl on a cluster of two nodes, whose pods are processes."""

from collections.abc import AsyncIterator, Mapping

import pytest
import pytest_asyncio

from kcr.testing import eventually
from tests.e2e.kubectl import NEEDS_KUBECTL, Kubectl
from tests.e2e.processes import Serve

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio, NEEDS_KUBECTL]

FIRST, SECOND = "kcr-node-0", "kcr-node-1"


@pytest_asyncio.fixture
async def kubectl(serve: Serve, environment: Mapping[str, str]) -> AsyncIterator[Kubectl]:
    async with serve(runtime="process", nodes=2, heartbeats=True) as path:
        found = Kubectl(path, environment)
        await found(f"wait --for=condition=Ready node/{FIRST} node/{SECOND} --timeout=60s")
        yield found


async def places(kubectl: Kubectl) -> list[str]:
    """The nodes of the pods that are not terminating and ready."""
    columns = "-o custom-columns=N:.spec.nodeName,D:.metadata.deletionTimestamp,P:.status.phase --no-headers"
    rows = [row.split() for row in (await kubectl(f"get pods {columns}")).splitlines()]
    return sorted(node for node, deleted, phase in rows if deleted == "<none>" and phase == "Running")


@pytest.mark.soak
async def test_nodes_are_drained_tainted_and_deleted(kubectl: Kubectl) -> None:
    await kubectl("create deployment web --image=python --replicas=4 -- sleep 3600")
    await kubectl("rollout status deployment web --timeout=60s")
    assert await places(kubectl) == [FIRST, FIRST, SECOND, SECOND]
    drained = await kubectl(f"drain {SECOND} --ignore-daemonsets --delete-emptydir-data --force --timeout=60s")
    assert f"node/{SECOND} drained" in drained
    assert "Ready,SchedulingDisabled" in await kubectl(f"get node {SECOND}")

    async def are(*wanted: str) -> bool:
        return await places(kubectl) == sorted(wanted)

    await eventually(lambda: are(FIRST, FIRST, FIRST, FIRST), seconds=60)
    await kubectl(f"uncordon {SECOND}")
    await kubectl(f"taint node {FIRST} broken=yes:NoExecute")
    await eventually(lambda: are(SECOND, SECOND, SECOND, SECOND), seconds=60)
    assert "TaintManagerEviction" in await kubectl("get events")
    await kubectl(f"taint node {FIRST} broken-")
    await kubectl(f"delete node {SECOND}")
    await eventually(lambda: are(FIRST, FIRST, FIRST, FIRST), seconds=60)


@pytest.mark.soak
async def test_pod_that_fits_nowhere_says_why(kubectl: Kubectl) -> None:
    spec = '{"spec":{"containers":[{"name":"c","image":"python","resources":{"requests":{"cpu":"1000"}}}]}}'
    await kubectl("run large --image=python", f"--overrides={spec}")

    async def described() -> str:
        text = await kubectl("describe pod large")
        return text if "FailedScheduling" in text else ""

    assert "0/2 nodes are available: 2 Insufficient cpu." in await eventually(described, seconds=30)
    assert "Pending" in await kubectl("get pod large")
    leases = await kubectl("get leases --namespace kube-node-lease --no-headers")
    assert [line.split()[1] for line in leases.splitlines()] == [FIRST, SECOND]


@pytest.mark.soak
async def test_drain_waits_for_the_disruption_budget(kubectl: Kubectl) -> None:
    await kubectl("create deployment web --image=python --replicas=2 -- sleep 3600")
    await kubectl("rollout status deployment web --timeout=60s")
    await kubectl("create poddisruptionbudget web --selector=app=web --min-available=2")
    await kubectl("wait --for=jsonpath={.status.currentHealthy}=2 pdb/web --timeout=30s")
    assert (await kubectl("get pdb web --no-headers")).split()[:4] == ["web", "2", "N/A", "0"]
    drain = f"drain {SECOND} --ignore-daemonsets --force"
    refused = await kubectl(f"{drain} --timeout=2s", code=1)
    assert "Cannot evict pod as it would violate the pod's disruption budget." in refused
    assert len(await places(kubectl)) == 2
    await kubectl("patch pdb web -p", '{"spec":{"minAvailable":1}}')
    assert f"node/{SECOND} drained" in await kubectl(f"{drain} --timeout=60s")
