"""Volumes of simulated pods, in virtual time: only ConfigMaps, Secrets and their keys are looked for."""

import pytest

from kcr.api.batch import Job
from kcr.api.core import ConfigMap, Secret
from kcr.api.meta import Key
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.harness import conditions
from tests.kit.node_pods import create, events, get, state

pytestmark = pytest.mark.kcr_virtual

MOUNTED = [{"name": "main", "image": "app:1", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]
SECRET = {"name": "v", "secret": {"secretName": "late"}}


async def test_pod_waits_for_a_missing_secret(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await create(kcr_cluster.client, "a", containers=MOUNTED, volumes=[SECRET])
    await kcr_clock.advance(60)
    assert state(await get(kcr_cluster.client, "a")) == "ContainerCreating"
    # Source: kubernetes/pkg/util/goroutinemap/exponentialbackoff: at 0, 0.5, 1.5, 3.5, 7.5, 15.5 and 31.5 seconds.
    message = 'MountVolume.SetUp failed for volume "v" : secret "late" not found'
    ((reason, count, text),) = [event for event in await events(kcr_cluster.client, "a") if event[0] != "Scheduled"]
    assert (reason, text) == ("FailedMount", message)
    assert 5 <= count <= 7
    await kcr_cluster.client.create_manifest(Secret, {"metadata": {"name": "late"}}, "default")
    await kcr_clock.advance(5)
    assert state(await get(kcr_cluster.client, "a")) == "running"


async def test_pod_waits_for_a_missing_key(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    config = {"metadata": {"name": "c"}, "data": {"other": "1"}}
    await kcr_cluster.client.create_manifest(ConfigMap, config, "default")
    volume = {"name": "v", "configMap": {"name": "c", "items": [{"key": "k", "path": "k"}]}}
    await create(kcr_cluster.client, "a", containers=MOUNTED, volumes=[volume])
    await kcr_clock.advance(5)
    assert state(await get(kcr_cluster.client, "a")) == "ContainerCreating"


@pytest.mark.parametrize(
    "volume",
    [
        pytest.param({"persistentVolumeClaim": {"claimName": "x"}}, id="claim"),
        pytest.param({"hostPath": {"path": "/no/such", "type": "Directory"}}, id="host-path"),
        pytest.param({"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}, id="token"),
        pytest.param({"secret": {"secretName": "gone", "optional": True}}, id="optional"),
    ],
)
async def test_other_volumes_are_taken_to_be_there(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, volume: dict[str, object]
) -> None:
    await create(kcr_cluster.client, "a", containers=MOUNTED, volumes=[{"name": "v", **volume}])
    await kcr_clock.advance(5)
    assert state(await get(kcr_cluster.client, "a")) == "running"


@pytest.mark.kcr_cluster(controllers=["job"])
async def test_job_with_a_missing_secret_does_not_complete(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    spec = {"restartPolicy": "Never", "containers": MOUNTED, "volumes": [SECRET]}
    job = {"metadata": {"name": "pi"}, "spec": {"template": {"spec": spec}}}
    await kcr_cluster.client.create_manifest(Job, job, "default")
    await kcr_clock.advance(3600)
    waiting = await kcr_cluster.client.get(Job, Key("default", "pi"))
    assert (waiting.status.active, waiting.status.ready, conditions(waiting)) == (1, 0, [])
    await kcr_cluster.client.create_manifest(Secret, {"metadata": {"name": "late"}}, "default")
    await kcr_clock.advance(30)
    done = await kcr_cluster.client.get(Job, Key("default", "pi"))
    assert conditions(done)[-1] == ("Complete", "CompletionsReached")
