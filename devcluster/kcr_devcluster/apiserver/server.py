"""The API server: a request in, a response out, and no sockets."""

import asyncio
import logging
import random
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple
from urllib.parse import unquote

from kcr.clock import Clock
from kcr_devcluster.apiserver.admission.caller import WebhookCaller
from kcr_devcluster.apiserver.admission.chain import REQUEST_SECONDS, Admission, respond
from kcr_devcluster.apiserver.admission.policies.plugins import make_admission
from kcr_devcluster.apiserver.apiextensions.definitions import CustomResourceDefinitions
from kcr_devcluster.apiserver.authentication import ADMIN, AUDIENCE, InvalidTokenError, ServiceAccountTokens, User
from kcr_devcluster.apiserver.authorization import AlwaysAllow, Authorizer, Rbac, impersonation, request_attributes
from kcr_devcluster.apiserver.authorization.escalation import Access, authorized
from kcr_devcluster.apiserver.authorization.signers import GUARDS
from kcr_devcluster.apiserver.http import apply as apply_handler
from kcr_devcluster.apiserver.http import listing, resource_metrics, subresources, token_request, writing
from kcr_devcluster.apiserver.http.bodies.request_body import media_type
from kcr_devcluster.apiserver.http.documents import ServerDocuments
from kcr_devcluster.apiserver.http.metrics import ServerMetrics
from kcr_devcluster.apiserver.http.pods import binding, container_logs, ephemeral_containers, eviction, pod_streams
from kcr_devcluster.apiserver.http.printers.tables import accepted_encoder
from kcr_devcluster.apiserver.http.reviews import reviews
from kcr_devcluster.apiserver.http.reviews.access import Asker
from kcr_devcluster.apiserver.http.routes import Route, Routes, check_method, timeout_seconds, within
from kcr_devcluster.apiserver.http.serialization import (
    WATCHED,
    YAML,
    ObjectEncoder,
    as_accepted,
    check_route,
    check_transformation,
    encoder_of,
    negotiate,
    not_acceptable,
)
from kcr_devcluster.apiserver.http.watches.converted_watch import ConvertedWatch
from kcr_devcluster.apiserver.http.watches.watching import OpenWatches, Watch, watch_options
from kcr_devcluster.apiserver.http.writing import Adviser, Write
from kcr_devcluster.apiserver.kinds.access.reviews import BINDINGS, REVIEW_KINDS
from kcr_devcluster.apiserver.kinds.catalogue import (
    API_SERVICES,
    KINDS,
    NAMESPACES,
)
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.kinds.served import kinds_in, with_traits
from kcr_devcluster.apiserver.protocol.gojson import TOO_DEEP
from kcr_devcluster.apiserver.protocol.query import BROKEN_ESCAPE, Query
from kcr_devcluster.apiserver.protocol.replay import drawn, replay
from kcr_devcluster.apiserver.protocol.responses import (
    APIResponse,
    StatusError,
    add_warning,
    bad_request,
    internal,
    json_response,
    no_such_resource,
    not_found,
    request_timeout,
    text_response,
)
from kcr_devcluster.apiserver.registry import bootstrap
from kcr_devcluster.apiserver.registry.api_services import LocalAPIServices
from kcr_devcluster.apiserver.registry.registry import Registry
from kcr_devcluster.apiserver.registry.service_accounts import DefaultAccountMissingError, wait_for_default
from kcr_devcluster.apiserver.schema.deep_fields import without_deep_fields
from kcr_devcluster.apiserver.storage.admission import AdmissionContext, RequestContext
from kcr_devcluster.apiserver.storage.records import in_version
from kcr_devcluster.apiserver.storage.selection import selection_predicate
from kcr_devcluster.apiserver.storage.storage import Storage, StorageReader
from kcr_devcluster.observers import OBSERVERS
from kcr_devcluster.options import ServiceAccounts
from kcr_devcluster.versions import DEFAULT, KubernetesVersion

