"""Volumes of pods that run as processes, on the machine's own time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kcr.api.core import ConfigMap, Secret
from kcr.api.meta import Key
from kcr.client import Client, Request, Response
from kcr.testing import eventually
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node.pods import KubeletPod
from kcr_devcluster.cluster.node.process.container_mounts import NamespaceSupport, detect_namespaces, rewrite_paths
from kcr_devcluster.cluster.node.process_pods.pod_volumes import ContainerStart, PodVolumes
from kcr_devcluster.cluster.node.runtime import NodeInfo
from kcr_devcluster.cluster.node.volumes.memory import SHARED_MEMORY
from kcr_devcluster.cluster.node.volumes.volume_manager import FOLDER
from tests.kit.node_pods import create, delete, events, get, log, names, state

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def processes(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    support = await detect_namespaces(tmp_path)
    if not support.kind:
        pytest.skip(support.reason)
    async with EmbeddedCluster(runtime="process") as cluster:
        yield cluster


def container(script: str, name: str = "main", **mounts: str) -> dict[str, Any]:
    """A container that mounts volumes, each given as its name and mountPath; `path:subPath` for a part of it."""
    mounted = [
        {"name": volume, "mountPath": path.partition(":")[0], "subPath": path.partition(":")[2]}
        for volume, path in mounts.items()
    ]
    return {"name": name, "image": "busybox", "command": ["sh", "-c", script], "volumeMounts": mounted}


async def configure(cluster: EmbeddedCluster, name: str, **data: str) -> None:
    await cluster.client.create_manifest(ConfigMap, {"metadata": {"name": name}, "data": data}, "default")


async def change(cluster: EmbeddedCluster, name: str, **data: str | None) -> None:
    await cluster.client.merge_patch(ConfigMap, Key("default", name), {"data": data})


async def output(cluster: EmbeddedCluster, name: str) -> str:
    """What a pod has printed, once it has ended well."""

    async def has_ended() -> bool:
        pod = await get(cluster.client, name)
        assert pod.status.phase != "Failed", state(pod)
        return pod.status.phase == "Succeeded"

    await eventually(has_ended)
    return await log(cluster.client, name, "?container=main")


async def reports(cluster: EmbeddedCluster, name: str, reason: str, message: str) -> None:
    """Wait for an event of the pod, which does not run yet."""

    async def has_event() -> bool:
        return (reason, message) in [(event[0], event[2]) for event in await events(cluster.client, name)]

    await eventually(has_event)
    pod = await get(cluster.client, name)
    assert (pod.status.phase, state(pod)) == ("Pending", "ContainerCreating")


async def shows(cluster: EmbeddedCluster, name: str, text: str) -> None:
    """Wait until a running pod has printed a text."""

    async def has_printed() -> bool:
        pod = await get(cluster.client, name)
        started = bool(pod.status.container_statuses) and state(pod) == "running"
        return started and text in await log(cluster.client, name)

    await eventually(has_printed)


async def test_config_and_secret_are_files(processes: EmbeddedCluster) -> None:
    await configure(processes, "c", key="from-config")
    secret = {"metadata": {"name": "s"}, "stringData": {"key": "from-secret"}}
    await processes.client.create_manifest(Secret, secret, "default")
    volumes = [
        {"name": "c", "configMap": {"name": "c"}},
        {"name": "s", "secret": {"secretName": "s", "defaultMode": 0o400}},
        {"name": "d", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    ]
    script = (
        "cat /etc/c/key /kcr/s/key /kcr/d/name; echo; stat -Lc %a /kcr/s/key; touch /etc/c/x 2>/dev/null || echo ro"
    )
    await create(
        processes.client, "a", containers=[container(script, c="/etc/c", s="/kcr/s", d="/kcr/d")], volumes=volumes
    )
    assert await output(processes, "a") == "from-configfrom-secreta\n400\nro\n"


async def test_containers_of_a_pod_share_an_empty_dir(processes: EmbeddedCluster) -> None:
    volumes = [{"name": "work", "emptyDir": {}}]
    first = container("echo made > /out/file", "first", work="/out")
    second = container("cat /in/file; test -e /out || echo not there", work="/in")
    await create(processes.client, "a", containers=[second], initContainers=[first], volumes=volumes)
    assert await output(processes, "a") == "made\nnot there\n"


async def test_projected_volume_joins_its_sources(processes: EmbeddedCluster) -> None:
    await configure(processes, "c", a="1", b="2")
    fields = {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}
    sources = [{"configMap": {"name": "c", "items": [{"key": "a", "path": "x/a"}]}}, {"downwardAPI": fields}]
    volumes = [{"name": "v", "projected": {"sources": sources}}]
    await create(
        processes.client, "a", containers=[container("cd /kcr/v; find . -type l | sort", v="/kcr/v")], volumes=volumes
    )
    assert await output(processes, "a") == "./..data\n./labels\n./x\n"


async def test_missing_object_is_waited_for(processes: EmbeddedCluster) -> None:
    volumes = [{"name": "v", "configMap": {"name": "late"}}]
    await create(processes.client, "a", containers=[container("cat /kcr/v/key", v="/kcr/v")], volumes=volumes)
    await reports(processes, "a", "FailedMount", 'MountVolume.SetUp failed for volume "v" : configmap "late" not found')
    await configure(processes, "late", other="1")
    items = [{"name": "v", "configMap": {"name": "late", "items": [{"key": "key", "path": "key"}]}}]
    await create(processes.client, "b", containers=[container("cat /kcr/v/key", v="/kcr/v")], volumes=items)
    missing = 'MountVolume.SetUp failed for volume "v" : configmap references non-existent config key: key'
    await reports(processes, "b", "FailedMount", missing)
    await change(processes, "late", key="at-last")
    assert await output(processes, "b") == "at-last"


@pytest.mark.parametrize(
    ("volume", "why"),
    [
        pytest.param({"secret": {"secretName": "gone"}}, 'secret "gone" not found', id="secret"),
        pytest.param(
            {"projected": {"sources": [{"secret": {"name": "s"}}, {"configMap": {"name": "c"}}]}},
            '[secret "s" not found, configmap "c" not found]',
            id="several",
        ),
        pytest.param(
            {"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
            'failed to fetch token: serviceaccounts "gone" not found',
            id="account",
        ),
        pytest.param(
            {"hostPath": {"path": "/no/such", "type": "Directory"}},
            "hostPath type check failed: /no/such is not a directory",
            id="host-path",
        ),
        pytest.param(
            {"persistentVolumeClaim": {"claimName": "x"}},
            "persistentVolumeClaim volumes are not supported where containers run as processes: "
            "use emptyDir, or hostPath for what has to outlive the pod",
            id="not-supported",
        ),
    ],
)
async def test_volume_that_cannot_be_set_up_is_reported(
    processes: EmbeddedCluster, volume: dict[str, object], why: str
) -> None:
    volumes = [{"name": "v", **volume}, {"name": "unused", "secret": {"secretName": "not-asked-for"}}]
    mounted = container("true", v="/kcr/v")
    await create(processes.client, "a", containers=[mounted], volumes=volumes, serviceAccountName="gone")
    await reports(processes, "a", "FailedMount", f'MountVolume.SetUp failed for volume "v" : {why}')


async def test_pod_that_waits_for_a_volume_can_be_deleted(processes: EmbeddedCluster) -> None:
    volumes = [{"name": "v", "configMap": {"name": "gone"}}]
    await create(processes.client, "a", containers=[container("true", v="/kcr/v")], volumes=volumes)
    await reports(processes, "a", "FailedMount", 'MountVolume.SetUp failed for volume "v" : configmap "gone" not found')
    await delete(processes.client, "a")

    async def is_gone() -> bool:
        return "a" not in await names(processes.client)

    await eventually(is_gone)


async def test_optional_object_may_come_later(processes: EmbeddedCluster) -> None:
    volumes = [{"name": "v", "configMap": {"name": "late", "optional": True}}]
    script = "ls /kcr/v; echo up; until test -e /kcr/v/key; do sleep 0.05; done; cat /kcr/v/key; sleep 60"
    await create(processes.client, "a", containers=[container(script, v="/kcr/v")], volumes=volumes)
    await shows(processes, "a", "up\n")
    await configure(processes, "late", key="here")
    await shows(processes, "a", "up\nhere")


async def test_changes_arrive_in_running_containers(processes: EmbeddedCluster) -> None:
    await configure(processes, "c", key="one", gone="x")
    fields = [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
    volumes = [{"name": "c", "configMap": {"name": "c"}}, {"name": "d", "downwardAPI": {"items": fields}}]
    script = "while :; do echo $(cat /kcr/c/key /kcr/d/labels) $(ls /kcr/c) part $(cat /kcr/part); sleep 0.05; done"
    mounted = container(script, c="/kcr/c", d="/kcr/d")
    mounted["volumeMounts"].append({"name": "c", "mountPath": "/kcr/part", "subPath": "key"})
    await create(processes.client, "a", grace=0, containers=[mounted], volumes=volumes)
    await shows(processes, "a", "one gone key part one")
    await change(processes, "c", key="two", gone=None)
    await processes.client.merge_patch(KubeletPod, Key("default", "a"), {"metadata": {"labels": {"new": "label"}}})
    # Source: a container that mounts a part of a volume by subPath receives no updates.
    await shows(processes, "a", 'twonew="label" key part one')


async def test_deleted_config_stays_as_it_was(processes: EmbeddedCluster) -> None:
    await configure(processes, "c", key="kept")
    volumes = [{"name": "c", "configMap": {"name": "c"}}]
    script = "echo up; until test -e /kcr/c/end; do sleep 0.05; done; cat /kcr/c/key"
    await create(processes.client, "a", containers=[container(script, c="/kcr/c")], volumes=volumes)
    await shows(processes, "a", "up")
    await processes.client.delete(ConfigMap, Key("default", "c"))

    async def is_reported() -> bool:
        message = 'MountVolume.SetUp failed for volume "c" : configmap "c" not found'
        return ("FailedMount", 1, message) in await events(processes.client, "a")

    await eventually(is_reported)
    await configure(processes, "c", key="new", end="")
    assert (await output(processes, "a")).endswith("new")


async def test_host_path_outlives_the_pod(processes: EmbeddedCluster, tmp_path: Path) -> None:
    volumes = [{"name": "v", "hostPath": {"path": f"{tmp_path}/new"}}]
    mounted = container("mkdir -p /kcr/v/sub && echo x > /kcr/v/sub/file && cat /kcr/v/sub/file", v="/kcr/v")
    await create(processes.client, "a", containers=[mounted], volumes=volumes)
    assert await output(processes, "a") == "x\n"
    assert await asyncio.to_thread((tmp_path / "new" / "sub" / "file").read_text) == "x\n"


async def test_volume_in_memory_is_a_tmpfs_of_all_containers(processes: EmbeddedCluster) -> None:
    """Source: test/e2e/common/storage/empty_dir.go, volume on tmpfs should have the correct mode."""
    first = container("stat -f -c %T /kcr/m; stat -c %a /kcr/m; echo shared > /kcr/m/file", m="/kcr/m")
    second = container("until [ -s /kcr/m/file ]; do sleep 0.01; done", "other", m="/kcr/m")
    volumes = [{"name": "m", "emptyDir": {"medium": "Memory"}}]
    made = await create(processes.client, "a", containers=[first, second], volumes=volumes)
    assert await output(processes, "a") == "tmpfs\n777\n"
    await eventually(lambda: not list(SHARED_MEMORY.glob(f"*/{made.metadata.uid}")))


@pytest.mark.parametrize(
    ("path", "script"),
    [
        pytest.param("/dev/termination-log", "echo last > /dev/termination-log", id="default"),
        pytest.param("/kcr/said/so", "echo last > $(echo /kcr)/said/so", id="other"),
    ],
)
async def test_termination_message_is_read_where_it_is_written(
    processes: EmbeddedCluster, path: str, script: str
) -> None:
    """Source: test/e2e/common/node/runtime.go, should report termination message if TerminationMessagePath is set."""
    given = {"terminationMessagePath": path, "terminationMessagePolicy": "FallbackToLogsOnError"}
    await create(processes.client, "a", containers=[{**container(script), **given}])
    assert await output(processes, "a") == ""
    end = (await get(processes.client, "a")).status.container_statuses[0].state.terminated
    assert end is not None and end.message == "last\n"
    assert not await asyncio.to_thread(Path(path).exists)


async def test_volume_over_the_temporary_directory_hides_no_home(processes: EmbeddedCluster) -> None:
    script = 'ls /tmp/mine; echo x > /tmp/mine/y; test "$PWD" = "$HOME"; echo $?; echo last > $KCR_TERMINATION_LOG'
    volumes = [{"name": "v", "emptyDir": {}}]
    mounts = [{"name": "v", "mountPath": "/tmp"}, {"name": "v", "mountPath": "/tmp/mine", "subPath": "mine"}]
    spec = [{**container(script), "volumeMounts": mounts}]
    await create(processes.client, "a", containers=spec, volumes=volumes)
    assert await output(processes, "a") == "0\n"
    end = (await get(processes.client, "a")).status.container_statuses[0].state.terminated
    assert end is not None and end.message == "last\n"


async def test_variables_show_requests_and_limits(processes: EmbeddedCluster) -> None:
    references = {"MEMORY": {"resource": "requests.memory", "divisor": "1Mi"}, "CPU": {"resource": "limits.cpu"}}
    env = [{"name": name, "valueFrom": {"resourceFieldRef": reference}} for name, reference in references.items()]
    spec = {**container("echo $MEMORY $CPU"), "env": env, "resources": {"requests": {"memory": "64Mi"}}}
    await create(processes.client, "a", containers=[spec])
    # The limit that it has not got is the node's.
    assert await output(processes, "a") == "64 64\n"


async def test_missing_sub_path_variable_is_a_config_error(processes: EmbeddedCluster) -> None:
    mounts = [{"name": "v", "mountPath": "/kcr/v", "subPathExpr": "$(GONE)"}]
    spec = [{**container("true"), "volumeMounts": mounts}]
    await create(processes.client, "a", containers=spec, volumes=[{"name": "v", "emptyDir": {}}])

    async def waits() -> bool:
        pod = await get(processes.client, "a")
        return bool(pod.status.container_statuses) and state(pod) == "CreateContainerConfigError"

    await eventually(waits)
    assert ("Failed", 1, 'Error: missing value for "GONE"') in await events(processes.client, "a")


async def test_without_namespaces_paths_are_replaced(tmp_path: Path) -> None:
    async with EmbeddedCluster(runtime=None) as cluster, asyncio.TaskGroup() as group:
        await configure(cluster, "c", key="x")
        volumes = [{"name": "c", "configMap": {"name": "c"}}]
        pod = await create(cluster.client, "a", containers=[container("cat /kcr/c/key", c="/kcr/c")], volumes=volumes)
        warnings: list[tuple[str, str]] = []
        manager = PodVolumes(
            cluster.client, NodeInfo("node"), tmp_path, group,
            lambda _, reason, message: warnings.append((reason, message)), NamespaceSupport("", "for a test"),
        )  # fmt: skip
        (tmp_path / pod.metadata.uid).mkdir()
        assert await manager.mount(pod) is None
        spec = pod.spec.containers[0]
        given = ContainerStart(("cat", "/kcr/c/key"), {"KEY": "/kcr/c/key"}, tmp_path)
        for _ in range(2):
            start = await manager.apply(pod, spec, given)
        manager.close()
    key = start.variables["KEY"]
    assert start.namespace is None and start.argv == ("cat", key)
    assert await asyncio.to_thread(Path(key).read_text) == "x"
    assert start.variables["KCR_MOUNT_C"] == str(Path(key).parent)
    assert rewrite_paths(["test", "-e", "/kcr/c/key"], start.replaced) == ("test", "-e", key)
    assert [reason for reason, _ in warnings] == ["MountPathsReplaced"]
    assert "no mount namespaces here (for a test)" in warnings[0][1]


class BeforeReading:
    """A transport that does something just before an object is read."""

    def __init__(self, cluster: EmbeddedCluster, path: str, act: Callable[[], Awaitable[None]]) -> None:
        self._transport, self._path, self._act = cluster.transport, path, act

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        if (request.method, request.target) == ("GET", self._path):
            await self._act()
        async with self._transport.send(request) as response:
            yield response


async def test_change_while_a_pod_is_mounted_arrives(tmp_path: Path) -> None:
    async with EmbeddedCluster(runtime=None) as cluster, asyncio.TaskGroup() as group:
        uids = dict[str, str]()

        async def has(pod: str, text: str) -> None:
            file = tmp_path / uids[pod] / FOLDER / "c" / "key"
            await eventually(lambda: file.read_text() == text)

        async def change_and_see() -> None:
            await change(cluster, "c", key="new")
            await has("a", "new")

        transport = BeforeReading(cluster, "/api/v1/namespaces/default/configmaps/late", change_and_see)
        manager = PodVolumes(Client(transport), NodeInfo("node"), tmp_path, group, lambda *_: None)
        for name in ("c", "late"):
            await configure(cluster, name, key="old")
        for pod, volumes in (("a", ["c"]), ("b", ["c", "late"])):
            made = await create(
                cluster.client, pod, containers=[container("true", **{name: f"/{name}" for name in volumes})],
                volumes=[{"name": name, "configMap": {"name": name}} for name in volumes],
            )  # fmt: skip
            uids[pod] = made.metadata.uid
            assert await manager.mount(made) is None
        await has("b", "new")
        manager.close()
