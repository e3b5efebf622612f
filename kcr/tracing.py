"""OpenTelemetry: spans, exemplars and trace ids in log lines, for programs that have a tracer provider.

kcr makes a span for each reconcile, mostly the root of a trace of its own, and a client span for each request to the
API server, a child of the current span. Without a provider all of this is one lookup in `sys.modules`: kcr never
imports OpenTelemetry, which takes 60 ms, because a program with a provider has done so.

Spans take their duration from the event loop, which is the only source of time, and the calendar's time once per trace:
the spans of one reconcile fit into each other also when the clock is set meanwhile, and under virtual time. The current
span is a context variable, so that it follows into the tasks which a reconcile starts. Work that outlives the
reconcile runs in a context without it: timers in an empty one, runnables in that of their group.

By the annotation `kcr.dev/traceparent` the reconciles of children continue the trace of their owner. A reconcile whose
span is sampled writes its trace context into each object that it creates with an owner. A reconcile of such an object
is a child of that span, and so are the objects that it creates: a CronJob's run, its Job and the pods are one trace.
Other reconciles, such as that of a Job which a user has created without the annotation, are roots, and link to the
contexts of the objects that have enqueued their key: the pods that earlier reconciles have created. A context is
continued for an hour: traces end, and objects may not. Later reconciles are roots with a link.

Source: https://www.w3.org/TR/trace-context/#traceparent-header: a value that cannot be read is ignored.
"""

import asyncio
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import Token
from functools import lru_cache
from importlib.metadata import version
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from kcr.clock import SystemClock
from kcr.log import get_logger
from kcr.log.ratelimited import RateLimitedLogger

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, SpanContext, Tracer

API = "opentelemetry.trace"
_SCHEMA = "https://opentelemetry.io/schemas/1.37.0"
_CLOCK = SystemClock()
_failures = RateLimitedLogger(get_logger("kcr.tracing"))

# In OpenTelemetry's context: the time of the calendar at which the event loop's was 0, in nanoseconds.
_EPOCH = "kcr-epoch"


class _Known(NamedTuple):
    """The tracer of a provider; None of one that records nothing."""

    provider: object
    tracer: "Tracer | None"


_known = _Known(None, None)


@contextmanager
def guarded() -> Iterator[None]:
    """Log exceptions of the program's sampler, span processor or propagator; the trace may lack a span.

    OpenTelemetry calls them when a span begins and ends, in the middle of a request or beside a reconcile, where no
    one expects an error.
    """
    try:
        yield
    except Exception as error:
        text, now = f"{type(error).__name__}: {error}", asyncio.get_running_loop().time()
        _failures.error(now, "tracing failed, a span is left out", error=text, exc_info=error)


def find_tracer() -> "Tracer | None":
    """Return the tracer of kcr; None as long as the program has no tracer provider."""
    trace = sys.modules.get(API)
    # Each request calls this. Without a provider the public function takes 1 µs, because it reads the environment; if
    # this private name no longer exists, the public function is called all the same.
    if trace is None or getattr(trace, "_TRACER_PROVIDER", trace) is None:
        return None
    # There is no such function yet while another thread imports the module.
    find_provider = getattr(trace, "get_tracer_provider", None)
    if find_provider is None:
        return None
    global _known  # noqa: PLW0603  # OpenTelemetry's provider is global as well, and is set once
    provider = find_provider()
    if provider is not _known.provider:
        _known = _Known(provider, _tracer_of(trace, provider))
    return _known.tracer


def is_tracing() -> bool:
    """Return whether `find_tracer` has found a tracer; the check of hot paths."""
    return _known.tracer is not None


def _tracer_of(trace: ModuleType, provider: Any) -> "Tracer | None":
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    tracer = provider.get_tracer("kcr", version("kcr"), _SCHEMA)
    # Of a provider that OTEL_SDK_DISABLED has switched off.
    return None if isinstance(tracer, trace.NoOpTracer) else tracer


