"""A Job whose pods do as the test says, instead of what a node makes of them."""

from random import Random

import pytest

from kcr.testing import PodScript, VirtualClock, eventually
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.harness import conditions, counters, create, finished, job_controller, manifest, pods_of, read

pytestmark = pytest.mark.kcr_virtual


async def test_job_counts_what_the_script_lets_happen(kcr_clock: VirtualClock) -> None:  # TK-9
    async with (
        EmbeddedCluster(clock=kcr_clock, random=Random(0), runtime=None) as cluster,
        job_controller(cluster, kcr_clock),
    ):
        client, pods = cluster.client, PodScript(cluster.client, kcr_clock)

        async def count(*wanted: int) -> None:
            async def right() -> bool:
                return counters(await read(client)) == wanted

            await eventually(right, seconds=60)

        await create(client, manifest(parallelism=2, completions=3))
        await count(2, 0, 0, 0, 0)
        await pods.run()
        await count(2, 1, 0, 0, 0)
        await pods.succeed()
        await count(2, 0, 0, 1, 0)
        await pods.fail(exit_code=42)
        await count(2, 0, 0, 1, 1)
        evicted = await pods.evict()
        await count(2, 0, 0, 1, 2)
        assert evicted.metadata.uid not in {pod.metadata.uid for pod in await pods_of(client)}
        await pods.succeed()
        await pods.succeed()
        job = await finished(client)
    assert conditions(job)[-1] == ("Complete", "CompletionsReached")
    assert (job.status.succeeded, job.status.failed) == (3, 2)
