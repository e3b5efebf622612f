"""Observers that report each reconcile: in metrics, as a span, and as a log line at level debug."""

import logging
from typing import TYPE_CHECKING, Any

from kcr.api import codec
from kcr.api.meta import Key, Resource
from kcr.controller.observers import Observer, ReconcileRun
from kcr.log import get_logger
from kcr.metrics import ControllerMetrics
from kcr.tracing import ActiveSpan, Parents, exemplar_of, links_to, record_failure, traceparent_of
from kcr.workqueue import WorkQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.trace import Tracer

_log = get_logger()


class ReconcileSpans(Observer):
    """Makes the current span of a worker while it reconciles a key, named `reconcile` and its controller.

    It is a root, or continues the trace in which the object was created; see `kcr.tracing`.

    It begins when the reconcile begins, so that `controller_runtime_reconcile_time_seconds` observes its duration, and
    has the time in the queue as its attribute `kcr.queue.seconds` (decision 27).

    Source: kubernetes/community, contributors/devel/sig-instrumentation/trace-instrumentation.md, for the advice.
    """

    def __init__(
        self, tracer: "Tracer", controller: str, queue: WorkQueue[Key],
        find: "Callable[[Key], Resource | None]" = lambda key: None,
    ) -> None:  # fmt: skip
        """Make no span yet.

        Args:
            tracer: From `kcr.tracing.find_tracer`.
            controller: The controller's name.
            queue: Knows why keys are reconciled.
            find: Returns the object of a key; None when no store shows one.
        """
        self._tracer = tracer
        self._controller = controller
        self._queue = queue
        self._find, self._parents = find, Parents()
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
        obj = self._find(key)
        own = "" if obj is None else traceparent_of(obj.metadata)
        parent = self._parents.find(own, run.began)
        links = links_to((own, *(reason.traceparent for reason in state.processing_reasons)), parent)
        span = self._spans[key] = ActiveSpan(
            self._tracer, f"reconcile {self._controller}", attributes, parent=parent, links=links
        )
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


class ReconcileMetrics(Observer):
    """Counts reconciles by result, those that run, and how long they take."""

    def __init__(self, metrics: ControllerMetrics) -> None:
        self._metrics = metrics

    def begin(self, run: ReconcileRun) -> None:
        """Count an active worker."""
        self._metrics.active += 1

    def end(self, run: ReconcileRun) -> None:
        """Count the result, and the time that it took."""
        metrics = self._metrics
        metrics.active -= 1
        metrics.results[run.outcome] += 1
        metrics.seconds.observe(run.ended - run.began, run.exemplar)


class DebugLog(Observer):
    """Logs the priority and the reasons of each key that is reconciled; only of use where `is_enabled`.

    A reconcile that changes the cached object of its key in place, whose maps are plain dicts, is an error in the log.
    """

    def __init__(self, queue: WorkQueue[Key], find: "Callable[[Key], Resource | None]") -> None:
        """Log the keys' states in this queue; `find` returns the object of a key, or None."""
        self._queue, self._find = queue, find
        # The objects of the keys that are reconciled, and how they were.
        self._objects: dict[Key, tuple[Resource, bytes]] = {}

    @staticmethod
    def is_enabled() -> bool:
        """Return whether the program logs at level debug."""
        is_enabled_for = getattr(_log, "is_enabled_for", None)
        return is_enabled_for is not None and bool(is_enabled_for(logging.DEBUG))

    def begin(self, run: ReconcileRun) -> None:
        """Log a line."""
        state = self._queue.state(run.key)
        _log.debug("reconciling", priority=state.processing, reasons=[*map(str, state.processing_reasons)])
        if (obj := self._find(run.key)) is not None:
            self._objects[run.key] = (obj, codec.encode(obj))

    def end(self, run: ReconcileRun) -> None:
        """Compare the object of the key."""
        obj, encoded = self._objects.pop(run.key, (None, b""))
        if obj is not None and codec.encode(obj) != encoded:
            name, remedy = f"{obj.resource.display} {obj.key}", "change a copy: msgspec.structs.replace(obj, …)"
            _log.error("cached object was changed in place, for all readers", object=name, remedy=remedy)
