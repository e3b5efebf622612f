"""exec and attach over WebSockets, as client libraries use them.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/util/proxy/{websocket,streamtranslator}.go.
"""

import asyncio
import shutil

import aiohttp
import pytest

from kcr.testing import eventually
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.faults import FaultRule
from tests.kit.node_pods import create, delete, process_lives
from tests.kit.pod_connections import PODS, PodClient, pod_client, running_pod

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.skipif(shutil.which("bash") is None, reason="these tests run bash"),
]
SUCCESS = {"metadata": {}, "status": "Success"}


def bash(script: str) -> tuple[str, ...]:
    return ("bash", "-c", script)


@pytest.mark.parametrize("version", [4, 5])
async def test_output_comes_by_channel_and_the_exit_code_last(pods: PodClient, version: int) -> None:
    async with pods.exec("a", bash("echo out; echo err >&2; exit 7"), version) as connection:
        status = await connection.status()
    assert (connection.channels[1], connection.channels[2]) == (b"out\n", b"err\n")
    assert status == {
        "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
        "message": "command terminated with non-zero exit code: command terminated with exit code 7",
        "details": {"causes": [{"reason": "ExitCode", "message": "7"}]},
    }  # fmt: skip


async def test_empty_message_says_that_the_connection_is_open(pods: PodClient) -> None:
    async with pods.exec("a", ("true",)) as connection:
        assert (await connection.socket.receive()).data == b"\x01"
        assert await connection.status() == SUCCESS


async def test_input_ends_where_the_client_closes_its_channel(pods: PodClient) -> None:
    async with pods.exec("a", ("wc", "-c"), stdin="true") as connection:
        await connection.type(b"12345")
        await connection.socket.send_str("\x006789")
        await connection.end_input()
        assert await connection.status() == SUCCESS
        assert connection.output.strip() == "9"


async def test_long_message_is_taken_as_a_whole(pods: PodClient) -> None:
    async with pods.exec("a", ("wc", "-c"), stdin="true") as connection:
        await connection.type(bytes(5_000_000))
        await connection.end_input()
        assert await connection.status() == SUCCESS
        assert connection.output.strip() == "5000000"


async def test_terminal_takes_its_size_from_the_client(pods: PodClient) -> None:
    script = 'until [ "$(stty size)" = "33 99" ]; do sleep 0.02; done; read line; echo "<$line>"'
    async with pods.exec("a", bash(script), tty="true", stdin="true") as connection:
        await connection.resize(99, 33)
        await connection.type(b"typed\n")
        assert await connection.status() == SUCCESS
        assert connection.output.endswith("<typed>\r\n")


@pytest.mark.parametrize("size", [b"", b"{", b'{"Width": -1, "Height": 5}', b'{"Width": 99999999, "Height": 5}'])
async def test_impossible_size_is_ignored(pods: PodClient, size: bytes) -> None:
    async with pods.exec("a", bash("read x; echo $x"), tty="true", stdin="true") as connection:
        await connection.socket.send_bytes(b"\x04" + size)
        await connection.type(b"on\n")
        assert await connection.status() == SUCCESS


async def test_program_that_is_not_there_is_an_internal_error(pods: PodClient) -> None:
    async with pods.exec("a", ("no-such-program",)) as connection:
        status = await connection.status()
    assert (status["status"], status["reason"], status["code"]) == ("Failure", "InternalError", 500)
    assert status["message"].startswith("Internal error occurred: Internal error occurred: error executing command in")
    assert status["message"].endswith('exec: "no-such-program": executable file not found in $PATH')


async def test_missing_program_is_missing_beside_volumes(process_cluster: EmbeddedCluster, pods: PodClient) -> None:
    mounts = [{"name": "v", "mountPath": "/kcr/v"}]
    main = {"name": "main", "image": "x", "command": ["sleep", "600"], "volumeMounts": mounts}
    await create(process_cluster.client, "mounted", grace=0, containers=[main], volumes=[{"name": "v", "emptyDir": {}}])
    await eventually(lambda: _is_running(pods, "mounted"))
    async with pods.exec("mounted", ("no-such-program",)) as connection:
        status = await connection.status()
    assert status["message"].endswith('exec: "no-such-program": executable file not found in $PATH')
    program = bash('cp "$(type -P true)" /kcr/v/mine')
    async with pods.exec("mounted", program) as connection:
        assert await connection.status() == SUCCESS
    async with pods.exec("mounted", ("/kcr/v/mine",)) as connection:
        assert await connection.status() == SUCCESS


async def test_container_that_does_not_run_is_not_found(process_cluster: EmbeddedCluster, pods: PodClient) -> None:
    await create(process_cluster.client, "waits", containers=[{"name": "main", "image": "x", "command": ["true"]}])
    await eventually(lambda: _has_node(pods, "waits"))
    async with pods.exec("waits", ("true",)) as connection:
        status = await connection.status()
    expected = 'Internal error occurred: unable to upgrade connection: container not found ("main")'
    assert status["message"] == expected
    # A version that the kubelet serves itself is not upgraded.
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        async with pods.exec("waits", ("true",), 4):
            pass
    assert refused.value.status == 500


async def _is_running(pods: PodClient, name: str) -> bool:
    async with pods.session.get(f"{PODS}/{name}") as response:
        return bool((await response.json())["status"]["phase"] == "Running")


async def _has_node(pods: PodClient, name: str) -> bool:
    async with pods.session.get(f"{PODS}/{name}") as response:
        pod = await response.json()
        return "nodeName" in pod["spec"] and pod["status"]["phase"] == "Succeeded"


