"""The API server that an integration test runs on: a real one where there is one, else the embedded one."""

import os
import secrets
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

from kcr.api.core import Namespace
from kcr.api.meta import ObjectMeta
from kcr.client import Client, HttpTransport
from kcr.client.auth.cluster import ClusterConfig, PemSource
from kcr.client.auth.credentials import Credential, FixedCredentials
from kcr.cluster import EmbeddedCluster
from kcr.testing.controlplane import control_plane, find_assets


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
async def api_server(real: ClusterConfig | None) -> AsyncIterator[ApiServer]:
    """Give a test a namespace on the real server, or an embedded server of its own."""
    if real is not None:
        async with _connected(real, is_real=True) as server:
            yield server
        return
    async with EmbeddedCluster(runtime=None) as cluster:
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
