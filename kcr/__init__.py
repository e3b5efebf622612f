"""Kubernetes controllers in Python.

A controller brings the world towards what an object asks for. Its author writes one coroutine, `reconcile`,
which is given the key of an object that may have changed, looks at the world as it is, and does what is
missing. Everything else is here:

```python
import kcr
from kcr.api.core import Pod


class WebsiteSpec(kcr.Object):
    image: str
    replicas: int = 1


class Website(kcr.Resource, api_version="example.dev/v1", plural="websites"):
    spec: WebsiteSpec


class WebsiteReconciler:
    def __init__(self, manager: kcr.Manager) -> None:
        self._client = manager.client  # asks the server
        self._websites = manager.store(Website)  # a copy, kept right by a watch
        self._pods = manager.store(Pod)

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        website = self._websites.get(key)
        if website is None:
            return kcr.Result()
        pods = self._pods.by_index("owner", website.metadata.uid)
        ...
        return kcr.Result()


def setup(manager: kcr.Manager) -> None:
    manager.add_controller(
        "website",
        WebsiteReconciler(manager),
        watches=[kcr.watch(Website), kcr.owned(Pod, by=Website)],
        workers=10,
    )


kcr.run(setup)
```

The path of a change: the server's watch feeds a *store*, the store's handlers put a *key* into a *work queue*, a
*worker* takes it and reconciles, and what it writes comes back as the next change. A key is never in two
pairs of hands, one that changed five times comes once, and one that failed comes back later and later.

- Objects are frozen values: subclass `Object` and `Resource`, change with `msgspec.structs.replace`.
- A kind without a class is `unstructured("example.dev/v1", "Widget", plural="widgets")`: typed metadata, and all
  other fields as bytes, decoded when read.
- `Client` always talks to the server; cached reads are `Manager.store`.
- `Manager` owns what runs: informers first, then controllers, and all of it backwards at the end. Its `expose`
  serves metrics and probes; `metrics` and `health` take your own.
- Failures are one tree, `KcrError`: `ApiError` when the server said no, `TransportError` when nobody knows
  whether a write has happened, `TerminalError` when a reconciler knows that retrying cannot help.
- What an owner of other objects needs is in `kcr.dependents`: careful creation with events (`DependentControl`),
  adoption (`claim`), references, finalizers (`finalized`), and one object brought about (`create_or_patch`).
- `kcr.testing` runs the whole life of a controller in virtual time; `kcr dev` does it for real, in one process.
"""

import importlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcr.api.meta import (
        Key,
        Object,
        ObjectMeta,
        OwnerReference,
        Resource,
        controller_reference,
        is_controlled_by,
    )
    from kcr.api.unstructured import Unstructured, unstructured
    from kcr.client import Client, HttpTransport, load_config, retry_on_conflict
    from kcr.clock import Clock, SystemClock
    from kcr.controller import Controller, Parking, Reconciler, Result, Source, channel, owned, watch
    from kcr.dependents import DependentControl, claim, create_or_patch, finalized, set_controller, slow_start
    from kcr.errors import (
        AlreadyExistsError,
        ApiError,
        BadRequestError,
        ConfigError,
        ConflictError,
        ForbiddenError,
        GoneError,
        InvalidError,
        KcrError,
        NotFoundError,
        NotSyncedError,
        ServerError,
        TerminalError,
        TooManyRequestsError,
        TransportError,
        UnauthorizedError,
    )
    from kcr.events import EventRecorder
    from kcr.expectations import Expectations
    from kcr.informer import Handler, Informer, Store
    from kcr.manager import Manager
    from kcr.metrics import Metrics
    from kcr.workqueue import RateLimiter, WorkQueue

