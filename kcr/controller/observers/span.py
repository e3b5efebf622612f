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
from kcr.metrics import Outcome
from kcr.tracing import ActiveSpan
from kcr.workqueue import KeyState

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer


class ReconcileSpan(ActiveSpan):
    """The current span of a worker while it reconciles a key; the root of a trace, named `reconcile` and controller."""

    __slots__ = ()

    def __init__(self, tracer: "Tracer", controller: str, key: Key, reconcile_id: str, state: KeyState) -> None:
        """Begin the span and make it the current one.

        Args:
            tracer: From `kcr.tracing.find_tracer`.
            controller: The controller's name.
            key: What is reconciled.
            reconcile_id: As in log lines.
            state: What the queue knows of the key.
        """
        attributes: dict[str, Any] = {
            "kcr.controller": controller, "k8s.namespace.name": key.namespace, "kcr.name": key.name,
            "kcr.reconcile_id": reconcile_id, "kcr.priority": state.processing or 0, "kcr.retries": state.retries,
            "kcr.reasons": tuple(map(str, state.processing_reasons)),
        }  # fmt: skip
        if state.waited is not None:
            attributes["kcr.queue.seconds"] = state.waited
        super().__init__(tracer, f"reconcile {controller}", attributes)
        self.enter()

    def finish(self, outcome: Outcome) -> None:
        """End the span; `kcr.tracing.record_failure` has noted what the reconcile failed with."""
        self.leave()
        self.span.set_attribute("kcr.outcome", outcome)
        self.end()
