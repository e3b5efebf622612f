"""The two servers that the corpus is asked on: the embedded one, and a real one where `KUBEBUILDER_ASSETS` names it."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any, Protocol

import msgspec

from kcr.client import Client, ClusterConfig, HttpTransport
from kcr.client.wire.transport import Request, Transport
from kcr.clock import SystemClock
from kcr.errors import TransportError
from kcr.manager import Manager
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.controllers import policy_status
from kcr_devcluster.testing.controlplane import real_server
from kcr_devcluster.transport import InProcessTransport
from kcr_devcluster.versions import VERSIONS
from tests.chaos.fuzz_jobs.control_plane import both_controllers_plane, find_program
from tests.kit.clocks import FixedClock

# The controller that writes into the status of policies what is wrong with the types of their expressions.
TYPE_CHECKS = "validatingadmissionpolicy-status-controller"
# How many requests a real server is sent at a time.
TOGETHER = 8
# How long an answer may take.
SECONDS = 20.0


class Send(Protocol):
    """Sends a request."""

    async def __call__(
        self, method: str, target: str, body: Any, *, decode: bool = True, **headers: str
    ) -> tuple[int, Any]:
        """Return the code and the body of the answer; a body that is not bytes is sent as JSON.

        Args:
            method: The method.
            target: Path and query.
            body: The body, None for none.
            decode: Whether an answer in JSON is decoded.
            headers: By names such as `content_type`; both ways JSON by default.
        """
        ...


def sender(transport: Transport, together: int) -> Send:
    """Return what sends so many requests at a time at most."""
    free = asyncio.Semaphore(together)

    async def send(method: str, target: str, body: Any, *, decode: bool = True, **headers: str) -> tuple[int, Any]:
        named = {"content_type": "application/json", "accept": "application/json"} | headers
        named = {name.replace("_", "-").title(): value for name, value in named.items()}
        data = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        try:
            async with free, asyncio.timeout(SECONDS), transport.send(Request(method, target, named, data)) as answer:
                read = await answer.read()
                return answer.status, _decoded(read) if decode else read.decode(errors="surrogateescape")
        except (TransportError, TimeoutError):
            # A handler panics, or a watch goes on.
            return 0, "no answer"

    return send


def _decoded(read: bytes) -> Any:
    try:
        return msgspec.json.decode(read)
    except msgspec.DecodeError:
        return read.decode(errors="surrogateescape")


@asynccontextmanager
async def embedded() -> AsyncIterator[Send]:
    """Give the embedded server of the recorded version, with the controller that checks the types of policies."""
    async with EmbeddedCluster(
        # Managers are in the order of their seconds.
        clock=FixedClock(SystemClock().now()),
        random=random.Random(0),
        runtime=None,
        gc=False,
        deployments=False,
        kubernetes_version=VERSIONS[0],
    ) as cluster:
        transport = InProcessTransport(cluster.server)
        manager = Manager(Client(transport))
        policy_status.setup(manager, cluster.server.admission.served)
        async with manager.running():
            yield sender(transport, 1)


@asynccontextmanager
async def real() -> AsyncIterator[Send | None]:
    """Give the real server, None where there is none."""
    with _plane() as config:
        if config is None:
            yield None
            return
        async with HttpTransport(config) as transport:
            yield sender(transport, TOGETHER)


def _plane() -> AbstractContextManager[ClusterConfig | None]:
    programs = find_program()
    return real_server() if programs is None else both_controllers_plane(*programs, (TYPE_CHECKS,))