__all__ = [
    "AlreadyExistsError",
    "ApiError",
    "BadRequestError",
    "Client",
    "Clock",
    "ConfigError",
    "ConflictError",
    "Controller",
    "DependentControl",
    "EventRecorder",
    "Expectations",
    "ForbiddenError",
    "GoneError",
    "Handler",
    "HttpTransport",
    "Informer",
    "InvalidError",
    "KcrError",
    "Key",
    "Manager",
    "Metrics",
    "NotFoundError",
    "NotSyncedError",
    "Object",
    "ObjectMeta",
    "OwnerReference",
    "Parking",
    "RateLimiter",
    "Reconciler",
    "Resource",
    "Result",
    "ServerError",
    "Source",
    "Store",
    "SystemClock",
    "TerminalError",
    "TooManyRequestsError",
    "TransportError",
    "UnauthorizedError",
    "Unstructured",
    "WorkQueue",
    "channel",
    "claim",
    "controller_reference",
    "create_or_patch",
    "finalized",
    "is_controlled_by",
    "load_config",
    "owned",
    "retry_on_conflict",
    "run",
    "set_controller",
    "slow_start",
    "unstructured",
    "watch",
]

# Where the names live. They are imported when first used: the pytest plugin and the command line import this
# package in every process, and the HTTP client alone takes a sixth of a second.
_HOMES = {
    "kcr.api.meta": {
        "Key",
        "Object",
        "ObjectMeta",
        "OwnerReference",
        "Resource",
        "controller_reference",
        "is_controlled_by",
    },
    "kcr.api.unstructured": {"Unstructured", "unstructured"},
    "kcr.client": {"Client", "HttpTransport", "load_config", "retry_on_conflict"},
    "kcr.clock": {"Clock", "SystemClock"},
    "kcr.controller": {"Controller", "Parking", "Reconciler", "Result", "Source", "channel", "owned", "watch"},
    "kcr.dependents": {"DependentControl", "claim", "create_or_patch", "finalized", "set_controller", "slow_start"},
    "kcr.events": {"EventRecorder"},
    "kcr.expectations": {"Expectations"},
    "kcr.informer": {"Handler", "Informer", "Store"},
    "kcr.manager": {"Manager"},
    "kcr.metrics": {"Metrics"},
    "kcr.workqueue": {"RateLimiter", "WorkQueue"},
}


if not TYPE_CHECKING:  # type checkers have the imports above, and shall refuse all other names

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'kcr' has no attribute {name!r}")
        home = next((home for home, names in _HOMES.items() if name in names), "kcr.errors")
        value = globals()[name] = getattr(importlib.import_module(home), name)
        return value


def __dir__() -> list[str]:
    return __all__


def run(
    setup: "Callable[[Manager], object]",
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    namespace: str = "",
    metrics_bind_address: str = "0",
    health_probe_bind_address: str = "0",
) -> None:
    """Run controllers as a program, until SIGTERM or SIGINT; what cannot be used is one line and exit code 1.

    Args:
        setup: Adds the controllers to a manager.
        kubeconfig: The file to use; None for `KUBECONFIG`, the pod's own account, or `~/.kube/config`.
        context: The context to use; None for the file's current one.
        namespace: The one namespace to watch; empty for all.
        metrics_bind_address: Where to serve `/metrics`, such as `:8080`; `0` for nowhere.
        health_probe_bind_address: Where to serve `/healthz`, `/livez` and `/readyz`; `0` for nowhere.
    """
    from urllib.parse import urlsplit  # noqa: PLC0415  # see _HOMES

    from kcr.cli.logs import configure_logs  # noqa: PLC0415  # see _HOMES
    from kcr.cli.process import fast_loop, run_to_end, spare_the_collector  # noqa: PLC0415  # see _HOMES
    from kcr.client import Client, HttpTransport, load_config  # noqa: PLC0415  # see _HOMES
    from kcr.errors import KcrError  # noqa: PLC0415  # see _HOMES
    from kcr.manager import Manager  # noqa: PLC0415  # see _HOMES
    from kcr.metrics import Metrics  # noqa: PLC0415  # see _HOMES

    async def main() -> int:
        config = load_config(kubeconfig, context)
        metrics = Metrics()
        async with HttpTransport(config) as transport:
            client = Client(transport, on_request=metrics.requests(urlsplit(config.server).netloc))
            manager = Manager(client, namespace=namespace, metrics=metrics)
            manager.expose(metrics=metrics_bind_address, probes=health_probe_bind_address)
            manager.embedded = (await client.server_version()).endswith("+kcr")
            setup(manager)
            spare_the_collector()
            await manager.run()
        return 0

    configure_logs(None, "info")
    try:
        run_to_end(main, fast_loop())
    except KcrError as error:
        sys.exit(f"{sys.argv[0]}: {error}")