class ActiveSpan:
    """A span, and the time its loop shows; the current one from `enter` to `leave`, which one task calls.

    Attributes:
        span: OpenTelemetry's.
    """

    __slots__ = ("_epoch", "_loop", "_token", "span")

    def __init__(
        self, tracer: "Tracer", name: str, attributes: Mapping[str, Any], *, is_request: bool = False,
        parent: "SpanContext | None" = None, links: "Sequence[Link]" = (),
    ) -> None:  # fmt: skip
        """Begin a span.

        Args:
            tracer: From `find_tracer`.
            name: Of low cardinality.
            attributes: The initial attributes, which samplers see.
            is_request: Whether it is a client span, a child of the current one; else it is the root of a trace.
            parent: The remote parent of one that is no request; None for a root.
            links: The spans that it is related to.
        """
        trace: Any = sys.modules[API]
        self._loop = asyncio.get_running_loop()
        epoch = _trace_epoch() if is_request else None
        if epoch is None:
            epoch = int(_CLOCK.now().timestamp() * 1_000_000) * 1_000 - self._loop_ns()
        self._epoch = epoch
        self._token: Token[Any] | None = None
        self.span: Span = trace.INVALID_SPAN
        with guarded():
            self.span = tracer.start_span(
                name, kind=trace.SpanKind.CLIENT if is_request else trace.SpanKind.INTERNAL,
                context=None if is_request else _remote_context(parent), attributes=attributes,
                start_time=self._now(), links=links,
            )  # fmt: skip

    def enter(self) -> None:
        """Make this the current span of the task."""
        from opentelemetry import context  # noqa: PLC0415  # installed wherever there is a provider

        trace: Any = sys.modules[API]
        with_span = trace.set_span_in_context(self.span)
        self._token = context.attach(context.set_value(_EPOCH, self._epoch, with_span))

    def leave(self) -> None:
        """Make the span before this one the current one."""
        from opentelemetry import context  # noqa: PLC0415  # see above

        if self._token is not None:
            context.detach(self._token)
            self._token = None

    def fail(self, text: str, error: BaseException | None = None) -> None:
        """Set the span's status to ERROR, and record an exception, if there was one."""
        trace: Any = sys.modules[API]
        if error is not None:
            self.span.record_exception(error, timestamp=self._now())
        self.span.set_status(trace.Status(trace.StatusCode.ERROR, text))

    def end(self) -> None:
        """End the span; nothing happens when it has ended."""
        if self.span.is_recording():
            with guarded():
                self.span.end(end_time=self._now())

    def _now(self) -> int:
        return self._epoch + self._loop_ns()

    def _loop_ns(self) -> int:
        return int(self._loop.time() * 1_000_000_000)


def _trace_epoch() -> int | None:
    """Return the epoch of the running trace; None outside of one that was begun here."""
    from opentelemetry import context  # noqa: PLC0415  # see above

    epoch = context.get_value(_EPOCH)
    return epoch if isinstance(epoch, int) else None


def record_failure(error: BaseException, text: str) -> None:
    """Set the status of the current span, that of a reconcile, to ERROR, and record the exception."""
    trace: Any = sys.modules[API]
    span, epoch = trace.get_current_span(), _trace_epoch()
    if epoch is not None:
        now = epoch + int(asyncio.get_running_loop().time() * 1_000_000_000)
        span.record_exception(error, timestamp=now)
        span.set_status(trace.Status(trace.StatusCode.ERROR, text))


def _remote_context(parent: "SpanContext | None") -> "Context":
    trace: Any = sys.modules[API]
    empty, span = _empty_context(), parent and trace.NonRecordingSpan(parent)
    return empty if span is None else trace.set_span_in_context(span, empty)


@lru_cache(1)
def _empty_context() -> "Context":
    from opentelemetry.context import Context  # noqa: PLC0415  # see above

    return Context()


