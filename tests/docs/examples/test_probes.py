"""`probes.yaml`: a server that becomes ready, a program that is restarted, one that takes too much memory."""

import shutil
import sys
from pathlib import Path

import pytest

from kcr.api.pods import is_ready
from kcr.testing import eventually
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.dev.apply import apply
from kcr_devcluster.manifests import read_documents
from tests.kit.documents import ROOT
from tests.kit.node_pods import delete, events, get, names, state

EXAMPLE = ROOT / "examples" / "probes.yaml"
pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.timeout(60),
    pytest.mark.skipif(shutil.which("python3") is None, reason="the example runs python3"),
]


@pytest.mark.soak
async def test_three_pods_meet_what_their_fields_say(tmp_path: Path, unused_tcp_port: int) -> None:
    async with EmbeddedCluster(runtime="process") as cluster:
        manifest = tmp_path / "probes.yaml"
        manifest.write_text(EXAMPLE.read_text().replace("18391", str(unused_tcp_port)))
        await apply(cluster.client, read_documents(str(manifest)))

        async def serves() -> bool:
            return is_ready(await get(cluster.client, "web"))

        async def restarted() -> bool:
            return (await get(cluster.client, "stuck")).status.container_statuses[0].restart_count > 0

        async def killed() -> bool:
            return state(await get(cluster.client, "hungry")) == "OOMKilled 137"

        await eventually(serves)
        await eventually(restarted)
        said = {message for reason, _, message in await events(cluster.client, "stuck") if reason == "Killing"}
        assert said == {"Container main failed liveness probe, will be restarted"}
        if sys.platform.startswith("linux"):
            await eventually(killed)
        for name in ("web", "stuck", "hungry"):
            await delete(cluster.client, name)

        async def are_gone() -> bool:
            return await names(cluster.client) == set()

        await eventually(are_gone)
