"""The API server: a request in, an answer out, and no socket anywhere."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from kcr.apiserver.endpoints import container_logs as logs
from kcr.apiserver.endpoints import discovery, listing, subresources, writing
from kcr.apiserver.endpoints import self_subject_review as reviews
from kcr.apiserver.endpoints.discovery import Discovery, OpenApi
from kcr.apiserver.endpoints.routes import Query, Route, Routes, check_method
from kcr.apiserver.endpoints.serialization import (
    Form,
    MetadataOnly,
    Plain,
    Wanted,
    as_yaml,
    not_acceptable,
    of_version,
    wanted,
)
from kcr.apiserver.endpoints.watching import Watch, watch_options
from kcr.apiserver.endpoints.writing import Write
from kcr.apiserver.gojson import TOO_DEEP
from kcr.apiserver.kinds.catalogue import KINDS, NAMESPACES, Kind
from kcr.apiserver.printers.tables import Tabular, included_object
from kcr.apiserver.quota import Quotas
from kcr.apiserver.registry.registry import Registry
from kcr.apiserver.responses import (
    Answer,
    RefusedError,
    bad_request,
    encoded,
    internal,
    json_answer,
    text_answer,
    too_late,
    warned,
)
from kcr.apiserver.storage.selection import selection_of
from kcr.apiserver.storage.storage import Storage
from kcr.clock import Clock

_HEALTH_PATHS = ("healthz", "livez", "readyz")
_FIRST_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_WATCH_SECONDS = (1800, 3600)

_log = logging.getLogger(__name__)


class HTTPRequest(NamedTuple):
    """A request as it arrives.

    Attributes:
        method: `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
        target: Path and query, percent-encoded.
        headers: Names in any case.
        body: The body, empty for none.
    """

    method: str
    target: str
    headers: Mapping[str, str] = {}
    body: bytes = b""


class Server:
    """Answers requests from its storage.

    Attributes:
        registry: Writes of whole objects, for those who live in the same process.
        logs: Where the logs of pods come from; the node replaces it.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        clock: Clock,
        random: random.Random,
        kinds: Sequence[Kind] = KINDS,
        most_behind: int = 20_000,
    ) -> None:
        """Make a server; it holds no objects but the namespaces that are always there.

        Args:
            storage: Where the objects are.
            clock: What time it is.
            random: Where names and uids come from.
            kinds: What is served.
            most_behind: A watcher that is more changes behind is cut: it would hold all of them in memory.
        """
        self.registry = Registry(storage, Quotas(storage, clock, tuple(kinds)), clock=clock, random=random)
        self.logs: logs.LogSource = logs.NoLogs()
        self._storage = storage
        self._clock = clock
        self._random = random
        self._routes = Routes(kinds)
        self._discovery = Discovery(self._routes)
        self._openapi = OpenApi(self._routes)
        self._most_behind = most_behind
        self._watches: set[Watch] = set()
        self._methods: Mapping[str, Callable[[Registry, Write], Answer]] = {
            "POST": writing.create, "PUT": writing.update, "PATCH": writing.patch, "DELETE": writing.remove,
        }  # fmt: skip
        for name in _FIRST_NAMESPACES:
            self.registry.create(NAMESPACES, "", {"metadata": {"name": name}})

    async def handle(self, request: HTTPRequest) -> Answer:
        """Answer one request. What goes wrong is an answer as well, never an exception."""
        answer = await _answered(request, self._handle(request))
        return as_yaml(answer, next((value for name, value in request.headers.items() if name.lower() == "accept"), ""))

    async def _handle(self, request: HTTPRequest) -> Answer:
        # Of a target that is no UTF-8, aiohttp leaves surrogates.
        target = request.target.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        path, _, query_text = target.partition("?")
        query = Query(query_text)
        headers = {name.lower(): value for name, value in request.headers.items()}
        steps = path.removeprefix("/").removesuffix("/").split("/")
        route = self._route(steps)
        patience_seconds = _patience_seconds(route, query)
        if reviews.is_review(request.method, steps):
            return reviews.answer(steps, request.body, headers.get("content-type", ""))
        if route is None:
            return self._document(request.method, steps, query, headers)
        serving = self._serve(request, route, query, headers, patience_seconds)
        if route.kind.view is None:
            return await serving
        # A refusal is warned about as well.
        return warned(await _answered(request, serving), route.kind.view.warning)

    async def _serve(
        self,
        request: HTTPRequest,
        route: Route,
        query: Query,
        headers: Mapping[str, str],
        patience_seconds: float | None,
    ) -> Answer:
        check_method(route, request.method)
        accepted = wanted(headers.get("accept", ""))
        if accepted.yaml and _is_watch(route, query):
            raise not_acceptable("application/json;stream=watch")
        form = of_version(route.kind, self._form(accepted, query))
        if request.method == "GET":
            async with asyncio.timeout(patience_seconds):
                return await self._read(route, query, form)
        write = Write(route, query, headers, request.body, form)
        if request.method == "DELETE" and not route.name:
            return await writing.remove_collection(self.registry, write)
        return self._write(request.method, write)

    def _route(self, steps: list[str]) -> Route | None:
        match steps:
            case ["api", version, _, *_]:
                return self._routes.find("", version, steps[2:])
            case ["apis", group, version, _, *_] if group and group in self._routes.groups:
                return self._routes.find(group, version, steps[3:])
        return None

    def _document(self, method: str, steps: list[str], query: Query, headers: Mapping[str, str]) -> Answer:
        """Answer for the paths beside the resources; all of them are read only."""
        match steps[0]:
            case "openapi":
                return self._openapi.answer(steps)
            case name if name in _HEALTH_PATHS:
                return text_answer(200, _health(name, query))
        answer = discovery.version() if steps == ["version"] else self._discovery.answer(steps, headers)
        return answer if method == "GET" or answer.status == 404 else discovery.method_not_allowed()

    def _form(self, accepted: Wanted, query: Query) -> Form:
        match accepted.transformation:
            case "Table":
                return Tabular(accepted.version, included_object(query.text("includeObject")), self._clock)
            case "PartialObjectMetadata" | "PartialObjectMetadataList":
                return MetadataOnly(accepted.version)
        return Plain()

    async def _read(self, route: Route, query: Query, form: Form) -> Answer:
        if not route.name:
            if query.flag("watch"):
                return await self._watch(route, query, form)
            page = await listing.page(self._storage, route, query)
            return json_answer(form.many(route.kind, page.metadata, page.records))
        await self._storage.reach(listing.version_of(query.text("resourceVersion")))
        record = self.registry.find(route.kind, route.namespace, route.name)
        if route.subresource == "log":
            return logs.answer(self.logs, record, query, self._clock.now())
        if route.subresource == "scale":
            return json_answer(encoded(subresources.scale_of(record)))
        return json_answer(form.one(record))

    async def _watch(self, route: Route, query: Query, form: Form) -> Answer:
        options = watch_options(query)
        watch = Watch(self._storage, route.kind, selection_of(route, query), form, self._most_behind)
        seconds = options.timeout_seconds or self._random.uniform(*_WATCH_SECONDS)
        await watch.begin(options, max(0.0, seconds), self._watches)
        return Answer(200, {"Content-Type": "application/json", "Cache-Control": "no-cache, private"}, watch)

    def _write(self, method: str, write: Write) -> Answer:
        match write.route.subresource:
            case "binding":
                return subresources.bind(self.registry, write)
            case "eviction":
                return subresources.evict(self.registry, write)
            case "finalize":
                return subresources.finalize(self.registry, write)
            case "scale":
                return subresources.update_scale(self.registry, write, is_patch=method == "PATCH")
        return self._methods[method](self.registry, write)

    @property
    def open_watches(self) -> int:
        """How many watches are open."""
        return len(self._watches)

    def close(self) -> None:
        """End all watches at once."""
        for watch in tuple(self._watches):
            watch.end()


async def _answered(request: HTTPRequest, serving: Awaitable[Answer]) -> Answer:
    """Return the answer, or what tells the client that there is none."""
    try:
        return await serving
    except RefusedError as refused:
        return refused.answer()
    except TimeoutError:
        return too_late().answer()
    except RecursionError:
        return bad_request(TOO_DEEP).answer()
    except Exception as error:
        _log.exception("%s %s failed", request.method, request.target)
        return internal(f"{type(error).__name__}: {error}").answer()


def _patience_seconds(route: Route | None, query: Query) -> float | None:
    """Return how long the client waits, None for ever; watches and logs end in ways of their own."""
    if route is not None and (route.subresource == "log" or _is_watch(route, query)):
        return None
    return query.timeout_seconds()


def _is_watch(route: Route, query: Query) -> bool:
    return query.flag("watch") and not route.name


def _health(name: str, query: Query) -> str:
    return f"[+]ping ok\n{name} check passed\n" if query.has("verbose") else "ok"
