"""Deployments with the real kubectl on `kcr dev`, whose pods are processes."""

from collections.abc import AsyncIterator, Mapping

import pytest
import pytest_asyncio

from tests.e2e.kubectl import NEEDS_KUBECTL, Kubectl
from tests.e2e.processes import Serve

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio, NEEDS_KUBECTL]

ROLLED_OUT = 'deployment "web" successfully rolled out'


@pytest_asyncio.fixture
async def kubectl(serve: Serve, environment: Mapping[str, str]) -> AsyncIterator[Kubectl]:
    async with serve(runtime="process") as path:
        yield Kubectl(path, environment)


async def rolled_out(kubectl: Kubectl) -> None:
    assert ROLLED_OUT in await kubectl("rollout status deployment web --timeout=60s")


@pytest.mark.soak
async def test_deployment_lives_with_kubectl(kubectl: Kubectl) -> None:
    created = await kubectl("create deployment web --image=python --replicas=2 -- sleep 3600")
    assert created == "deployment.apps/web created\n"
    await rolled_out(kubectl)
    await kubectl("wait --for=condition=Available deployment/web --timeout=60s")
    assert (await kubectl("get deployment web --no-headers")).split()[:4] == ["web", "2/2", "2", "2"]
    await kubectl("scale deployment web --replicas=3")
    await kubectl("set image deployment/web python=python:3.12")
    await rolled_out(kubectl)
    history = await kubectl("rollout history deployment web")
    assert [line.split()[0] for line in history.splitlines()[2:4]] == ["1", "2"]
    await kubectl("rollout undo deployment web")
    await rolled_out(kubectl)
    await kubectl("rollout pause deployment web")
    await kubectl("set env deployment/web COLOR=blue")
    await kubectl("rollout resume deployment web")
    await rolled_out(kubectl)
    await kubectl("rollout restart deployment web")
    await rolled_out(kubectl)
    described = await kubectl("describe deployment web")
    assert "3 desired | 3 updated | 3 total | 3 available | 0 unavailable" in described
    assert "Progressing    True    NewReplicaSetAvailable" in described
    assert "Scaled up replica set web-" in described
    assert "25% max unavailable, 25% max surge" in described
    assert len((await kubectl("get replicasets --no-headers")).splitlines()) == 4
    await kubectl("delete deployment web")
    await kubectl("wait --for=delete pod --selector=app=web --timeout=60s")
