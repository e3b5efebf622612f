"""Kubernetes controllers in Python.

A controller moves the actual state towards the desired state of an object. Its author writes one coroutine,
`reconcile`, which gets the key of an object that may have changed, compares the two states, and writes the difference
(level-triggered, idempotent). kcr provides everything else:

```python
from msgspec.structs import replace

import kcr
from kcr.api.core import ConfigMap


class WebsiteSpec(kcr.Object):
    image: str
    replicas: int = 1


class Website(kcr.Resource, api_version="example.dev/v1", plural="websites"):
    spec: WebsiteSpec


class WebsiteReconciler:
    def __init__(self, manager: kcr.Manager) -> None:
        self._client = manager.client  # talks to the API server
        self._websites = manager.store(Website)  # the informer's cache

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        website = self._websites.get(key)
        if website is None:
            return kcr.Result()
        config = ConfigMap(metadata=kcr.ObjectMeta(name=key.name, namespace=key.namespace))
        await kcr.create_or_patch(
            self._client,
            kcr.set_controller(config, website),  # deleted with its website
            lambda found: replace(found, data={"image": website.spec.image}),
        )
        return kcr.Result()


def setup(manager: kcr.Manager) -> None:
    manager.add_controller(
        "website",
        WebsiteReconciler(manager),
        watches=[kcr.watch(Website), kcr.owned(ConfigMap, by=Website)],
        workers=10,
    )


if __name__ == "__main__":
    kcr.run(setup)
```

The path of a change: a watch updates a *store*, handlers enqueue a *key* in a *work queue*, a *worker* takes it and
reconciles, and its writes return as watch events. A key is never processed concurrently, changes while it waits are
coalesced, and a failed key is requeued with exponential backoff.

- Objects are frozen values: subclass `Object` and `Resource`, change with `msgspec.structs.replace`. The conditions of
  a status are set with `set_condition` and read with `find_condition` and `is_condition_true`; the status is written
  with `client.patch_status(old, new)`.
- `kcr crd generate` writes the CustomResourceDefinition of such a class (`crd_manifest`), `kcr types generate` classes
  for existing definitions. Built-in kinds have views for caches (`kcr.api.core`) and complete types (`kcr.api.full`).
- `unstructured("example.dev/v1", "Widget", plural="widgets")` is a kind without a class: typed metadata, and all
  other fields as bytes, decoded when read. `metadata_only(Pod)` requests and caches metadata alone.
- `Client` sends every read to the server; cached reads are `Manager.store`, with indexes (`Store.add_index`).
  `Selection` limits the cached objects of a kind.
- `watch(Kind, predicate=…)` filters changes: `generation_changed`, `labels_changed`, `annotations_changed`,
  `finalizers_changed`, `resource_version_changed`, `labels_match`, combined by `any_of`, `all_of` and `none_of`.
  `map_to=keys_by_index(…)` enqueues the objects that refer to a changed one; `Result(requeue_after=600, jitter=0.1)`
  resyncs.
- `Manager.add_watch` and `Manager.open_informer` watch further kinds at run time; closing the last `InformerHandle`
  of a kind ends its informer.
- `Manager` starts informers, then controllers, and stops them in the reverse order; `expose` serves metrics, probes
  and, to this machine, `/debug/kcr`. A reconciler's method `explain` explains the state of an object there
  (`Explanation`, `Code`, `Step`).
  With leader election one of several replicas runs its controllers, the others stand by: `run(leader_elect=True)`.
  Under `Sharding` every replica reconciles its share of the objects. `Namespaces` are a set that may change.
- Failures are one tree, `KcrError`: `ApiError` for a refusal of the server, `TransportError` for a write with an
  unknown result, `TerminalError` for an error that no retry can fix, `RetryLater` for a missing prerequisite.
  `WaitFor` parks the key until an object is as wanted.
- `Clusters` are member clusters: one program reconciles the objects of several clusters (`Key.cluster`).
- `in_thread` calls blocking code in a thread.
  Exceptions of other libraries are failures as well; only programming errors count as panics.
- `Manager.add_webhook(Kind, webhook)` serves admission: an object with methods `default` and `validate_create`,
  `validate_update`, `validate_delete`, which raise `Denied`; see `WebhookRequest`. `Manager.add_conversion(Kind)`
  serves the functions of `converts` between versions of a kind.
- For controllers that own other objects: creation and deletion with events (`DependentControl`), all wanted
  children of several kinds (`Children`), adoption (`claim`),
  owner references (`set_controller`), finalizers (`finalized`), and `create_or_patch`.
- `kcr.testing` runs controllers in virtual time; `kcr dev` is a development cluster in one process.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcr.api.conditions import find_condition, is_condition_true, remove_condition, set_condition
    from kcr.api.crd.manifest import crd_manifest
    from kcr.api.explanation import Code, Explanation, Step
    from kcr.api.markers import IntOrString, ListType, PrinterColumn, Quantity, ScaleSubresource, Validation
    from kcr.api.meta import (
        Condition,
        FullResource,
        Key,
        Object,
        ObjectMeta,
        OwnerReference,
        PartialObjectMetadata,
        Resource,
        ResourceView,
        controller_reference,
        is_controlled_by,
        metadata_only,
    )
    from kcr.api.unstructured import Unstructured, unstructured
    from kcr.app.run import run
    from kcr.client import Client, HttpTransport, load_config, retry_on_conflict
    from kcr.client.explainers import explains
    from kcr.clock import Clock, SystemClock
    from kcr.clusters import Clusters, MemberCluster
    from kcr.controller import (
        Controller,
        ControllerOptions,
        Expectations,
        OwnWrites,
        Reconciler,
        Result,
        Source,
        ThreadBusyError,
        ThreadTimeoutError,
        WaitFor,
        WaitTimeoutError,
        all_of,
        annotations_changed,
        any_of,
        channel,
        finalizers_changed,
        generation_changed,
        in_thread,
        is_abandoned,
        keys_by_index,
        labels_changed,
        labels_match,
        none_of,
        owned,
        reconcile_requested_at,
        resource_version_changed,
        rights,
        watch,
    )
    from kcr.dependents import (
        Children,
        DependentControl,
        add_finalizer,
        claim,
        create_or_patch,
        finalized,
        has_finalizer,
        has_owner,
        remove_finalizer,
        remove_owner,
        set_controller,
        set_owner,
        slow_start,
    )
    from kcr.errors import (
        AlreadyExistsError,
        ApiError,
        BadRequestError,
        ConfigError,
        ConflictError,
        Denied,
        ForbiddenError,
        GoneError,
        InvalidError,
        KcrError,
        LeadershipLostError,
        NotFoundError,
        NotSyncedError,
        RetryLater,
        ServerError,
        TerminalError,
        TooManyRequestsError,
        TransportError,
        UnauthorizedError,
        is_namespace_ending,
    )
    from kcr.events import EventRecorder
    from kcr.informer import (
        Handler,
        Informer,
        InformerHandle,
        Selection,
        Store,
        Trigger,
    )
    from kcr.manager import Manager
    from kcr.metrics import Metrics
    from kcr.scopes.leaderelection import LeaderElectionConfig, LeaderElector
    from kcr.scopes.namespaces import Namespaces
    from kcr.scopes.sharding import Sharding
    from kcr.serving.ports import SecureServing
    from kcr.serving.webhooks import WebhookRequest
    from kcr.serving.webhooks.converters import converts
    from kcr.workqueue import RateLimiter, Reason, WorkQueue

__all__ = [
    "AlreadyExistsError",
    "ApiError",
    "BadRequestError",
    "Children",
    "Client",
    "Clock",
    "Clusters",
    "Code",
    "Condition",
    "ConfigError",
    "ConflictError",
    "Controller",
    "ControllerOptions",
    "Denied",
    "DependentControl",
    "EventRecorder",
    "Expectations",
    "Explanation",
    "ForbiddenError",
    "FullResource",
    "GoneError",
    "Handler",
    "HttpTransport",
    "Informer",
    "InformerHandle",
    "IntOrString",
    "InvalidError",
    "KcrError",
    "Key",
    "LeaderElectionConfig",
    "LeaderElector",
    "LeadershipLostError",
    "ListType",
    "Manager",
    "MemberCluster",
    "Metrics",
    "Namespaces",
    "NotFoundError",
    "NotSyncedError",
    "Object",
    "ObjectMeta",
    "OwnWrites",
    "OwnerReference",
    "PartialObjectMetadata",
    "PrinterColumn",
    "Quantity",
    "RateLimiter",
    "Reason",
    "Reconciler",
    "Resource",
    "ResourceView",
    "Result",
    "RetryLater",
    "ScaleSubresource",
    "SecureServing",
    "Selection",
    "ServerError",
    "Sharding",
    "Source",
    "Step",
    "Store",
    "SystemClock",
    "TerminalError",
    "ThreadBusyError",
    "ThreadTimeoutError",
    "TooManyRequestsError",
    "TransportError",
    "Trigger",
    "UnauthorizedError",
    "Unstructured",
    "Validation",
    "WaitFor",
    "WaitTimeoutError",
    "WebhookRequest",
    "WorkQueue",
    "add_finalizer",
    "all_of",
    "annotations_changed",
    "any_of",
    "channel",
    "claim",
    "controller_reference",
    "converts",
    "crd_manifest",
    "create_or_patch",
    "explains",
    "finalized",
    "finalizers_changed",
    "find_condition",
    "generation_changed",
    "has_finalizer",
    "has_owner",
    "in_thread",
    "is_abandoned",
    "is_condition_true",
    "is_controlled_by",
    "is_namespace_ending",
    "keys_by_index",
    "labels_changed",
    "labels_match",
    "load_config",
    "metadata_only",
    "none_of",
    "owned",
    "reconcile_requested_at",
    "remove_condition",
    "remove_finalizer",
    "remove_owner",
    "resource_version_changed",
    "retry_on_conflict",
    "rights",
    "run",
    "set_condition",
    "set_controller",
    "set_owner",
    "slow_start",
    "unstructured",
    "watch",
]

# Where the names live. They are imported when first used: the pytest plugin and the command line import this
# package in every process, and the HTTP client alone takes a sixth of a second.
_HOMES = {
    "kcr.api.conditions": "find_condition is_condition_true remove_condition set_condition",
    "kcr.api.crd.manifest": "crd_manifest",
    "kcr.api.markers": "IntOrString ListType PrinterColumn Quantity ScaleSubresource Validation",
    "kcr.api.explanation": "Code Explanation Step",
    "kcr.api.meta": (
        "Condition FullResource Key Object ObjectMeta OwnerReference PartialObjectMetadata Resource ResourceView "
        "controller_reference is_controlled_by metadata_only"
    ),
    "kcr.api.unstructured": "Unstructured unstructured",
    "kcr.app.run": "run",
    "kcr.client": "Client HttpTransport load_config retry_on_conflict",
    "kcr.client.explainers": "explains",
    "kcr.clock": "Clock SystemClock",
    "kcr.clusters": "Clusters MemberCluster",
    "kcr.controller": (
        "Controller ControllerOptions Expectations OwnWrites Reconciler Result Source ThreadBusyError "
        "ThreadTimeoutError WaitFor WaitTimeoutError all_of annotations_changed any_of channel finalizers_changed "
        "generation_changed in_thread is_abandoned keys_by_index labels_changed labels_match none_of owned "
        "reconcile_requested_at resource_version_changed rights watch"
    ),
    "kcr.dependents": (
        "Children DependentControl add_finalizer claim create_or_patch finalized has_finalizer has_owner "
        "remove_finalizer remove_owner set_controller set_owner slow_start"
    ),
    "kcr.serving.ports": "SecureServing",
    "kcr.events": "EventRecorder",
    "kcr.informer": "Handler Informer InformerHandle Selection Store Trigger",
    "kcr.scopes.leaderelection": "LeaderElectionConfig LeaderElector",
    "kcr.manager": "Manager",
    "kcr.metrics": "Metrics",
    "kcr.scopes.namespaces": "Namespaces",
    "kcr.scopes.sharding": "Sharding",
    "kcr.serving.webhooks": "WebhookRequest",
    "kcr.serving.webhooks.converters": "converts",
    "kcr.workqueue": "RateLimiter Reason WorkQueue",
}


if not TYPE_CHECKING:  # type checkers have the imports above, and must refuse all other names

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'kcr' has no attribute {name!r}")
        home = next((home for home, names in _HOMES.items() if name in names.split()), "kcr.errors")
        value = globals()[name] = getattr(importlib.import_module(home), name)
        return value


def __dir__() -> list[str]:
    return __all__
