"""The fleet example as a process, with a member whose kubeconfig is in a Secret, over HTTPS."""

import signal
from pathlib import Path

import pytest

import kcr
from kcr.api.core import ConfigMap, Event, Namespace, Secret
from kcr.testing import eventually
from kcr_devcluster.cluster import EmbeddedCluster
from tests.e2e.processes import Start
from tests.kit.fleets import COLORS, NAMESPACE, colors, secret

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio]


@pytest.mark.soak
async def test_fleet_copies_to_a_member_of_a_secret_and_survives_a_kill(kcr: Start, tmp_path: Path) -> None:
    path = tmp_path / "home.kubeconfig"
    async with EmbeddedCluster(runtime=None) as home, EmbeddedCluster(runtime=None) as east:
        path.write_text((await home.serve()).kubeconfig)
        text = (await east.serve()).kubeconfig.encode()

        async def has(sky: str) -> bool:
            return any(one.key == COLORS and one.data["sky"] == sky for one in await east.client.list(ConfigMap))

        async def is_refused() -> bool:
            return any(one.reason == "KubeconfigRefused" for one in await home.client.list(Event, NAMESPACE))

        await home.client.create(Namespace(metadata=_meta(NAMESPACE)))
        await home.client.create(secret("east", text))
        await home.client.create(secret("west", b"users: []"))
        await home.client.create(colors("blue", **{"fleet.example.dev/copy": "true"}))
        async with kcr("--kubeconfig", str(path), program="examples/fleet/fleet.py") as first:
            await eventually(lambda: has("blue"), seconds=30)
            await eventually(is_refused, seconds=30)
            await first.stop(signal.SIGKILL)
        await home.client.merge_patch(ConfigMap, COLORS, {"data": {"sky": "grey"}})
        async with kcr("--kubeconfig", str(path), program="examples/fleet/fleet.py") as second:
            await eventually(lambda: has("grey"), seconds=30)
            await home.client.delete(Secret, secret("east", b"").key)
            await eventually(lambda: "member cluster closed" in second.err, seconds=30)
            assert await second.stop() == 0
            assert "Traceback" not in second.err


def _meta(name: str) -> kcr.ObjectMeta:
    return kcr.ObjectMeta(name=name)
