"""What OpenTelemetry's SDK records while a test runs."""

from collections.abc import Mapping
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler


class Traces:
    """The spans that ended, of a provider that is the program's for one test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, sampler: Sampler = ALWAYS_ON) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        # A program may set its provider once; this takes it back after the test.
        monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", self.provider)

    def find(self, name: str = "") -> list[ReadableSpan]:
        """Return the spans whose name begins so, in the order of their beginning."""
        spans = (span for span in self._exporter.get_finished_spans() if span.name.startswith(name))
        return sorted(spans, key=lambda span: span.start_time or 0)

    def one(self, name: str) -> ReadableSpan:
        """Return the only span whose name begins so."""
        (span,) = self.find(name)
        return span


def attributes(span: ReadableSpan) -> Mapping[str, Any]:
    """Return the attributes of a span."""
    return dict(span.attributes or {})


def span_id(span: ReadableSpan) -> int:
    """Return the id of a span."""
    context = span.get_span_context()
    assert context is not None
    return context.span_id


def parent_id(span: ReadableSpan) -> int | None:
    """Return the id of a span's parent; None of a root."""
    return span.parent.span_id if span.parent else None


def trace_id(span: ReadableSpan) -> int:
    """Return the id of a span's trace."""
    context = span.get_span_context()
    assert context is not None
    return context.trace_id


def seconds(span: ReadableSpan) -> float:
    """Return how long a span took."""
    assert span.end_time is not None
    assert span.start_time is not None
    return (span.end_time - span.start_time) / 1e9