def exemplar() -> Mapping[str, str] | None:
    """Return the labels of an exemplar of the current span; None without one that is sampled.

    Source: kubernetes/staging/src/k8s.io/component-base/metrics/histogram.go, withExemplar: `trace_id` and `span_id`,
    63 of the 128 characters that OpenMetrics allows. The object's name is an attribute of the span.
    """
    if not is_tracing():
        return None
    trace: Any = sys.modules[API]
    return exemplar_of(trace.get_current_span())


def add_trace_ids(_logger: object, _method: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add `trace_id` and `span_id` of the current span to a log line: a processor of structlog.

    Source: OpenTelemetry's specification, Trace Context in non-OTLP Log Formats.
    """
    if is_tracing():
        trace: Any = sys.modules[API]
        context = trace.get_current_span().get_span_context()
        if context.is_valid:
            fields["trace_id"], fields["span_id"] = f"{context.trace_id:032x}", f"{context.span_id:016x}"
    return fields


def trace_headers(active: ActiveSpan) -> dict[str, str]:
    """Return the headers with which a server continues the trace of a span: `traceparent` and others."""
    from opentelemetry import propagate  # noqa: PLC0415  # installed wherever there is a span

    trace: Any = sys.modules[API]
    headers: dict[str, str] = {}
    with guarded():
        propagate.inject(headers, trace.set_span_in_context(active.span))
    return headers


def exemplar_of(span: "Span") -> Mapping[str, str] | None:
    """Return the labels of an exemplar of a span; None when it is not sampled."""
    context = span.get_span_context()
    if not (context.is_valid and context.trace_flags.sampled):
        return None
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}


TRACEPARENT = "kcr.dev/traceparent"
CONTINUED_SECONDS = 3600.0
# The contexts whose first reconcile is remembered.
_REMEMBERED = 4096
_FORM = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")

S = TypeVar("S", bound=Struct)


def with_traceparent(obj: S) -> S:
    """Return an object to create with the context of the current span, if it has an owner and the span is sampled."""
    metadata: Any = getattr(obj, "metadata", None)
    # The cheap conditions come first, for each create checks them.
    if metadata is None or not metadata.owner_references or not is_tracing():
        return obj
    trace: Any = sys.modules[API]
    context = trace.get_current_span().get_span_context()
    if not (context.is_valid and context.trace_flags.sampled):
        return obj
    text = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    return replace(obj, metadata=replace(metadata, annotations={**metadata.annotations, TRACEPARENT: text}))


def traceparent_of(metadata: Any) -> str:
    """Return the trace context of an object; empty for none, and without traces."""
    text: str = metadata.annotations.get(TRACEPARENT, "")
    return text if text and is_tracing() else ""


class Parents:
    """The trace contexts that the reconciles of one controller continue, and since when."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def find(self, text: str, now: float) -> "SpanContext | None":
        """Return the context to continue; None for a root.

        Args:
            text: The trace context of the object that is reconciled.
            now: The time of the loop.
        """
        context = context_in(text)
        if context is None or now - self._since.setdefault(text, now) > CONTINUED_SECONDS:
            return None
        if len(self._since) > _REMEMBERED:
            del self._since[next(iter(self._since))]
        return context


def links_to(texts: Iterable[str], parent: "SpanContext | None") -> "list[Link]":
    """Return links to trace contexts, without the parent; each context once."""
    trace: Any = sys.modules[API]
    known = parent and (parent.trace_id, parent.span_id)
    contexts = {(one.trace_id, one.span_id): one for text in texts if (one := context_in(text)) is not None}
    return [trace.Link(one) for ids, one in contexts.items() if ids != known]


def context_in(text: str) -> "SpanContext | None":
    """Return the context that a text has; None where it has none."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    trace: Any = sys.modules[API]
    flags = trace.TraceFlags(int(found[3], 16))
    context: SpanContext = trace.SpanContext(int(found[1], 16), int(found[2], 16), is_remote=True, trace_flags=flags)
    return context if context.is_valid else None
