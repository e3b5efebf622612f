"""The node with real processes, on the machine's own time."""

import asyncio
import base64
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kcr.api.core import ConfigMap, Secret
from kcr.testing import eventually
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node.pods import KubeletPod
from tests.kit.node_pods import create, delete, events, get, log, names, process_lives, state

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.skipif(shutil.which("bash") is None, reason="these tests run bash"),
]


@pytest_asyncio.fixture
async def processes() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(runtime="process") as cluster:
        yield cluster


def bash(script: str, **more: object) -> list[dict[str, object]]:
    return [{"name": "main", "image": "bash:5", "command": ["bash", "-c", script], **more}]


async def ended(cluster: EmbeddedCluster, name: str) -> KubeletPod:
    async def has_ended() -> KubeletPod | None:
        pod = await get(cluster.client, name)
        return pod if pod.status.phase in {"Succeeded", "Failed"} else None

    pod = await eventually(has_ended)
    assert pod is not None
    return pod


async def printed(cluster: EmbeddedCluster, name: str, text: str) -> str:
    """Wait until the pod's log contains a text, and return the log."""

    async def has_printed() -> str:
        pod = await get(cluster.client, name)
        if not pod.status.container_statuses or state(pod) == "ContainerCreating":
            return ""
        found = await log(cluster.client, name)
        return found if text in found else ""

    return await eventually(has_printed)


def exists(path: str) -> bool:
    return Path(path).exists()


async def test_output_and_errors_land_in_the_log(processes: EmbeddedCluster) -> None:
    await create(processes.client, "a", containers=bash("echo out; echo err >&2; echo last"))
    pod = await ended(processes, "a")
    assert (pod.status.phase, state(pod)) == ("Succeeded", "Completed 0")
    assert await log(processes.client, "a") == "out\nerr\nlast\n"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param("exit 7", "Error 7", id="exit-code"),
        pytest.param("kill -9 $BASHPID", "Error 137", id="killed"),
        pytest.param("kill -15 $BASHPID", "Error 143", id="terminated"),
    ],
)
async def test_end_of_the_process_becomes_the_exit_code(processes: EmbeddedCluster, script: str, expected: str) -> None:
    await create(processes.client, "a", containers=bash(script))
    pod = await ended(processes, "a")
    assert (pod.status.phase, state(pod)) == ("Failed", expected)


@pytest.mark.parametrize(
    ("container", "message"),
    [
        pytest.param({"command": ["no-such-program"]}, "executable file not found in $PATH", id="program"),
        pytest.param({"command": ["/no/such/program"]}, "no such file or directory", id="path"),
        pytest.param({"command": ["/"]}, "permission denied", id="directory"),
        pytest.param({"command": ["true"], "workingDir": "/no/such"}, "no such directory", id="working-directory"),
        pytest.param({"command": ["true", "\0"]}, "null byte", id="impossible-argument"),
        pytest.param(
            {"args": ["--serve"]},
            "not found in $PATH; args are arguments of an image's entrypoint",
            id="arguments-alone",
        ),
        pytest.param({"args": ["--serve"]}, "give container main a command", id="arguments-remedy"),
        pytest.param({}, 'image "app:1" has no default command here', id="nothing-to-run"),
        pytest.param({}, "give container main a command; images with one are alpine, bash", id="remedy"),
    ],
)
async def test_what_cannot_be_started_says_why(
    processes: EmbeddedCluster, container: dict[str, object], message: str
) -> None:
    await create(processes.client, "a", containers=[{"name": "main", "image": "app:1", **container}])
    pod = await ended(processes, "a")
    end = pod.status.container_statuses[0].state.terminated
    assert end is not None and (end.exit_code, end.reason) == (128, "StartError")
    assert message in end.message


async def test_environment_comes_from_the_spec_and_other_objects(processes: EmbeddedCluster) -> None:
    client = processes.client
    config = {"metadata": {"name": "c"}, "data": {"k": "from-config", "b": "1"}}
    secret = {"metadata": {"name": "s"}, "data": {"k": base64.b64encode(b"hush").decode()}}
    await client.create_manifest(ConfigMap, config, "default")
    await client.create_manifest(Secret, secret, "default")
    env = [
        {"name": "PLAIN", "value": "x"},
        {"name": "JOINED", "value": "$(PLAIN)-$$(PLAIN)"},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "CONFIG", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
        {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "NONE", "valueFrom": {"configMapKeyRef": {"name": "gone", "key": "k", "optional": True}}},
    ]
    script = 'echo "$PLAIN $JOINED $POD $CONFIG $SECRET ${NONE-unset} $IN_b $HOSTNAME"; test "$HOME" = "$PWD"'
    env_from = [{"prefix": "IN_", "configMapRef": {"name": "c"}}]
    await create(client, "a", containers=bash(script, env=env, envFrom=env_from))
    assert (await ended(processes, "a")).status.phase == "Succeeded"
    assert await log(client, "a") == "x x-$(PLAIN) a from-config hush unset 1 a\n"


