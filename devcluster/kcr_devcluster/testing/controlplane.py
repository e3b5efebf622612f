"""A real etcd and kube-apiserver for tests, from the folder that `KUBEBUILDER_ASSETS` names.

The binaries and their folder are those of envtest, so binaries that `setup-envtest` fetched for other projects serve
here too. As there, no controllers run: nothing is collected, no pod is scheduled, and a namespace that is deleted
never ends.

Source: controller-runtime/pkg/internal/testing/controlplane, apiserver.go and etcd.go.
"""

import os
import secrets
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from kcr.api.core import Namespace
from kcr.api.meta import ObjectMeta
from kcr.client import Client, HttpTransport
from kcr.client.cluster_config import ClusterConfig, PemSource
from kcr.client.credentials import Credential, FixedCredentials
from kcr.clock import SystemClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.certificates import make_certificates
from kcr_devcluster.cluster.listener import kubeconfig_text
from kcr_devcluster.kinds import KindSource, definitions_of, install

VARIABLE = "KUBEBUILDER_ASSETS"
# How long each may take to start, and to stop after SIGTERM.
START_SECONDS = 20.0
STOP_SECONDS = 20.0
POLL_SECONDS = 0.1

_LOOPBACK = "127.0.0.1"


class Assets(NamedTuple):
    """The programs to start."""

    etcd: Path
    apiserver: Path


class Started(NamedTuple):
    """A running control plane.

    Attributes:
        config: How to reach it, as its admin.
        kubeconfig: The same as a file, for other programs.
        log: The API server's log.
    """

    config: ClusterConfig
    kubeconfig: Path
    log: Path


class HealthEndpoint(NamedTuple):
    """A health endpoint, which answers 200 when the program is healthy.

    Attributes:
        url: The URL.
        authority: The authority of its certificate, as PEM; empty for plain HTTP.
        token: Sent as bearer token, when given.
    """

    url: str
    authority: str = ""
    token: str = ""


def find_assets(environ: Mapping[str, str]) -> Assets | None:
    """Return the programs, or None when the variable is not set.

    Raises:
        FileNotFoundError: The variable names a folder without them.
    """
    folder = environ.get(VARIABLE)
    if not folder:
        return None
    assets = Assets(Path(folder, "etcd"), Path(folder, "kube-apiserver"))
    missing = [path.name for path in assets if not path.is_file()]
    if missing:
        raise FileNotFoundError(f"{VARIABLE} names {folder}, which has no {' and no '.join(missing)}")
    return assets


def etcd_command(etcd: Path, folder: Path, port: int) -> list[str]:
    """Return the command line of etcd.

    Args:
        etcd: The program.
        folder: Where it keeps its data.
        port: Where the API server finds it.
    """
    url = f"http://{_LOOPBACK}:{port}"
    return [
        str(etcd),
        f"--data-dir={folder}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        # It has no peers: any port will do.
        f"--listen-peer-urls=http://{_LOOPBACK}:0",
        # Durability is not needed.
        "--unsafe-no-fsync=true",
    ]


def apiserver_command(apiserver: Path, folder: Path, port: int, etcd_port: int) -> list[str]:
    """Return the command line of kube-apiserver.

    Args:
        apiserver: The program.
        folder: Where `write_secrets` has put keys and tokens.
        port: Where it listens.
        etcd_port: Where etcd listens.
    """
    return [
        str(apiserver),
        f"--etcd-servers=http://{_LOOPBACK}:{etcd_port}",
        f"--bind-address={_LOOPBACK}",
        f"--advertise-address={_LOOPBACK}",
        f"--secure-port={port}",
        f"--cert-dir={folder}",
        f"--tls-cert-file={folder / 'server.crt'}",
        f"--tls-private-key-file={folder / 'server.key'}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        f"--service-account-issuer=https://{_LOOPBACK}:{port}/",
        f"--service-account-key-file={folder / 'accounts.pub'}",
        f"--service-account-signing-key-file={folder / 'accounts.key'}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--allow-privileged=true",
        "--authorization-mode=RBAC",
        # No controller creates service accounts, so pods must do without.
        "--disable-admission-plugins=ServiceAccount",
    ]


def write_secrets(folder: Path, token: str) -> str:
    """Write the API server's certificate, token and account keys; return the authority's certificate."""
    certificates = make_certificates(SystemClock().now())
    accounts = ec.generate_private_key(ec.SECP256R1())
    public = accounts.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for name, content in (
        ("server.crt", certificates.server),
        ("server.key", certificates.key),
        ("tokens.csv", f'{token},admin,admin,"system:masters"\n'.encode()),
        ("accounts.key", accounts.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())),
        ("accounts.pub", public),
    ):
        path = folder / name
        path.touch(0o600)
        path.write_bytes(content)
    return certificates.authority.decode()