async def test_client_that_disconnects_ends_its_command(pods: PodClient) -> None:
    async with pods.exec("a", bash("echo $$; exec sleep 600")) as connection:
        await connection.read_until("\n")
    await eventually(lambda: not process_lives(int(connection.output)))


async def test_client_whose_input_is_not_read_ends_its_command_too(pods: PodClient) -> None:
    async with pods.exec("a", bash("echo $$; exec sleep 600"), stdin="true") as connection:
        await connection.read_until("\n")
        for _ in range(3):
            await connection.type(bytes(900_000))
        assert connection.socket._response.connection is not None  # nothing public cuts a connection
        connection.socket._response.connection.transport.abort()
    await eventually(lambda: not process_lives(int(connection.output)))


async def test_long_output_arrives_as_a_whole(pods: PodClient) -> None:
    async with pods.exec("a", bash("head -c 30000000 /dev/zero; echo done >&2")) as connection:
        assert await connection.status() == SUCCESS
        assert (len(connection.channels[1]), connection.channels[2]) == (30_000_000, b"done\n")


@pytest.mark.soak
async def test_hundred_commands_run_at_once(pods: PodClient) -> None:
    async def run(number: int) -> str:
        async with pods.exec("a", bash(f"read x; echo {number} $x"), stdin="true") as connection:
            await started.wait()
            await connection.type(b"go\n")
            await connection.status()
            output: str = connection.output
            return output

    started = asyncio.Barrier(100)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run(number)) for number in range(100)]
    assert [task.result() for task in tasks] == [f"{number} go\n" for number in range(100)]


async def test_command_ends_with_its_pod(process_cluster: EmbeddedCluster, pods: PodClient) -> None:
    async with pods.exec("a", bash("echo up; exec sleep 600")) as connection:
        await connection.read_until("up")
        await delete(process_cluster.client, "a")
        status = await connection.status()
    assert status["details"]["causes"][0]["message"] == "137"


async def test_listener_that_closes_says_so_to_its_clients() -> None:
    cluster = await EmbeddedCluster(runtime="process").__aenter__()
    async with pod_client(await cluster.serve()) as pods:
        await running_pod(cluster, "a")
        async with pods.exec("a", bash("echo $$; exec sleep 600")) as connection:
            await connection.read_until("\n")
            async with asyncio.timeout(5):
                await cluster.__aexit__(None, None, None)
            message = await connection.socket.receive()
            assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, aiohttp.WSCloseCode.GOING_AWAY)
    assert not process_lives(int(connection.output))


async def test_attached_client_types_and_reads_from_now_on(process_cluster: EmbeddedCluster, pods: PodClient) -> None:
    script = "echo before; while read x; do echo got $x; done; echo end"
    await running_pod(process_cluster, "b", script, stdin=True, stdinOnce=True)
    async with pods.attach("b", stdin="true") as connection:
        await connection.type(b"one\n")
        await connection.read_until("got one")
        await connection.end_input()
        assert await connection.status() == SUCCESS
        assert connection.output == "got one\nend\n"


async def test_standard_input_without_once_outlives_its_client(
    process_cluster: EmbeddedCluster, pods: PodClient
) -> None:
    await running_pod(process_cluster, "b", "while read x; do echo got $x; done", stdin=True)
    async with pods.attach("b", stdin="true") as first:
        await first.type(b"one\n")
        await first.read_until("got one")
        await first.end_input()
    async with pods.attach("b", stdin="true") as second:
        await second.type(b"two\n")
        await second.read_until("got two")


async def test_container_with_a_terminal_is_attached_to(process_cluster: EmbeddedCluster, pods: PodClient) -> None:
    script = 'until [ "$(stty size)" = "33 99" ]; do sleep 0.02; done; echo "$TERM"; read x; echo "<$x>"'
    await running_pod(process_cluster, "b", script, stdin=True, tty=True)
    async with pods.attach("b", stdin="true", tty="true") as connection:
        await connection.resize(99, 33)
        await connection.read_until("xterm")
        await connection.type(b"typed\n")
        assert await connection.status() == SUCCESS
        assert connection.output == "xterm\r\ntyped\r\n<typed>\r\n"


async def test_container_without_standard_input_only_shows(process_cluster: EmbeddedCluster, pods: PodClient) -> None:
    await running_pod(process_cluster, "b", "while true; do echo tick; sleep 0.05; done")
    async with pods.attach("b", stdin="true") as connection:
        await connection.type(b"ignored\n")
        await connection.read_until("tick\ntick\n")


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        pytest.param(FaultRule(verb="get", name="a", fail=503), aiohttp.WSServerHandshakeError, id="fail"),
        pytest.param(FaultRule(verb="get", name="a", lose_reply=True), aiohttp.ServerDisconnectedError, id="lost"),
    ],
)
async def test_faults_of_the_listener_meet_connections(
    process_cluster: EmbeddedCluster, pods: PodClient, rule: FaultRule, error: type[Exception]
) -> None:
    process_cluster.faults.add(rule)
    with pytest.raises(error):
        async with pods.exec("a", ("true",)):
            pass
    process_cluster.faults.heal()
    async with pods.exec("a", ("true",)) as connection:
        assert await connection.status() == SUCCESS


async def test_simulated_containers_refuse_with_a_remedy() -> None:
    async with EmbeddedCluster() as cluster, pod_client(await cluster.serve()) as pods:
        await create(cluster.client, "a", containers=[{"name": "main", "image": "x"}])
        await eventually(lambda: _runs(pods))
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            async with pods.exec("a", ("true",)):
                pass
    assert refused.value.status == 501


async def _runs(pods: PodClient) -> bool:
    async with pods.session.get(f"{PODS}/a") as response:
        return bool((await response.json())["status"]["phase"] == "Running")
