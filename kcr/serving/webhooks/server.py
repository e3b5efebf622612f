"""The HTTPS server of webhooks: one port, on a thread with an event loop of its own.

A review never waits behind a reconcile, and a blocked loop of the program does not delay it. The port is open before
the caches are synced, because the first list of a kind may need its conversion; admission reviews wait for the caches.
"""

import asyncio
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from kcr.api.bindaddress import MAX_CONNECTIONS, BindAddress
from kcr.api.meta import Key, Resource
from kcr.client import Client
from kcr.clock import Clock
from kcr.errors import ConfigError
from kcr.informer import Handler, Informer, InformerHandle, Selection
from kcr.log import get_logger
from kcr.metrics import Metrics
from kcr.runnables import Runnable
from kcr.serving.health import Health
from kcr.serving.ports import (
    CertificateOptions,
    PortCertificate,
    PortLimits,
    SecureServing,
    ServerCertificate,
    ServerPort,
    ServerThread,
)
from kcr.serving.webhooks.authority import CertificateAuthority, ServingSecret
from kcr.serving.webhooks.conversion import PATH as CONVERT
from kcr.serving.webhooks.conversion import WebhookService
from kcr.serving.webhooks.pem import CERT, KEY, check_package
from kcr.serving.webhooks.webhooks import MAX_BODY_BYTES, Webhooks, refusal, timeout_in

if TYPE_CHECKING:
    from aiohttp import web

_OPTIONS = CertificateOptions("webhooks", "--webhook-cert-dir", "--webhook-cert-name", "--webhook-key-name")

# Source: controller-runtime/pkg/webhook/server.go, DefaultPort.
PORT = 9443


class WebhookServing(NamedTuple):
    """How webhooks are served: `Manager.serve_webhooks`.

    Attributes:
        address: Where to listen.
        cert_dir: The folder of the certificate; empty for one that kcr makes for `service`, and without a service for
            controller-runtime's default, `k8s-webhook-server/serving-certs` in the folder of temporary files.
        cert_name: The certificate's file in it.
        key_name: The key's file in it.
        client_ca_name: The file in it of the authorities whose clients may connect; empty for any client.
        service: The Service of the webhooks, and the Secret of the certificate that kcr makes.
        shutdown_delay: How many seconds webhooks are served at the end, until the pod has left its Service.
        max_connections: How many connections may be open; the oldest idle one makes room for a new one.
    """

    address: BindAddress = BindAddress("", PORT)
    cert_dir: str = ""
    cert_name: str = "tls.crt"
    key_name: str = "tls.key"
    client_ca_name: str = ""
    service: WebhookService | None = None
    shutdown_delay: float = 5.0
    max_connections: int = MAX_CONNECTIONS

    @property
    def makes_certificate(self) -> bool:
        """Whether kcr makes the certificate."""
        return self.service is not None and not self.cert_dir

    @property
    def secret(self) -> Key:
        """The Secret of a certificate that kcr makes."""
        assert self.service is not None
        return Key(self.service.namespace, self.service.secret or self.service.name)

    def certificate(self) -> PortCertificate:
        """Return the certificate of the port; one that kcr makes is empty.

        Raises:
            ConfigError: A file cannot be used, or a package is missing.
        """
        folder = self.cert_dir or str(Path(tempfile.gettempdir(), "k8s-webhook-server", "serving-certs"))
        client_ca = str(Path(folder, self.client_ca_name)) if self.client_ca_name else ""
        if self.makes_certificate:
            check_package()
            return PortCertificate("webhooks", client_ca)
        if not self.cert_dir and not Path(folder, self.cert_name).exists():
            raise ConfigError(
                "webhooks: there is no certificate: name its folder with --webhook-cert-dir, or the Service with "
                "--webhook-service-name, for which kcr makes one; --webhook-port=-1 serves none"
            )
        return ServerCertificate(SecureServing(folder, self.cert_name, self.key_name), _OPTIONS, client_ca=client_ca)


class CertificateLoader(Handler[ServingSecret]):
    """Serves the certificate of a Secret, and keeps it when the Secret is deleted."""

    def __init__(self, certificate: PortCertificate) -> None:
        self._certificate = certificate
        self._loaded = b""

    def on_add(self, obj: ServingSecret, initial: bool) -> None:
        """Load the certificate when it is another one."""
        pem = obj.data.get(CERT, b"") + obj.data.get(KEY, b"")
        if pem and pem != self._loaded:
            self._loaded = pem
            self._certificate.load(pem)

    def on_update(self, old: ServingSecret, new: ServingSecret) -> None:
        """Load the certificate when it is another one."""
        self.on_add(new, False)


