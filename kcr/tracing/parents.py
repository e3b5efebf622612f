"""The annotation `kcr.dev/traceparent`: the reconciles of children continue the trace of their owner.

A reconcile whose span is sampled writes its trace context into each object that it creates with an owner. A reconcile
of such an object is a child of that span, and so are the objects that it creates: a CronJob's run, its Job and the
pods are one trace. Other reconciles, such as that of a Job which a user has created without the annotation, are roots,
and link to the contexts of the objects that have enqueued their key: the pods that earlier reconciles have created.

A context is continued for an hour: traces end, and objects may not. Later reconciles are roots with a link.

Source: https://www.w3.org/TR/trace-context/#traceparent-header: a value that cannot be read is ignored.
"""

import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from kcr.tracing import API, is_tracing

if TYPE_CHECKING:
    from opentelemetry.trace import Link, SpanContext

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