@contextmanager
def control_plane(assets: Assets, folder: Path) -> Iterator[Started]:
    """Run etcd and kube-apiserver for as long as the context lives.

    Args:
        assets: The programs.
        folder: An empty folder of their own.

    Raises:
        RuntimeError: One of them does not come up; the message has its last words.
    """
    token, etcd_port, port = secrets.token_urlsafe(24), free_port(), free_port()
    authority = write_secrets(folder, token)
    url = f"https://{_LOOPBACK}:{port}"
    with ExitStack() as stack:
        etcd = etcd_command(assets.etcd, folder / "etcd", etcd_port)
        stack.enter_context(
            running(etcd, folder / "etcd.log", HealthEndpoint(f"http://{_LOOPBACK}:{etcd_port}/health"))
        )
        apiserver = apiserver_command(assets.apiserver, folder, port, etcd_port)
        log = folder / "kube-apiserver.log"
        stack.enter_context(running(apiserver, log, HealthEndpoint(f"{url}/readyz", authority, token)))
        credentials = FixedCredentials(Credential.bearer(token))
        config = ClusterConfig(
            server=url, origin=VARIABLE, credentials=credentials, ca=PemSource(text=authority, field="ca")
        )
        kubeconfig = folder / "kubeconfig"
        kubeconfig.touch(0o600)
        kubeconfig.write_text(kubeconfig_text(url, token, authority))
        yield Started(config, kubeconfig, log)


@contextmanager
def running(
    command: Sequence[str],
    log: Path,
    health: HealthEndpoint,
    *,
    start_seconds: float = START_SECONDS,
    stop_seconds: float = STOP_SECONDS,
) -> Iterator[None]:
    """Run a program until the context ends; the context begins once the program is healthy.

    Args:
        command: Its command line.
        log: The file of its output.
        health: Its health endpoint.
        start_seconds: How long it has to come up.
        stop_seconds: How long it has to end after SIGTERM; then it is killed.

    Raises:
        RuntimeError: It does not come up; the message has its last words.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
    try:
        for _ in range(round(start_seconds / POLL_SECONDS)):
            if process.poll() is not None:
                raise RuntimeError(f"{command[0]} ended with code {process.returncode}: {_last_words(log)}")
            if _is_well(health):
                break
            time.sleep(POLL_SECONDS)
        else:
            raise RuntimeError(f"{command[0]} is not up after {start_seconds:g} s: {_last_words(log)}")
        yield
    finally:
        process.terminate()
        try:
            process.wait(stop_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port() -> int:
    """Return a port that is free at the moment."""
    with socket.socket() as listener:
        listener.bind((_LOOPBACK, 0))
        port: int = listener.getsockname()[1]
        return port


def _is_well(health: HealthEndpoint) -> bool:
    headers = {"Authorization": f"Bearer {health.token}"} if health.token else {}
    request = urllib.request.Request(health.url, headers=headers)
    # No proxy of the environment stands between us and this machine.
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if health.authority:
        handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cadata=health.authority)))
    with suppress(OSError), urllib.request.build_opener(*handlers).open(request, timeout=5) as answer:
        return bool(answer.status == 200)
    return False


def _last_words(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:].strip() or "it said nothing"


class ApiServer(NamedTuple):
    """An API server, over TLS, and a namespace on it that is the test's own.

    Attributes:
        client: The admin's client.
        transport: The admin's transport, to wrap with faults or to make other clients of.
        namespace: Empty at first. Others may be there, from other tests.
        is_real: Whether it is kube-apiserver. No controllers run beside it then, no garbage collector either.
    """

    client: Client
    transport: HttpTransport
    namespace: str
    is_real: bool


@contextmanager
def real_server() -> Iterator[ClusterConfig | None]:
    """Run the programs in the folder that `KUBEBUILDER_ASSETS` names; None when it names none."""
    assets = find_assets(os.environ)
    if assets is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="kcr-") as folder, control_plane(assets, Path(folder)) as started:
        yield started.config


@asynccontextmanager
async def api_server(real: ClusterConfig | None, *, kinds: Sequence[KindSource] = ()) -> AsyncIterator[ApiServer]:
    """Give a test a namespace on the real server, or an embedded server of its own.

    Args:
        real: The real server, if there is one.
        kinds: Kinds that it serves beside the built-in ones; a real server keeps them.
    """
    if real is not None:
        async with _connected(real, is_real=True) as server:
            await install(server.client, definitions_of(kinds))
            yield server
        return
    async with EmbeddedCluster(runtime=None, kinds=kinds, deployments=False) as cluster:
        address = await cluster.serve()
        credentials = FixedCredentials(Credential.bearer(address.token))
        config = ClusterConfig(
            server=address.url, credentials=credentials, ca=PemSource(text=address.ca_pem, field="ca")
        )
        async with _connected(config, is_real=False) as server:
            yield server


@asynccontextmanager
async def _connected(config: ClusterConfig, *, is_real: bool) -> AsyncIterator[ApiServer]:
    async with HttpTransport(config) as transport:
        client = Client(transport)
        name = f"test-{secrets.token_hex(4)}"
        await client.create(Namespace(metadata=ObjectMeta(name=name)))
        yield ApiServer(client, transport, name, is_real)
