"""Commands in pods and forwarded ports, without a socket and through the TLS port of the process runtime.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/util/proxy/{websocket,streamtranslator}.go;
kubernetes/staging/src/k8s.io/kubelet/pkg/cri/streaming/portforward/websocket.go.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from structlog.testing import capture_logs

import kcr
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.client import Client, ClusterConfig, HttpTransport, load_config
from kcr.client.context import writing
from kcr.errors import ApiError, BadRequestError, ForbiddenError, KcrError, NotFoundError, ServerError, TransportError
from kcr.testing import CrashingTransport, FaultyTransport, eventually
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.rights import RightsInUse
from tests.kit.node_pods import create
from tests.kit.pod_connections import running_pod

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(shutil.which("bash") is None, reason="these tests run bash"),
]
A, B = Key("default", "a"), Key("default", "b")
RBAC = "rbac.authorization.k8s.io/v1"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(runtime="process") as cluster:
        await running_pod(cluster, "a")
        await create(cluster.client, "b", containers=[{"name": "main", "image": "bash:5", "command": ["true"]}])

        async def has_ended() -> bool:
            return (await cluster.client.get(Pod, B)).status.phase in ("Succeeded", "Failed")

        await eventually(has_ended)
        yield cluster


@asynccontextmanager
async def over_tls(kubeconfig: str, folder: Path) -> AsyncIterator[Client]:
    (folder / "kubeconfig").write_text(kubeconfig)
    async with HttpTransport(load_config(str(folder / "kubeconfig"))) as transport:
        yield Client(transport)


@pytest_asyncio.fixture(params=["in-process", "tls"], loop_scope="module")
async def client(request: pytest.FixtureRequest, cluster: EmbeddedCluster, tmp_path: Path) -> AsyncIterator[Client]:
    if request.param == "in-process":
        yield cluster.client
        return
    async with over_tls((await cluster.serve()).kubeconfig, tmp_path) as client:
        yield client


async def test_command_has_output_and_an_exit_code(client: Client) -> None:
    result = await client.exec(A, ["bash", "-c", "echo out; echo err >&2; exit 3"])
    assert result == (b"out\n", b"err\n", 3)
    assert (await client.exec(A, ["true"], container="main")).exit_code == 0


async def test_large_input_comes_back_whole(client: Client) -> None:
    data = bytes(range(256)) * 4096
    result = await client.exec(A, ["cat"], stdin=data, timeout=60)
    assert (result.stdout == data, result.exit_code) == (True, 0)
    assert (await client.exec(A, ["head", "-c", "3"], stdin=data)).stdout == data[:3]


async def test_stream_is_written_and_read_by_turns(client: Client) -> None:
    async with client.exec_stream(
        A, ["bash", "-c", "while read x; do echo got $x; done; exit 5"], stdin=True
    ) as stream:
        output = aiter(stream)
        for word in (b"one", b"two"):
            await stream.write(word + b"\n")
            assert await anext(output) == ("stdout", b"got " + word + b"\n")
        assert stream.exit_code is None
        await stream.close_stdin()
        assert [one async for one in output] == []
        assert stream.exit_code == 5


async def test_command_that_takes_too_long_is_left(client: Client) -> None:
    with pytest.raises(TransportError, match=r"exec of \['sleep', '60'\] in pod default/a: not ended within 0\.2 s"):
        await client.exec(A, ["sleep", "60"], timeout=0.2)


async def test_writer_waits_for_a_command_that_does_not_read(client: Client) -> None:
    async with client.exec_stream(A, ["sleep", "60"], stdin=True) as stream:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await stream.write(bytes(64 << 20))


async def test_endless_output_is_refused_and_bounded(client: Client) -> None:
    with pytest.raises(TransportError, match="more than 32 MiB of output: use exec_stream"):
        await client.exec(A, ["cat", "/dev/zero"])
    async with client.exec_stream(A, ["cat", "/dev/zero"]) as stream:
        assert (await anext(aiter(stream)))[0] == "stdout"


REFUSED = {
    "no-pod": (Key("default", "x"), ["ls"], "", NotFoundError, "exec of ['ls'] in pod default/x: pods \"x\" not found"),
    "no-container": (
        A, ["ls"], "z", BadRequestError,
        "exec of ['ls'] in pod default/a, container z: container z is not valid for pod a: see kubectl -n default "
        "describe pod a",
    ),
    "no-program": (
        A, ["no-such-program"], "", ServerError,
        "exec of ['no-such-program'] in pod default/a: Internal error occurred: Internal error occurred: error "
        'executing command in container: exec: "no-such-program": executable file not found in $PATH: is the container '
        "running, and the program in its image?",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("key", "command", "container", "error", "message"), REFUSED.values(), ids=REFUSED)
async def test_refusal_names_pod_and_remedy(
    client: Client, key: Key, command: list[str], container: str, error: type[KcrError], message: str
) -> None:
    with pytest.raises(error) as raised:
        await client.exec(key, command, container=container)
    assert str(raised.value) == message


async def test_pod_without_running_container_is_refused(client: Client) -> None:
    with pytest.raises(ServerError, match=r'container not found \("main"\): is the container running'):
        await client.exec(B, ["ls"])
    with pytest.raises(
        ServerError, match=r'^port 80 of pod default/b: HTTP 500: pod not found \("b_default"\): see kubectl'
    ):
        async with client.port_forward(B, 80):
            pass


class Relay:
    """Relays connections to a port, until they are cut."""

    def __init__(self) -> None:
        self._writers: list[asyncio.StreamWriter] = []

    @asynccontextmanager
    async def to(self, port: int) -> AsyncIterator[int]:
        async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(OSError):
                while data := await reader.read(65536):
                    writer.write(data)
            writer.close()

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, upstream = await asyncio.open_connection("127.0.0.1", port)
            self._writers += [writer, upstream]
            async with asyncio.TaskGroup() as group:
                group.create_task(pump(reader, upstream))
                group.create_task(pump(there, writer))

        async with await asyncio.start_server(relay, "127.0.0.1", 0) as server:
            yield server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


async def test_connection_cut_in_the_middle_names_what_may_still_run(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    address, relay = await cluster.serve(), Relay()
    port = int(address.url.rpartition(":")[2])
    async with relay.to(port) as relayed:
        kubeconfig = address.kubeconfig.replace(str(port), str(relayed))
        async with over_tls(kubeconfig, tmp_path) as client:
            with pytest.raises(TransportError, match="the connection was cut before its end, so it may still run"):
                async with client.exec_stream(A, ["bash", "-c", "echo hi; sleep 60"]) as stream:
                    async for _ in stream:
                        relay.cut()
            async with client.exec_stream(A, ["sleep", "60"], stdin=True) as stream:
                relay.cut()
                with pytest.raises(TransportError, match="exec"):
                    while True:
                        await stream.write(bytes(1 << 20))
            with pytest.raises(TransportError, match="so it may still run"):
                async with asyncio.TaskGroup() as group:
                    group.create_task(called_soon(relay.cut))
                    outcome = await returned(client.exec(A, ["sleep", "60"], stdin=bytes(8 << 20)))
                raise outcome


async def called_soon(call: Callable[[], None]) -> None:
    await asyncio.sleep(0.3)
    call()


async def returned(call: Awaitable[object]) -> Exception:
    try:
        await call
    except Exception as error:
        return error
    raise AssertionError("it has not failed")


@asynccontextmanager
async def serving(handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> AsyncIterator[Client]:
    runner = web.ServerRunner(web.Server(handle), shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        async with HttpTransport(ClusterConfig(server=f"http://127.0.0.1:{runner.addresses[0][1]}")) as transport:
            yield Client(transport)
    finally:
        await runner.cleanup()


async def test_server_of_version_4_runs_commands_without_input() -> None:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if request.headers["Sec-WebSocket-Protocol"] == "v5.channel.k8s.io":
            return web.Response(status=403)
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        await socket.send_bytes(b"\x01")
        await socket.send_bytes(b"\x02err")
        await socket.send_bytes(b'\x03{"status":"Failure","details":{"causes":[{"reason":"ExitCode","message":"7"}]}}')
        await socket.close()
        return socket

    async with serving(handle) as client:
        assert await client.exec(A, ["ls"]) == (b"", b"err", 7)
        with pytest.raises(
            ApiError, match=r"^exec of \['cat'\] in pod default/a: .*403.*standard input needs Kubernetes 1.30"
        ):
            await client.exec(A, ["cat"], stdin=b"x")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(web.Response(text="hello"), "HTTP 200 in place of a WebSocket: is there a proxy", id="page"),
        pytest.param(web.Response(status=502, text="no"), "502", id="bad-gateway"),
    ],
)
async def test_answer_without_a_websocket_is_an_error(answer: web.Response, message: str) -> None:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        return answer

    async with serving(handle) as client:
        with pytest.raises(KcrError, match=message):
            await client.exec(A, ["ls"])


class NotLeaderError(Exception):
    pass


async def test_fence_and_dry_run_prevent_commands_and_ports(client: Client) -> None:
    def refuse() -> None:
        raise NotLeaderError

    fenced, dry = client.with_options(fence=refuse), client.with_options(dry_run=True)
    for refusing, error in ((fenced, NotLeaderError), (dry, KcrError)):
        with pytest.raises(error):
            await refusing.exec(A, ["touch", "/tmp/never"])
        with pytest.raises(error):
            async with refusing.port_forward(A, 80):
                pass


@asynccontextmanager
async def answering() -> AsyncIterator[int]:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=await request.read() * 2)

    runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def test_port_of_a_pod_answers_on_a_local_port(client: Client) -> None:
    # Pods have the machine's address.
    data = bytes(range(256)) * 4096
    async with (
        answering() as port,
        client.port_forward(A, port) as local,
        aiohttp.ClientSession(f"http://127.0.0.1:{local}") as session,
    ):

        async def double() -> None:
            async with session.post("/", data=data) as answer:
                assert await answer.read() == data * 2

        async with asyncio.TaskGroup() as group:
            for _ in range(5):
                group.create_task(double())
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", local)


async def test_connection_refused_by_the_pod_is_closed_and_logged(client: Client) -> None:
    async with answering() as port:
        pass
    with capture_logs() as logs:
        async with client.port_forward(A, port) as local:
            reader, writer = await asyncio.open_connection("127.0.0.1", local)
            assert await reader.read() == b""
            writer.close()
    (line,) = [line for line in logs if line["event"] == "port-forward: connection refused"]
    assert line["error"].startswith(f"port {port} of pod default/a: error forwarding port {port}")
    assert line["error"].endswith("Connection refused")


async def test_refusal_of_a_port_is_raised_at_once(client: Client) -> None:
    with pytest.raises(NotFoundError, match=r'^port 80 of pod default/x: pods "x" not found$'):
        async with client.port_forward(Key("default", "x"), 80):
            pass
    async with answering() as port:
        with pytest.raises(OSError, match="address already in use"):
            async with client.port_forward(A, port, local_port=port):
                pass
        with pytest.raises(ZeroDivisionError):
            async with client.port_forward(A, port):
                raise ZeroDivisionError


async def test_rights_to_get_and_to_create_are_needed() -> None:
    async with EmbeddedCluster(runtime="process", authorization="rbac") as cluster:
        await running_pod(cluster, "a")
        jane = cluster.client_as("jane")
        for verbs, missing in ((["get"], "create"), (["create"], "get"), (["get", "create"], "")):
            await grant(cluster.client, verbs)
            if missing:
                with pytest.raises(ForbiddenError, match=f'cannot {missing} resource "pods/exec"'):
                    await jane.exec(A, ["true"])
            else:
                assert (await jane.exec(A, ["true"])).exit_code == 0


async def grant(client: Client, verbs: list[str]) -> None:
    role = kcr.unstructured(RBAC, "Role", plural="roles")
    binding = kcr.unstructured(RBAC, "RoleBinding", plural="rolebindings")
    metadata = {"name": "execs", "namespace": "default"}
    await client.apply_manifest(role, {
        "apiVersion": RBAC, "kind": "Role", "metadata": metadata,
        "rules": [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": verbs}],
    })  # fmt: skip
    await client.apply_manifest(binding, {
        "apiVersion": RBAC, "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": RBAC.partition("/")[0], "kind": "Role", "name": "execs"},
        "subjects": [{"apiGroup": RBAC.partition("/")[0], "kind": "User", "name": "jane"}],
    })  # fmt: skip


async def test_manager_uses_both_rights(cluster: EmbeddedCluster) -> None:
    in_use = RightsInUse()
    with writing(observers=(in_use,)):
        manager = kcr.Manager(cluster.client)
    with writing(manager=manager):
        await manager.client.exec(A, ["true"])
        async with manager.client.port_forward(A, 80):
            pass
    used = {(right.resource, right.verb) for _, right in in_use.used}
    assert used == {(f"pods/{name}", verb) for name in ("exec", "portforward") for verb in ("get", "create")}


async def test_faulty_and_crashing_transports_carry_connections(cluster: EmbeddedCluster) -> None:
    crashing = CrashingTransport(FaultyTransport(cluster.transport))
    assert (await Client(crashing).exec(A, ["cat"], stdin=b"x")).stdout == b"x"
