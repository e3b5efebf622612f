"""The webhooks of a manager, with one entry for all requests."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import lru_cache, partial
from typing import Literal, NamedTuple, Protocol
from urllib.parse import parse_qs

from kcr.api.durations import parse_duration
from kcr.api.meta import Resource
from kcr.client import Client
from kcr.client.context import WRITE_CONTEXT, WriteContext
from kcr.errors import ApiError, KcrError, described
from kcr.log import get_logger
from kcr.metrics import Metrics
from kcr.metrics.components import WebhookMetrics
from kcr.serving.webhooks.conversion import PATH as CONVERT
from kcr.serving.webhooks.conversion import Conversions, answer_review
from kcr.serving.webhooks.handlers import AdmissionEndpoint
from kcr.serving.webhooks.registration import WebhookOptions, WebhookRule, register
from kcr.serving.webhooks.review import encode_status
from kcr.stacks import trace_of

# Source: controller-runtime/pkg/webhook/admission/http.go, maxRequestSize.
MAX_BODY_BYTES = 7 * 1024 * 1024
# When the request does not say how long its caller waits. Source: admissionregistration/v1, timeoutSeconds.
_DEFAULT_TIMEOUT_SECONDS, _MOST_TIMEOUT_SECONDS = 10.0, 30.0
# The rest of the timeout is for the answer's way to the caller.
_SHARE_OF_TIMEOUT = 0.9
# Bounded: a bug may put something new into every error.
_ERRORS_KEPT = 1000

_log = get_logger("kcr.webhooks")


class _Endpoint(NamedTuple):
    """The function behind a path, and its metrics."""

    answer: Callable[[bytes], Awaitable[bytes]]
    metrics: WebhookMetrics
    panics: Literal["admission", "conversion"]


class InProcess(Protocol):
    """Calls of webhooks by an API server in the same process."""

    def serving(self) -> AbstractAsyncContextManager[None]:
        """Let the server call them for as long as the context lives, for conversions at first."""
        ...

    def reviewing(self) -> AbstractAsyncContextManager[None]:
        """Let it call them for reviews, too."""
        ...


class _Elsewhere:
    """The API server is in another process, which calls the port."""

    def serving(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    reviewing = serving


class Webhooks:
    """Answers the requests of the API server: admission reviews, and conversions.

    Every request is answered: with 200 and a review, or with a Status and the code that fits. A handler that takes
    longer than nine tenths of the caller's timeout is cancelled, and answered with 504. An unexpected exception is
    answered with 500, counted as a panic, and logged once. The API server treats both as the configuration's
    `failurePolicy` says; a denial is a review with 200.

    It holds no connections: the HTTPS server and the test kit both call `handle`.
    """

    def __init__(self, metrics: Metrics) -> None:
        """Make it without webhooks.

        Args:
            metrics: Where the requests are counted, by the paths of the webhooks.
        """
        self._metrics = metrics
        self._endpoints: dict[str, _Endpoint] = {}
        self._rules: list[WebhookRule] = []
        # By group and kind.
        self._conversions: dict[tuple[str, str], Conversions] = {}
        # Errors that have been logged: path, type, and place.
        self._logged: set[tuple[str, ...]] = set()

    def __bool__(self) -> bool:
        return bool(self._endpoints)

    @property
    def rules(self) -> tuple[WebhookRule, ...]:
        """The admission webhooks, for their configurations."""
        return tuple(self._rules)

    @property
    def conversions(self) -> tuple[Conversions, ...]:
        """The conversions, for the definitions of their kinds."""
        return tuple(self._conversions.values())

    @property
    def paths(self) -> tuple[str, ...]:
        """All paths that are served."""
        return tuple(self._endpoints)

    def add(self, kind: type[Resource], webhook: object, options: WebhookOptions) -> None:
        """Add the webhooks of a kind; see `Manager.add_webhook`.

        Raises:
            TypeError: A handler has none of the methods, or one with other arguments.
            ValueError: An option has no such value, or a path is taken.
        """
        added = register(kind, webhook, options)
        for one in added:
            self._check_path(one.path)
        for one in added:
            self.add_endpoint(one.path, AdmissionEndpoint(one))
        self._rules += added

    def add_conversion(self, kind: type[Resource]) -> None:
        """Serve the conversions of a kind; see `Manager.add_conversion`.

        Raises:
            TypeError: The functions between its versions are incomplete or ambiguous, or there are none.
        """
        conversions = Conversions.of(kind)
        if conversions is None:
            raise TypeError(f"{kind.__name__}: no function is registered with @kcr.converts")
        if not self._conversions:
            self.add_endpoint(CONVERT, partial(answer_review, self._conversions), panics="conversion")
        self._conversions[kind.resource.group, kind.resource.kind] = conversions

    def add_endpoint(
        self,
        path: str,
        answer: Callable[[bytes], Awaitable[bytes]],
        *,
        panics: Literal["admission", "conversion"] = "admission",
    ) -> None:
        """Serve a path.

        Args:
            path: The path.
            answer: Returns the body of the response with 200; an `ApiError` becomes a Status with its code.
            panics: Where unexpected exceptions are counted.

        Raises:
            ValueError: The path is taken.
        """
        self._check_path(path)
        self._endpoints[path] = _Endpoint(answer, self._metrics.webhook(path), panics)

    def _check_path(self, path: str) -> None:
        if path in self._endpoints:
            raise ValueError(
                f"webhook {path}: there is one with this path already: give the kind one webhook or a sequence of "
                "them, or set mutating_path and validating_path"
            )

    def in_process(self, client: Client) -> "InProcess":
        """Return how an API server in this process calls the webhooks; a real one does nothing of it.

        Args:
            client: A client of the server.
        """
        host = getattr(client.innermost_transport, "host_webhooks", None)
        made: InProcess = host(self) if self and host is not None else _Elsewhere()
        return made

    async def handle(self, path: str, seconds: float, body: bytes, content_type: str) -> tuple[int, bytes]:
        """Answer a POST.

        Args:
            path: Its path.
            seconds: How long the caller waits; `timeout_in` reads it from a query.
            body: Its body.
            content_type: The media type of the body.

        Returns:
            The HTTP status code, and a body of JSON.
        """
        endpoint = self._endpoints.get(path)
        if endpoint is None:
            remedy = ": convert the kind with manager.add_conversion" if path == CONVERT else ""
            return refusal(404, "NotFound", f"there is no webhook at {path[:253]}{remedy}")
        metrics, now = endpoint.metrics, asyncio.get_running_loop().time
        began = now()
        metrics.in_flight += 1
        try:
            status, answer = await self._answer(path, endpoint, seconds, body, content_type)
        finally:
            metrics.in_flight -= 1
            metrics.seconds.observe(now() - began)
        metrics.codes[str(status)] += 1
        return status, answer

    async def _answer(
        self, path: str, endpoint: _Endpoint, seconds: float, body: bytes, content_type: str
    ) -> tuple[int, bytes]:
        if len(body) > MAX_BODY_BYTES:
            return refusal(413, "RequestEntityTooLarge", f"the body has more than {MAX_BODY_BYTES} bytes")
        if content_type.partition(";")[0].strip().lower() != "application/json":
            return refusal(
                415, "UnsupportedMediaType", f"Content-Type is {content_type[:253]!r}: send application/json"
            )
        deadline = asyncio.timeout(_SHARE_OF_TIMEOUT * seconds)
        # Replicas serve, whether they lead or not, and for a while after the lease is released.
        outer = WRITE_CONTEXT.get()
        token = WRITE_CONTEXT.set(WriteContext(every_replica=True, has_slots=outer.has_slots, manager=outer.manager))
        try:
            async with deadline:
                return 200, await endpoint.answer(body)
        except ApiError as error:
            return error.code, encode_status(error)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # The handler waited for something that was cancelled: the request itself was not.
            return self._fail(path, endpoint, error)
        except Exception as error:
            if isinstance(error, TimeoutError) and deadline.expired():
                self._log_once(path, error, "webhook timed out")
                return refusal(
                    504, "Timeout", f"webhook {path}: no answer within {_SHARE_OF_TIMEOUT:.0%} of the timeout"
                )
            return self._fail(path, endpoint, error)
        except BaseException as error:
            # On the main thread it is a signal's, or a test's.
            if isinstance(error, GeneratorExit) or threading.current_thread() is threading.main_thread():
                raise
            return self._fail(path, endpoint, error)
        finally:
            WRITE_CONTEXT.reset(token)

    def _fail(self, path: str, endpoint: _Endpoint, error: BaseException) -> tuple[int, bytes]:
        """Answer an unexpected exception; errors of kcr itself, such as a TransportError, are no panics."""
        if isinstance(error, KcrError):
            self._log_once(path, error, "webhook failed")
            return refusal(500, "InternalError", str(error))
        panics = self._metrics.webhook_panics
        setattr(panics, endpoint.panics, getattr(panics, endpoint.panics) + 1)
        self._log_once(path, error, "webhook panicked")
        return refusal(500, "InternalError", f"panic: {described(error)} [recovered]")

    def _log_once(self, path: str, error: BaseException, message: str) -> None:
        key = (path, type(error).__name__, *_place(error))
        if key not in self._logged:
            if len(self._logged) >= _ERRORS_KEPT:
                self._logged.clear()
            self._logged.add(key)
            trace = None if isinstance(error, KcrError | TimeoutError) else trace_of(error)
            _log.error(message, webhook=path, error=described(error), exc_info=trace)


def _place(error: BaseException) -> Iterator[str]:
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_next is None:
            yield f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next


def refusal(code: int, reason: str, message: str) -> tuple[int, bytes]:
    """Return a status code, and the Status that explains it."""
    return code, encode_status(ApiError(code, reason, message))


@lru_cache(maxsize=64)
def timeout_in(query: str) -> float:
    """Return how many seconds the caller waits, by its query; 10 when it does not say.

    Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/validating/dispatcher.go, callHook.
    """
    try:
        seconds = parse_duration(parse_qs(query)["timeout"][0]) / 1e9
    except (KeyError, ValueError):
        return _DEFAULT_TIMEOUT_SECONDS
    return min(seconds, _MOST_TIMEOUT_SECONDS) if seconds > 0 else _DEFAULT_TIMEOUT_SECONDS
