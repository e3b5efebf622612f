"""The real kubectl on what containers use."""

from collections.abc import Mapping

import pytest

from tests.e2e.kubectl import NEEDS_KUBECTL, Kubectl
from tests.e2e.processes import Serve

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio, NEEDS_KUBECTL]


@pytest.mark.soak
async def test_top_shows_what_pods_and_nodes_use(serve: Serve, environment: Mapping[str, str]) -> None:
    async with serve(runtime="process") as path:
        kubectl = Kubectl(path, environment)
        await kubectl("run busy --image=busybox -- sh -c", "while :; do :; done")
        await kubectl("run idle --image=busybox -- sleep 100")
        await kubectl("wait --for=condition=Ready pod --all --timeout=30s")
        head, *rows = [line.split() for line in (await kubectl("top pod --sort-by=cpu")).splitlines()]
        assert head == ["NAME", "CPU(cores)", "MEMORY(bytes)"]
        assert [row[0] for row in rows] == ["busy", "idle"]
        assert int(rows[0][1].removesuffix("m")) > 50
        assert (await kubectl("top pod -l run=idle --no-headers")).split()[0] == "idle"
        assert "kcr-node-0" in await kubectl("top node")


async def test_top_says_that_a_simulation_has_no_metrics(serve: Serve, environment: Mapping[str, str]) -> None:
    async with serve() as path:
        kubectl = Kubectl(path, environment)
        assert await kubectl("top pod", code=1) == "error: Metrics API not available\n"