_FIRST_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_WATCH_SECONDS = (1800, 3600)
# The forms of bodies with the fields of an object.
_OBJECTS = ("application/json", "application/merge-patch+json", "application/strategic-merge-patch+json")

# Writes to subresources that need no more than the objects.
# The subresources whose requests are connected with a pod, or another object.
_CONNECTED = (*pod_streams.STREAMS, "proxy")
_SUBRESOURCES: Mapping[str, Callable[[Registry, Write], APIResponse]] = {
    "binding": binding.bind,
    "ephemeralcontainers": ephemeral_containers.update,
    "eviction": eviction.evict,
}
_log = logging.getLogger(__name__)


class HTTPRequest(NamedTuple):
    """A request as it arrives.

    Attributes:
        method: `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
        target: Path and query, percent-encoded.
        headers: Names in any case.
        body: The body, empty for none.
        user: Who sends it.
        advised: Whether the response warns of fields without an effect in this cluster (`APIServer.advisers`).
        reads: The source of reads; None for the storage of the server.
    """

    method: str
    target: str
    headers: Mapping[str, str] = {}
    body: bytes = b""
    user: User = ADMIN
    advised: bool = False
    reads: StorageReader | None = None

    def __repr__(self) -> str:
        """Show no credentials, and no contents."""
        return f"HTTPRequest({self.method!r}, {self.target!r}, user={self.user.username!r})"


