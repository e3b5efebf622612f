"""Controllers: sources of keys, the queue, the workers, and what follows a reconcile."""

from kcr.controller.batching import Batching
from kcr.controller.controller import Controller
from kcr.controller.expectations import Expectations
from kcr.controller.own_writes import OwnWrites, PendingObjects, StaleStoreError
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
from kcr.controller.reconcile import Reconciler, Result
from kcr.controller.rights import Right, policy_rules, rights
from kcr.controller.sources import Channel, Source, channel, keys_by_index, owned, watch
from kcr.controller.timeout import DeadlineError

__all__ = [
    "Batching",
    "Channel",
    "Controller",
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
    "all_of",
    "annotations_changed",
    "any_of",
    "channel",
    "finalizers_changed",
    "generation_changed",
    "keys_by_index",
    "labels_changed",
    "labels_match",
    "none_of",
    "owned",
    "policy_rules",
    "resource_version_changed",
    "rights",
    "watch",
]
