"""OpenTelemetry: spans, exemplars and trace ids in log lines, for programs that have a tracer provider.

What kcr makes: a span for each reconcile, the root of a trace of its own, and a client span for each request to the API
server, a child of whatever span is current. Without a provider all of this is a look into `sys.modules`: kcr never
imports OpenTelemetry, which takes 60 ms, because whoever sets a provider has done so.

Spans take their duration from the event loop, which is the only source of time, and the calendar's time once per trace:
the spans of one reconcile fit into each other also when the clock is set meanwhile, and under virtual time. The current
span is a context variable, so that it follows into the tasks which a reconcile starts. What outlives the reconcile
runs in a context without it: timers in an empty one, runnables in that of their group.
"""

from kcr.tracing.spans import (
    ActiveSpan,
    add_trace_ids,
    exemplar,
    exemplar_of,
    find_tracer,
    record_failure,
    trace_headers,
)

__all__ = ["ActiveSpan", "add_trace_ids", "exemplar", "exemplar_of", "find_tracer", "record_failure", "trace_headers"]