Handle = Callable[[str, float, bytes, str], Awaitable[tuple[int, bytes]]]

# Reviews that run at once. Most await nothing, and those that await one of the API server's answers are few.
CONCURRENT = 200
# All bodies that are held at once.
_HELD_BYTES = 256 * 1024 * 1024
# API servers send a body at once; a connection that sends none is not held for as long as a review.
_READ_SECONDS = 5.0
# Of the caller's timeout: the answer needs some time to arrive.
_SHARE_OF_TIMEOUT = 0.9
# Where to dial a port that is open on all interfaces.
_LOCAL = {"": "localhost", "0.0.0.0": "127.0.0.1", "::": "::1"}
# Source: controller-runtime/pkg/webhook/server.go, StartedChecker and Start.
_DIAL_SECONDS, DRAIN_SECONDS = 10.0, 60.0
# Intervals at which files are checked and the port is dialled.
_FIRST_PAUSE, POLL_SECONDS = 0.05, 10.0

R = TypeVar("R", bound=Resource)

_log = get_logger("kcr.webhooks")


class WebhookServer:
    """Serves webhooks for as long as `serving` lives."""

    name = "webhook server"

    def __init__(
        self, handle: Handle, serving: WebhookServing, certificate: PortCertificate, *,
        on_synced: Callable[[], object] = lambda: None,
    ) -> None:  # fmt: skip
        """Make a server; it does not listen yet.

        Args:
            handle: Answers a request: path, query, body and media type in, status code and body of JSON out.
            serving: How to serve.
            certificate: Its certificate.
            on_synced: Called when the caches are synced.
        """
        self._on_synced = on_synced
        self._handle = handle
        self._certificate = certificate
        self._serving = serving
        self._port = ServerPort(
            "webhooks", serving.address, self._answer, certificate.context(),
            limits=PortLimits(serving.max_connections, MAX_BODY_BYTES + 1, DRAIN_SECONDS),
        )  # fmt: skip
        self._thread: ServerThread | None = None
        self._places = asyncio.Semaphore(CONCURRENT)
        self._synced = asyncio.Event()
        self._held = 0
        self._is_ending = False
        # Why the last dial failed.
        self._unreachable = "has not started yet"

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._port.port

    def check(self) -> str:
        """Return why it does not serve: a readiness check."""
        if self._is_ending:
            return "is shutting down"
        if not self._certificate.is_there:
            return self._certificate.last_error or "there is no certificate yet"
        return self._unreachable

    def certificate_error(self) -> str:
        """Return why the newest certificate is not served, while the one before is: a remark of readiness."""
        return self._certificate.last_error

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Listen for as long as the context lives.

        Raises:
            ConfigError: The address cannot be bound.
        """
        self._thread = ServerThread(self._port, "webhooks", close_seconds=DRAIN_SECONDS + 2)
        async with self._thread, asyncio.TaskGroup() as group:
            tasks = [group.create_task(one, name=self.name) for one in (self.run(), self._thread.watch())]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    @asynccontextmanager
    async def reviewing(self) -> AsyncIterator[None]:
        """Answer admission reviews from now on. At the end, serve until the pod has left its Service.

        The kubelet ends a pod while proxies still send it connections: readiness fails at once, requests are answered
        for a while, and their connections are closed with the answer.
        """
        assert self._thread is not None
        self._thread.loop.call_soon_threadsafe(self._synced.set)
        self._on_synced()
        try:
            yield
        finally:
            self._is_ending = True
            if self._serving.shutdown_delay:
                _log.info("serving webhooks until the pod has left its Service", seconds=self._serving.shutdown_delay)
                await asyncio.sleep(self._serving.shutdown_delay)

    async def run(self) -> None:
        """Poll the certificate and dial the port now and then, until cancelled."""
        pause = _FIRST_PAUSE
        while True:
            self._certificate.poll()
            if self._certificate.is_there:
                self._unreachable = await self._dial()
            # A process that has just begun becomes ready without a delay.
            is_well = self._certificate.is_there and not self._unreachable
            pause = POLL_SECONDS if is_well else min(2 * pause, POLL_SECONDS)
            await asyncio.sleep(pause)

    async def _dial(self) -> str:
        host = _LOCAL.get(self._serving.address.host, self._serving.address.host)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            async with asyncio.timeout(_DIAL_SECONDS):
                _, writer = await asyncio.open_connection(host, self._port.port, ssl=context)
                writer.close()
        except (OSError, TimeoutError) as error:
            return f"cannot connect to port {self._port.port}: {error or 'timed out'}"
        return ""

    async def _answer(self, request: "web.BaseRequest") -> "web.StreamResponse":
        from aiohttp import web  # noqa: PLC0415  # most processes that import this never listen

        status, body = await self._respond(request)
        response = web.Response(status=status, body=body, content_type="application/json")
        if self._is_ending or not request.content.is_eof():  # the rest of a body is not waited for
            response.force_close()
        return response

    async def _respond(self, request: "web.BaseRequest") -> tuple[int, bytes]:
        if request.method != "POST":
            return refusal(405, "MethodNotAllowed", f"webhooks are called with POST, and this is a {request.method}")
        if (request.content_length or 0) > MAX_BODY_BYTES:
            return _too_large()
        seconds = _SHARE_OF_TIMEOUT * timeout_in(request.query_string)
        what, limit = "the body", min(seconds, _READ_SECONDS)
        parts: list[bytes] = []
        try:
            async with asyncio.timeout(seconds) as deadline:
                async with asyncio.timeout(limit):
                    if refused := await self._read(request, parts):
                        return refused
                body = b"".join(parts)
                parts[:] = [body]
                limit = seconds
                if request.path != CONVERT:
                    what = "the caches, which are not synced"
                    await self._synced.wait()
                what = "its turn"
                async with self._places:
                    # From here on the webhook has the rest of the time.
                    left = (deadline.when() or 0.0) - asyncio.get_running_loop().time()
                    if left <= 0:
                        raise TimeoutError
                    deadline.reschedule(None)
                    return await self._handle(request.path, left / _SHARE_OF_TIMEOUT, body, request.content_type)
        except TimeoutError:
            return refusal(504, "Timeout", f"{request.path[:253]}: waited {limit:g} s for {what}")
        finally:
            self._held -= sum(map(len, parts))

    async def _read(self, request: "web.BaseRequest", parts: list[bytes]) -> tuple[int, bytes] | None:
        """Read the body into parts, which count as they arrive; return the refusal if there is no room."""
        size = 0
        async for chunk in request.content.iter_any():
            parts.append(chunk)
            size += len(chunk)
            self._held += len(chunk)
            if size > MAX_BODY_BYTES:
                return _too_large()
            if self._held > _HELD_BYTES:
                return refusal(503, "ServiceUnavailable", "too many reviews at once")
        return None


def _too_large() -> tuple[int, bytes]:
    return refusal(413, "RequestEntityTooLarge", f"the body has more than {MAX_BODY_BYTES} bytes")


class WebhookHost(Protocol):
    """The part of a manager that serving needs."""

    client: Client
    clock: Clock
    health: Health
    metrics: Metrics
    webhooks: Webhooks

    def select(self, *selections: Selection[Any]) -> None:
        """Select the objects of a kind."""
        ...

    def informer(self, kind: type[R]) -> Informer[R]:
        """Return the informer of a kind."""
        ...

    def open_informer(self, kind: type[R]) -> InformerHandle[R]:
        """Open a handle of it for a while."""
        ...

    def add(self, component: Runnable, *, needs_leader_election: bool = True) -> None:
        """Run a component once the stores are synced."""
        ...


def attach(
    host: WebhookHost, serving: WebhookServing, run_early: Callable[[Callable[[], Awaitable[None]], str], None]
) -> WebhookServer:
    """Return the server of a manager's webhooks; the authority of its certificate is added to the manager.

    Objects that are stored in another version are listed by way of the conversion. So with conversions a pod is ready
    to serve them, and makes its certificate, before the caches are synced and a leader is elected.

    Args:
        host: The manager.
        serving: How to serve.
        run_early: Runs a component of this name beside the informers, before the caches are synced.

    Raises:
        ConfigError: There is no certificate.
    """
    certificate, converts = serving.certificate(), CONVERT in host.webhooks.paths
    server = WebhookServer(host.webhooks.handle, serving, certificate, on_synced=lambda: host.health.limit_ready(""))
    host.health.add_ready("webhooks", server.check, remark=server.certificate_error)
    host.metrics.certificate(certificate)
    if converts:
        host.health.limit_ready("webhooks")
    if serving.service is None or not serving.makes_certificate:
        return server
    # With conversions it runs on all replicas. Its preconditions make it safe.
    client = host.client.with_options(fence=lambda: None) if converts else host.client
    authority = CertificateAuthority(client, serving.service, host.clock, host.open_informer, converts=converts)
    host.select(Selection(ServingSecret, authority.key.namespace, fields=f"metadata.name={authority.key.name}"))
    host.informer(ServingSecret).add_handler(CertificateLoader(certificate))
    if converts:
        run_early(authority.run, authority.name)
    else:
        host.add(authority)
    return server