class APIServer:
    """The API server: handles requests on its storage.

    Attributes:
        registry: Creates, updates and deletes objects, for code in the same process.
        logs: Where the logs of pods come from; the node replaces it.
        streams_unavailable: Why there are no connections into pods; empty when there are.
        advisers: Functions that return warnings about fields without an effect; the cluster adds its own.
        metrics: The sources of resource metrics, where kinds of metrics are served: the nodes.
        request_metrics: Counts requests and watch events; `/metrics` shows it.
        admission: Webhooks and policies, which review the writes of requests; its `caller` calls webhooks.
        definitions: The custom resources that are served.
        authorizer: Decides whether a user may do something.
        users: Users by tokens that never expire.
    """

    def __init__(  # noqa: PLR0913  # the parts of a server, by name
        self,
        storage: Storage,
        *,
        clock: Clock,
        random: random.Random,
        kinds: Sequence[Kind] = KINDS,
        max_watch_backlog: int = 20_000,
        signing_key: bytes = b"",
        authorizer: Rbac | None = None,
        sharded_list_and_watch: bool = False,
        version: KubernetesVersion = DEFAULT,
        caller: WebhookCaller | None = None,
        accounts: ServiceAccounts = "none",
        protects_volumes: bool = False,
    ) -> None:
        """Make a server with the namespaces and priority classes that always exist.

        Args:
            storage: The objects.
            clock: The time.
            random: The source of generated names and uids.
            kinds: The kinds that are served, as far as the version has them.
            max_watch_backlog: A watch whose reader is more events behind is closed, to bound memory.
            signing_key: Signs the tokens of service accounts; empty for a key of its own.
            authorizer: Decides whether a user may do something; None allows every request.
            sharded_list_and_watch: Whether `shardSelector` has an effect.
            version: The version of Kubernetes.
            caller: The connections to webhooks; None for none.
            accounts: Whether pods have service accounts, and containers a token of theirs, in a volume.
            protects_volumes: Whether volumes get finalizers while in use: where controllers remove these again.
        """
        self.authorizer: Authorizer = authorizer or AlwaysAllow()
        self._rbac = authorizer
        kinds = tuple(with_traits(kind, version) for kind in kinds_in(kinds, version))
        context = AdmissionContext(storage, clock, random, kinds, accounts, protects_volumes, version)
        self.registry: Registry = Registry(context)
        self.logs: container_logs.LogSource = container_logs.NoLogs()
        self.streams_unavailable = pod_streams.NO_NODE
        self.advisers: list[Adviser] = []
        self.metrics: list[resource_metrics.MetricsSource] = []
        self.users: dict[str, User] = {}
        self._observers = OBSERVERS.get()
        self._tokens = ServiceAccountTokens(signing_key or secrets.token_bytes(32))
        self._storage, self._clock, self._random = storage, clock, random
        self._routes = Routes((*kinds, *REVIEW_KINDS, BINDINGS), version)
        self.admission: Admission = make_admission(context, self._routes, self.authorizer, caller)
        self._max_backlog, self._watches = max_watch_backlog, OpenWatches()
        self._ignored_parameters = () if sharded_list_and_watch else ("shardSelector",)
        self.request_metrics: ServerMetrics = ServerMetrics(
            storage, self._routes, self._watches, self.admission.metrics
        )
        self._documents = ServerDocuments(self._routes, self.request_metrics)
        self._methods: Mapping[str, Callable[[Registry, Write], APIResponse]] = {
            "POST": writing.create, "PUT": writing.update, "PATCH": writing.patch, "DELETE": writing.remove,
        }  # fmt: skip
        for name in _FIRST_NAMESPACES:
            if storage.get(NAMESPACES, "", name) is None:
                self.registry.create(NAMESPACES, "", {"metadata": {"name": name}})
        self.registry.create_priority_classes()
        if authorizer is not None:
            bootstrap.create_missing(self.registry)
        self.definitions: CustomResourceDefinitions = CustomResourceDefinitions(
            self.registry, self._routes, self._end_watches, self.admission
        )
        api_services = LocalAPIServices(self.registry, self._routes)
        self.definitions.on_change.append(api_services.sync)
        # Called before each request for objects of a kind: its objects follow others once a client asks for them.
        self._on_use: Mapping[Kind, Callable[[], None]] = {API_SERVICES: api_services.start}

    async def handle(self, request: HTTPRequest) -> APIResponse:
        """Handle one request. Errors are responses as well, never exceptions."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        response = await _respond(request, self._handle(request, headers))
        response = as_accepted(response, headers.get("accept", ""))
        if request.method == "HEAD":
            response = response._replace(body=b"")
        for observe in self._observers:
            observe(request, response)
        return response

    async def _handle(self, request: HTTPRequest, headers: Mapping[str, str]) -> APIResponse:
        path, query_text = _split(request.target)
        if "%" in path:
            if BROKEN_ESCAPE.search(path):
                return text_response(400, "400 Bad Request")
            path = unquote(path)
        query = Query(query_text, self._ignored_parameters)
        steps = path.removeprefix("/").removesuffix("/").split("/")
        if impersonation.HEADERS in "\n".join(headers):
            wanted = request_attributes(request.method, path, query)
            user = impersonation.acting_user(request.user, request.headers.items(), wanted, self.authorizer)
            request = request._replace(user=user)
        access = None
        if self._rbac is not None:
            access = authorized(self._rbac, request.user, request_attributes(request.method, path, query))
        review = reviews.find(request.method, steps)
        route = None if review is not None else self._routes.find_path(steps, request.method)
        # One that cannot be parsed is refused, also where nothing waits.
        seconds = timeout_seconds(route, query)
        if review is not None:
            negotiate(headers.get("accept", ""), has_tables=False)
            asker = Asker(request.user, self.authorizer, self.review_token, review.namespace)
            return reviews.respond(review, request.body, headers.get("content-type", ""), query, asker)
        if route is None:
            return self._documents.respond(request.method, path, query, headers)
        if request.method == "HEAD" and route.kind.custom is not None:
            # No route is needed for it, and the body is dropped at the end.
            request = request._replace(method="GET")
        time = asyncio.get_running_loop().time
        started = time()
        try:
            if route.kind.converter is None:
                served = self._serve(request, route, query, headers, access)
            else:
                served = self._serve_converted(request, steps, query, headers, access)
            response = await (within(seconds, served) if seconds and request.method == "GET" else served)
        except StatusError as error:
            response = error.response()
        await self._watches.send_changes()
        content_type = headers.get("content-type", "")
        self.request_metrics.observe(request.method, content_type, route, query, response.status, time() - started)
        # Errors carry the warning as well.
        return add_warning(response, route.kind.warning) if route.kind.warning else response

    async def _serve_converted(
        self,
        request: HTTPRequest,
        steps: list[str],
        query: Query,
        headers: Mapping[str, str],
        access: Access | None,
    ) -> APIResponse:
        async def attempt() -> APIResponse:
            # While a webhook was awaited, the definition may have changed.
            return await self._serve(request, self._routes.required(steps, request.method), query, headers, access)

        return await within(REQUEST_SECONDS, replay(attempt))

    async def _serve(
        self,
        request: HTTPRequest,
        route: Route,
        query: Query,
        headers: Mapping[str, str],
        access: Access | None,
    ) -> APIResponse:
        check_method(route, request.method)
        if route.subresource in _CONNECTED:
            return await self._connect(request, route, query, headers, access)
        if (begin_use := self._on_use.get(route.kind)) is not None:
            begin_use()
        if route.kind.custom is None:
            _check_types(request.method, route, headers)
        accepted = negotiate(headers.get("accept", ""), has_protobuf=route.kind.has_protobuf)
        watches = request.method == "GET" and route.watches(query)
        if accepted.name == YAML and watches:
            raise not_acceptable(", ".join(WATCHED))
        encoder = accepted_encoder(accepted, query, self._clock)
        # A Scale is shown in one version, whichever the object has.
        encoder = encoder if route.subresource == "scale" else encoder_of(route.kind, encoder)
        if accepted.transformation and not watches and not (route.name and request.method == "DELETE"):
            check_transformation(
                accepted, route.kind, route.subresource, is_list=not route.name and request.method != "POST"
            )
        if request.method == "GET":
            return await self._read(route, query, encoder, request.reads or self._storage)
        who = request.user, self.authorizer, route.subresource, self._clock.now()
        guard = GUARDS[route.kind](*who) if route.kind in GUARDS else None
        advisers = self.advisers if request.advised else ()
        body = request.body
        if route.subresource in ("", "status") and media_type(headers.get("content-type", "")) in _OBJECTS:
            body = without_deep_fields(route.kind.shape, body)
        reviews = self.admission.begin()
        write = Write(
            route, query, headers, body, encoder, request.user, access, advisers, guard, reviews, self._routes.version
        )
        if reviews is None:
            return await self._write_or_wait(request.method, write)
        return await respond(reviews, partial(self._write_or_wait, request.method, write), query.timeout_seconds())

    async def _connect(
        self, request: HTTPRequest, route: Route, query: Query, headers: Mapping[str, str], access: Access | None
    ) -> APIResponse:
        if route.subresource == "proxy":
            # Requests are not forwarded.
            self.registry.find(route.kind, route.namespace, route.name)
            raise no_such_resource()
        if access is not None:
            access.check_create()
        reviews = self.admission.begin()
        context = RequestContext(request.user, route.kind, reviews=reviews)

        async def connect() -> APIResponse:
            return pod_streams.respond(self.registry, route, query, headers, self.streams_unavailable, context)

        return await respond(reviews, connect, query.timeout_seconds())

    async def _write_or_wait(self, method: str, write: Write) -> APIResponse:
        if method == "DELETE" and not write.route.name:
            return await writing.remove_collection(self.registry, write)
        try:
            return await self._write(method, write)
        except DefaultAccountMissingError:
            await wait_for_default(self._storage, write.route.namespace)
            return await self._write(method, write)

    async def _read(self, route: Route, query: Query, encoder: ObjectEncoder, storage: StorageReader) -> APIResponse:
        if route.kind.is_computed:
            return await resource_metrics.respond(self.metrics, self._storage, route, query, encoder)
        if route.watches(query):
            return await self._watch(route, query, encoder, storage)
        if not route.name:
            page = await listing.list_page(storage, route, query)
            return json_response(encoder.encode_list(route.kind, page.metadata, page.records))
        await storage.wait_for_revision(listing.parse_resource_version(query.text("resourceVersion")))
        record = storage.get(route.kind, route.namespace, route.name)
        if route.kind.converter is not None:
            # The same version however often it runs, or a busy object would never be converted.
            record = drawn("record", lambda: record)
        if record is None:
            raise not_found(route.kind.type, route.name)
        if route.subresource == "log":
            return container_logs.respond(self.logs, record, query, self._clock.now())
        if route.subresource == "scale":
            record = subresources.read_scale(in_version(record, route.kind))
        return json_response(encoder.encode_object(record))

    async def _watch(self, route: Route, query: Query, encoder: ObjectEncoder, storage: StorageReader) -> APIResponse:
        options = watch_options(query)
        selection = selection_predicate(route.kind, route.namespace, route.name, query)
        make = Watch if route.kind.converter is None else ConvertedWatch
        watch = make(storage, route.kind, selection, encoder, self._max_backlog)
        seconds = options.timeout_seconds or self._random.uniform(*_WATCH_SECONDS)
        await watch.start(options, max(0.0, seconds), self._watches)
        return APIResponse(200, {"Content-Type": "application/json", "Cache-Control": "no-cache, private"}, watch)

    def authenticate(self, token: str) -> User | None:
        """Return the user whose token it is, None where it is not valid."""
        try:
            return self.review_token(token, (AUDIENCE,))[0]
        except InvalidTokenError:
            return None

    def review_token(self, token: str, audiences: Sequence[str]) -> tuple[User, tuple[str, ...]]:
        """Return the user whose token it is, and those of the audiences that it is for; or raise InvalidTokenError."""
        if token in self.users:
            return self.users[token], tuple(audiences)
        return token_request.authenticate(self.registry, self._tokens, token, audiences)

    async def _write(self, method: str, write: Write) -> APIResponse:
        is_apply = method == "PATCH" and media_type(write.content_type) == writing.APPLY_PATCH
        if write.route.kind is BINDINGS:
            return binding.bind(self.registry, write)
        match write.route.subresource:
            case "token":
                return token_request.respond(self.registry, self._tokens, write)
            case subresource if subresource in _SUBRESOURCES:
                return _SUBRESOURCES[subresource](self.registry, write)
            case "scale" if is_apply:
                return await apply_handler.apply_scale(self.registry, write)
            case "scale":
                return subresources.update_scale(self.registry, write, is_patch=method == "PATCH")
        if is_apply:
            return await apply_handler.apply(self.registry, write)
        return self._methods[method](self.registry, write)

    @property
    def enforces_rights(self) -> bool:
        """Whether roles limit the requests that users may send; if not, all are allowed."""
        return self._rbac is not None

    @property
    def open_watches(self) -> int:
        """How many watches are open."""
        return len(self._watches)

    def _end_watches(self, kind: Kind) -> None:
        for watch in tuple(self._watches):
            if watch.kind.type.display == kind.type.display:
                watch.stop()

    def close(self) -> None:
        """End all watches at once."""
        for watch in tuple(self._watches):
            watch.stop()


def _split(target: str) -> tuple[str, str]:
    """Return the path and the query of a target."""
    if not target.isascii():
        # Of a target that is no UTF-8, aiohttp leaves surrogates.
        target = target.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    path, _, query = target.partition("?")
    return path, query


def _check_types(method: str, route: Route, headers: Mapping[str, str]) -> None:
    """Refuse what a route of a built-in kind does not take or give; custom resources have no routes."""
    check_route(headers.get("accept", ""), watched=method == "GET" and not route.name)
    if method == "PATCH":
        writing.check_patch_type(headers.get("content-type", ""))


async def _respond(request: HTTPRequest, served: Awaitable[APIResponse]) -> APIResponse:
    """Return the response, or the Status of the error."""
    try:
        return await served
    except StatusError as error:
        return error.response()
    except TimeoutError:
        return request_timeout().response()
    except RecursionError:
        return bad_request(TOO_DEEP).response()
    except Exception as error:
        _log.exception("%s %s failed", request.method, request.target)
        return internal(f"{type(error).__name__}: {error}").response()
