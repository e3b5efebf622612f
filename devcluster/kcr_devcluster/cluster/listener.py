"""TLS listener: serves the embedded API server over HTTPS on the loopback address; a bearer token authenticates."""

import asyncio
import base64
import gzip
import secrets
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from aiohttp import web
from msgspec.structs import replace

from kcr.client import RateLimit
from kcr.clock import SystemClock
from kcr.log import get_logger
from kcr.serving.httpserver import Patience, Server, Site
from kcr_devcluster.apiserver.authentication import ADMIN, ANONYMOUS, User
from kcr_devcluster.apiserver.http.bodies.request_body import LIMIT
from kcr_devcluster.apiserver.protocol.responses import APIResponse, StatusError, Stream
from kcr_devcluster.apiserver.server import APIServer, HTTPRequest
from kcr_devcluster.cluster.certificates import Certificates, is_valid, make_certificates
from kcr_devcluster.cluster.client_certificates import ClientAuthority, make_client_authority, user_of
from kcr_devcluster.cluster.datadir import DataDir, ListenerCredentials
from kcr_devcluster.cluster.faults import ConnectionLostError, ListenerFaults
from kcr_devcluster.cluster.faults import endpoint as faults_endpoint
from kcr_devcluster.cluster.streaming.pod_streams import PodStreams
from kcr_devcluster.options import MAX_CONNECTIONS
from kcr_devcluster.yaml_writer import yaml_text

_HOST = "127.0.0.1"
# Paths that need no authentication, and those below them.
_OPEN = ("version", "healthz", "livez", "readyz")
# A connection whose client reads nothing for so long is closed.
_STUCK_SECONDS = 30.0
_SHUTDOWN_SECONDS = 0.5
_KEEPALIVE_SECONDS = 3630.0
# How many chunks of a stream are sent in a second, and at once after a pause. Faster changes are coalesced: each chunk
# costs a TLS record and wakes up the reader, which at a thousand changes a second takes longer than the changes do.
_PARTS_PER_SECOND, _PARTS_AT_ONCE = 500, 100
# A longer chunk is sent in several, of whole lines: kube-apiserver sends one for each event, and some clients copy
# what they have for each line.
_PART_BYTES = 256 * 1024
# A body above this size is compressed for clients that accept it.
_GZIP_BYTES = 128 * 1024

_log = get_logger()


class ServerAddress(NamedTuple):
    """Where the server listens, and the credentials that it accepts.

    Attributes:
        url: Such as `https://127.0.0.1:46331`.
        token: The admin's bearer token.
        ca_pem: The certificate authority to trust.
        kubeconfig: All of it as the text of a kubeconfig; it is a secret.
        clients: Signs the client certificates that it accepts.
    """

    url: str
    token: str
    ca_pem: str
    kubeconfig: str
    clients: ClientAuthority

    def __repr__(self) -> str:
        """Show no secret."""
        return f"ServerAddress({self.url!r})"