async def test_missing_config_keeps_the_container_waiting(processes: EmbeddedCluster) -> None:
    env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "gone", "key": "k"}}}]
    await create(processes.client, "a", containers=bash("true", env=env))

    async def waits() -> bool:
        pod = await get(processes.client, "a")
        return bool(pod.status.container_statuses) and state(pod) == "CreateContainerConfigError"

    await eventually(waits)

    async def says_why() -> bool:
        return ("Failed", 1, 'Error: configmap "gone" not found') in await events(processes.client, "a")

    await eventually(says_why)


async def test_polite_process_ends_on_the_first_signal(processes: EmbeddedCluster) -> None:
    await create(processes.client, "a", containers=bash("trap 'exit 3' TERM; echo up; while :; do sleep 0.05; done"))
    await printed(processes, "a", "up")
    await delete(processes.client, "a")
    await eventually(lambda: _gone(processes, "a"))


async def test_stubborn_process_and_its_children_are_killed(processes: EmbeddedCluster) -> None:
    script = "trap '' TERM; sleep 600 & echo child $!; sleep 600; sleep 600"
    await create(processes.client, "a", grace=1, containers=bash(script))
    child = int((await printed(processes, "a", "child")).split()[1])
    assert process_lives(child)
    await delete(processes.client, "a")
    await eventually(lambda: _gone(processes, "a"))
    assert not process_lives(child)


async def _gone(cluster: EmbeddedCluster, name: str) -> bool:
    return name not in await names(cluster.client)


async def test_child_that_leaves_its_session_ends_with_the_container(processes: EmbeddedCluster) -> None:
    await create(processes.client, "a", containers=bash("setsid sleep 600 & echo child $!"))
    await ended(processes, "a")
    child = int((await log(processes.client, "a")).split()[1])
    await eventually(lambda: not process_lives(child))


async def test_no_process_and_no_file_outlives_the_node() -> None:
    async with EmbeddedCluster(runtime="process") as cluster:
        script = "trap '' TERM; sleep 600 & setsid sleep 600 >/dev/null 2>&1 & echo $BASHPID $! $HOME; sleep 600"
        await create(cluster.client, "a", containers=bash(script))
        first, second, home = (await printed(cluster, "a", "\n")).split()
        assert process_lives(int(first)) and exists(home)
    await eventually(lambda: not process_lives(int(first)) and not process_lives(int(second)))
    assert not exists(home)


async def test_directory_of_a_pod_goes_with_its_end(processes: EmbeddedCluster) -> None:
    await create(processes.client, "a", containers=bash("echo x > file; pwd"))
    await ended(processes, "a")
    directory = Path((await log(processes.client, "a")).strip())
    await eventually(lambda: not directory.exists())


async def test_last_words_come_from_the_file_or_the_log(processes: EmbeddedCluster) -> None:
    await create(processes.client, "a", containers=bash('echo because > "$KCR_TERMINATION_LOG"; exit 1'))
    fall_back = bash("echo from the log; exit 1", terminationMessagePolicy="FallbackToLogsOnError")
    await create(processes.client, "b", containers=fall_back)
    for name, message in (("a", "because\n"), ("b", "from the log\n")):
        end = (await ended(processes, name)).status.container_statuses[0].state.terminated
        assert end is not None and end.message == message


async def test_followed_log_ends_with_the_container(processes: EmbeddedCluster) -> None:
    await create(processes.client, "a", containers=bash("echo one; sleep 0.2; echo two"))
    await printed(processes, "a", "one")
    async with asyncio.timeout(5):
        assert await log(processes.client, "a", "?follow=true") == "one\ntwo\n"


@pytest.mark.soak
async def test_many_processes_run_at_once_without_threads(processes: EmbeddedCluster) -> None:
    for number in range(30):
        await create(processes.client, f"p{number}", containers=bash(f"echo {number}"))
    for number in range(30):
        await ended(processes, f"p{number}")
        assert await log(processes.client, f"p{number}") == f"{number}\n"


async def test_processes_of_other_nodes_survive_the_loss_of_one() -> None:
    async with EmbeddedCluster(runtime="process", nodes=2) as cluster:
        for number in range(2):
            selector = {"kubernetes.io/hostname": f"kcr-node-{number}"}
            await create(cluster.client, f"p{number}", containers=bash("echo up; sleep 600"), nodeSelector=selector)
        for number in range(2):
            await printed(cluster, f"p{number}", "up\n")
        await cluster.nodes["kcr-node-0"].delete()

        async def is_gone() -> bool:
            return await names(cluster.client) == {"p1"}

        await eventually(is_gone)
        assert state(await get(cluster.client, "p1")) == "running"
        # Ends of processes are still heard of.
        await create(cluster.client, "next", containers=bash("exit 3"))
        assert (await ended(cluster, "next")).status.phase == "Failed"


async def test_lost_node_leaves_no_process_behind(processes: EmbeddedCluster) -> None:
    await create(processes.client, "a", containers=bash("echo $$$$; exec sleep 600"))
    process = int(await printed(processes, "a", "\n"))
    assert processes.node is not None
    await processes.node.delete()
    await eventually(lambda: not process_lives(process))

    async def is_gone() -> bool:
        return await names(processes.client) == set()

    await eventually(is_gone)
