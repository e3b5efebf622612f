"""Controllers: sources of keys, a work queue, workers, and the processing of a reconcile's outcome.

A `Controller` connects watches (`watch`, `owned`, `channel`) with a queue, and its workers call one `Reconciler`.
Guarantees to the author of a reconciler:

- **Level-triggered.** `reconcile` gets a key, never an event. It runs after every change of the watched objects,
  after every start, and after `requeue_after`.
- **Never concurrent for one key.** Different keys are reconciled concurrently, by `workers` tasks on one event loop.
- **Gates.** Before a reconcile the worker passes the key through gates (`kcr.controller.gates`), which admit, defer or
  drop it: the object is paused, a store does not show this process's own writes yet (`OwnWrites`), the last reconcile
  was too recent. A deferred key occupies no worker.
- **Retries.** An exception requeues the key with exponential backoff, `RetryLater` after its delay, `TerminalError`
  only after a change. No exception ends the worker. While the API server is unavailable, one key probes it, and all
  failed keys are retried once it responds.
- **Parking** (`waits`, `retries`). `WaitFor` parks the key until a store shows an object as wanted,
  `max_retries` one that fails too often until its object changes.
- **Observers.** Metrics, the journal, traces, and the detection of hot loops and conflicts see the begin and the end of
  each reconcile (`kcr.controller.observers`). Their failures do not affect the outcome.
- **Shutdown.** No further key is taken, and running reconciles may finish within the manager's graceful timeout.

Source: controller-runtime/pkg/internal/controller; client-go/util/workqueue.
"""

from kcr.controller.controller import Controller, ControllerOptions
from kcr.controller.expectations import Expectations
from kcr.controller.own_writes import OwnWrites, StaleStoreError
from kcr.controller.pending_objects import PendingObjects
from kcr.controller.predicates import (
    Predicate,
    all_of,
    annotations_changed,
    any_of,
    finalizers_changed,
    generation_changed,
    labels_changed,
    labels_match,
    none_of,
    resource_version_changed,
)
from kcr.controller.reconcile import DeadlineError, Reconciler, Result
from kcr.controller.retries import reconcile_requested_at
from kcr.controller.rights import Right, policy_rules, rights, watch_rights
from kcr.controller.sources import Batching, Channel, Source, channel, keys_by_index, owned, watch
from kcr.controller.threads import ThreadBusyError, ThreadTimeoutError, in_thread, is_abandoned
from kcr.controller.waits import WaitFor, WaitTimeoutError

__all__ = [
    "Batching",
    "Channel",
    "Controller",
    "ControllerOptions",
    "DeadlineError",
    "Expectations",
    "OwnWrites",
    "PendingObjects",
    "Predicate",
    "Reconciler",
    "Result",
    "Right",
    "Source",
    "StaleStoreError",
    "ThreadBusyError",
    "ThreadTimeoutError",
    "WaitFor",
    "WaitTimeoutError",
    "all_of",
    "annotations_changed",
    "any_of",
    "channel",
    "finalizers_changed",
    "generation_changed",
    "in_thread",
    "is_abandoned",
    "keys_by_index",
    "labels_changed",
    "labels_match",
    "none_of",
    "owned",
    "policy_rules",
    "reconcile_requested_at",
    "resource_version_changed",
    "rights",
    "watch",
    "watch_rights",
]