class Listener:
    """Serves HTTP until it is closed."""

    def __init__(
        self,
        server: APIServer,
        faults: ListenerFaults | None = None,
        data: DataDir | None = None,
        streams: PodStreams | None = None,
        *,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        """Make a listener.

        Args:
            server: Handles the requests.
            faults: The faults that clients meet; None for no faults.
            data: Where the credentials of an earlier process are; None makes new ones.
            streams: Serves connections into pods; None where the server has none.
            max_connections: How many may be open; the oldest idle one makes room for a new one.

        Raises:
            ConfigError: They cannot be read.
        """
        self._server = server
        self._faults = faults or ListenerFaults()
        self._data = data
        self._streams = streams
        self._max_connections = max_connections
        # Clients check the dates by the machine's clock, whatever the time of the cluster is.
        known, now = data and data.credentials(), SystemClock().now()
        known = known if known and is_valid(known.server.encode(), now) else _new_credentials(now)
        self._credentials = known if known.client_authority else _with_client_authority(known, now)
        server.users[self._credentials.token] = ADMIN
        self._runner: web.ServerRunner | None = None

    async def open(self, port: int) -> ServerAddress:
        """Listen at a port, and return the address.

        Args:
            port: 0 for that of the earlier process, or any free one.

        Raises:
            OSError: The port is taken.
        """
        known = self._credentials
        certificates = Certificates(known.authority.encode(), known.server.encode(), known.key.encode())
        context = certificates.context(known.client_authority)
        server = Server(
            self._handle,
            max_body=LIMIT + 1,
            max_connections=self._max_connections,
            patience=Patience(idle=_KEEPALIVE_SECONDS),
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN_SECONDS)
        await self._runner.setup()
        try:
            await Site(self._runner, _HOST, port or known.port, tls=context).start()
        except OSError:
            if port or not known.port:
                raise
            _log.warning("the previous port is in use: clients need the new kubeconfig", port=known.port)
            await Site(self._runner, _HOST, 0, tls=context).start()
        port = self._runner.addresses[0][1]
        if self._data is not None:
            self._data.save_credentials(replace(known, port=port))
        url = f"https://{_HOST}:{port}"
        kubeconfig = kubeconfig_text(url, known.token, known.authority)
        return ServerAddress(url, known.token, known.authority, kubeconfig, self._client_authority())

    def _client_authority(self) -> ClientAuthority:
        return ClientAuthority(self._credentials.client_authority, self._credentials.client_key)

    async def close(self) -> None:
        """End all watches and connections into pods, then stop listening."""
        self._server.close()
        if self._streams is not None:
            self._streams.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            answer = await self._answer(request)
        except ConnectionLostError:
            return _abort(request)
        if answer.upgrade is not None and self._streams is not None:
            return await self._streams.serve(request, answer.upgrade)
        if isinstance(answer.body, bytes):
            return _whole_response(answer, answer.body, request.headers.get("Accept-Encoding", ""))
        response = web.StreamResponse(status=answer.status, headers=answer.headers)
        try:
            await self._send(request, response, answer.body)
        finally:
            await answer.body.aclose()
        return response

    async def _answer(self, request: web.BaseRequest) -> APIResponse:
        first_step = request.raw_path.removeprefix("/").partition("?")[0].partition("/")[0]
        user = self._user(request)
        if user is None and not self._may_be_anonymous(request, first_step):
            return StatusError(401, "Unauthorized", "Unauthorized").response()
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            message = f"Request entity too large: limit is {LIMIT}"
            return StatusError(413, "RequestEntityTooLarge", message).response()
        arrived = HTTPRequest(request.method, request.raw_path, request.headers, body, user or ANONYMOUS, advised=True)
        if faults_endpoint.serves(request.path):
            return faults_endpoint.respond(self._faults.rules, arrived, self._server.authorizer)
        return await self._faults.handle(self._server, arrived)

    def _may_be_anonymous(self, request: web.BaseRequest, first_step: str) -> bool:
        """Return whether a request is served as `system:anonymous`: its path is public, or roles decide.

        A token that is not valid is refused in any case.

        Source: kubernetes/pkg/kubeapiserver/options/authentication.go, ApplyAuthorization: AlwaysAllow
        switches anonymous authentication off.
        """
        scheme, _, token = request.headers.get("Authorization", "").strip().partition(" ")
        has_token = scheme.lower() == "bearer" and bool(token)
        return not has_token and (first_step in _OPEN or self._server.enforces_rights)

    def _user(self, request: web.BaseRequest) -> User | None:
        """Return who sends a request, None where it does not say so.

        Source: kubernetes/pkg/kubeapiserver/authenticator/config.go, New: certificates before tokens.
        """
        connection = request.transport and request.transport.get_extra_info("ssl_object")
        if (
            connection
            and (certificate := connection.getpeercert())
            and (user := user_of(certificate, connection.getpeercert(binary_form=True)))
        ):
            return user
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        return self._server.authenticate(token.strip())

    async def _send(self, request: web.BaseRequest, response: web.StreamResponse, body: Stream) -> None:
        pace = RateLimit(_PARTS_PER_SECOND, _PARTS_AT_ONCE)
        try:
            await response.prepare(request)
            async for chunk in body:
                for part in (chunk,) if len(chunk) <= _PART_BYTES else _parts(chunk):
                    async with asyncio.timeout(_STUCK_SECONDS):
                        await response.write(part)
                    await pace.wait()
            await response.write_eof()
        except ConnectionLostError:
            _abort(request)
        except ConnectionResetError:
            _log.debug("client closed the connection", path=request.raw_path)
        except TimeoutError:
            _log.warning("connection closed, the client reads too slowly", path=request.raw_path)
            _abort(request)


def _parts(chunk: bytes) -> Iterator[bytes]:
    """Cut a chunk behind lines; one that is longer than a part stays whole."""
    start = 0
    while start < len(chunk):
        end = start + _PART_BYTES
        if end < len(chunk):
            end = chunk.rfind(b"\n", start, end) + 1 or chunk.find(b"\n", end) + 1
        yield chunk[start : end or len(chunk)]
        start = end or len(chunk)


def _abort(request: web.BaseRequest) -> web.Response:
    """Close the connection at once, and return a response that is never sent."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def _new_credentials(now: datetime) -> ListenerCredentials:
    made = make_certificates(now)
    return ListenerCredentials(
        secrets.token_urlsafe(24), made.authority.decode(), made.server.decode(), made.key.decode()
    )


def _with_client_authority(known: ListenerCredentials, now: datetime) -> ListenerCredentials:
    made = make_client_authority(now)
    return replace(known, client_authority=made.certificate, client_key=made.key)


def _whole_response(answer: APIResponse, body: bytes, accept_encoding: str) -> web.Response:
    """Return the response with a complete body; a long one in gzip if the client accepts that.

    Source: kubernetes/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/writers.go,
    deferredResponseWriter and negotiateEncoding.
    """
    headers = dict(answer.headers)
    is_object = headers.get("Content-Type", "").startswith("application/")
    if is_object and len(body) > _GZIP_BYTES and "gzip" in (part.strip() for part in accept_encoding.split(",")):
        headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        body = gzip.compress(body, 1)
    return web.Response(status=answer.status, headers=headers, body=body)


def kubeconfig_text(url: str, token: str, authority: str) -> str:
    """Return the kubeconfig of a server's admin.

    Args:
        url: The server.
        token: The admin's bearer token.
        authority: The certificate authority, as PEM.
    """
    encoded = base64.b64encode(authority.encode()).decode()
    return yaml_text({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kcr", "cluster": {"server": url, "certificate-authority-data": encoded}}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "kcr", "context": {"cluster": "kcr", "user": "admin", "namespace": "default"}}],
        "current-context": "kcr",
    })  # fmt: skip
