"""The span of a reconcile: one key, from the worker's taking it to its outcome.

It begins when the reconcile begins, so that its duration is what `controller_runtime_reconcile_time_seconds` counts,
and an exemplar of that histogram leads to it. The time in the queue is an attribute, `kcr.queue.seconds`, and no span
before it: a child that begins before its parent is taken for a wrong clock by trace viewers, a parent around both would
double the spans and hide how long reconciles take, and an attribute can be searched for. Kubernetes' advice to make no
span of a reconcile that does nothing is left to samplers: what a reconciler will do is not known before.

Source: kubernetes/community, contributors/devel/sig-instrumentation/trace-instrumentation.md, for the advice.
"""

from typing import TYPE_CHECKING, Any

from kcr.api.meta import Key
from kcr.controller.observers import Observer, ReconcileRun
from kcr.tracing import ActiveSpan, exemplar_of, record_failure
from kcr.workqueue import WorkQueue

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer


class ReconcileSpans(Observer):
    """Makes the current span of a worker while it reconciles a key: a root, named `reconcile` and its controller."""

    def __init__(self, tracer: "Tracer", controller: str, queue: WorkQueue[Key]) -> None:
        """Make no span yet.

        Args:
            tracer: From `kcr.tracing.find_tracer`.
            controller: The controller's name.
            queue: Knows why keys are reconciled.
        """
        self._tracer = tracer
        self._controller = controller
        self._queue = queue
        # Of the reconciles that run.
        self._spans: dict[Key, ActiveSpan] = {}

    def begin(self, run: ReconcileRun) -> None:
        """Begin a span, and make it the current one."""
        key, state = run.key, self._queue.state(run.key)
        attributes: dict[str, Any] = {
            "kcr.controller": self._controller, "k8s.namespace.name": key.namespace, "kcr.name": key.name,
            "kcr.reconcile_id": run.id, "kcr.priority": state.processing or 0, "kcr.retries": state.retries,
            "kcr.reasons": tuple(map(str, state.processing_reasons)),
        }  # fmt: skip
        if state.waited is not None:
            attributes["kcr.queue.seconds"] = state.waited
        span = self._spans[key] = ActiveSpan(self._tracer, f"reconcile {self._controller}", attributes)
        span.enter()

    def end(self, run: ReconcileRun) -> None:
        """End the span, and let the run have its exemplar."""
        span = self._spans.pop(run.key)
        if run.error is not None:
            record_failure(run.error, str(run.detail))
        span.leave()
        span.span.set_attribute("kcr.outcome", run.outcome)
        span.end()
        run.exemplar = exemplar_of(span.span)
