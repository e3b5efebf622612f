"""Correlation: links from metrics, log lines and requests to their span."""

import sys
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from kcr.tracing.spans import API, ActiveSpan, guarded, is_tracing

if TYPE_CHECKING:
    from opentelemetry.trace import Span


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
    from opentelemetry import propagate  # noqa: PLC0415  # whoever has a span has it

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
