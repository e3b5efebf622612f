"""The sources of a process's state: the parts of its manager."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from kcr.api.resources import ResourceType
from kcr.clock import Clock, SystemClock
from kcr.controller import Controller
from kcr.informer import Informer, Selection
from kcr.scopes.leaderelection import Leadership
from kcr.scopes.sharding.shards import Shards
from kcr.serving.debug.access import DebugOptions
from kcr.serving.health import Health, LoopMonitor

T = TypeVar("T")

# How often something is read again that has changed meanwhile.
_ATTEMPTS = 10

# The names that kubectl takes for kinds beside singular and plural.
# Source: `kubectl api-resources`, SHORTNAMES.
_SHORT_NAMES = {
    "configmaps": ("cm",), "endpoints": ("ep",), "events": ("ev",), "namespaces": ("ns",), "nodes": ("no",),
    "persistentvolumeclaims": ("pvc",), "persistentvolumes": ("pv",), "pods": ("po",),
    "replicationcontrollers": ("rc",), "resourcequotas": ("quota",), "serviceaccounts": ("sa",), "services": ("svc",),
    "customresourcedefinitions": ("crd", "crds"), "daemonsets": ("ds",), "deployments": ("deploy",),
    "replicasets": ("rs",), "statefulsets": ("sts",), "horizontalpodautoscalers": ("hpa",), "cronjobs": ("cj",),
    "ingresses": ("ing",), "networkpolicies": ("netpol",), "poddisruptionbudgets": ("pdb",),
}  # fmt: skip


class WatchedKind(NamedTuple):
    """An informer, and its selections."""

    selections: tuple[Selection[Any], ...]
    informer: Informer[Any]


class StateSources:
    """The parts of a manager that the debug pages read.

    Attributes:
        health: The health checks.
        controllers: The controllers by name.
        informers: The informers by name.
        elector: Leader election; None without it.
        shards: The shards of this replica; None without sharding.
        monitor: Measures the event loop; None when nothing is served.
        options: The options of the program.
        clock: The source of time.
    """

    def __init__(self, health: Health, clock: Clock | None = None, election: Leadership | Shards | None = None) -> None:
        """Begin without parts; with no clock, that of the machine counts."""
        self.health = health
        self.controllers: dict[str, Controller] = {}
        self.informers: dict[str, WatchedKind] = {}
        self.elector: Leadership | None = election if isinstance(election, Leadership) else None
        self.shards: Shards | None = election if isinstance(election, Shards) else None
        self.monitor: LoopMonitor | None = None
        self.options: DebugOptions = DebugOptions()
        self.clock: Clock = clock or SystemClock()

    @property
    def command(self) -> str:
        """The command of the process."""
        return self.options.command or Path(sys.argv[0]).name

    def store_names(self) -> dict[int, str]:
        """Return the resources of stores, by the identity of the store: `pods`, `jobs.batch`."""
        return {id(one.informer.store): name for name, one in self.informers.copy().items()}

    def controllers_of(self, name: str, kind: str) -> list[Controller]:
        """Return the controllers that match, by name.

        Args:
            name: The controller's name; empty for any.
            kind: The kind of its keys, as users write it for kubectl; empty for any.
        """
        found = sorted(self.controllers.copy().items())
        return [
            controller
            for known, controller in found
            if name in ("", known) and (not kind or any(is_called(one, kind) for one in _named_by_keys(controller)))
        ]


def _named_by_keys(controller: Controller) -> tuple[ResourceType, ...]:
    """Return the kind of a controller's keys; of one whose keys name none that it watches, all that it watches."""
    return controller.kinds if controller.own_kind is None else (controller.own_kind,)


def is_called(kind: ResourceType, name: str) -> bool:
    """Return whether a name is one that kubectl takes for a kind: `jobs`, `Job`, `jobs.batch`, `jobs.v1.batch`."""
    given, _, group = name.lower().partition(".")
    names = (kind.plural, kind.kind.lower(), *_SHORT_NAMES.get(kind.plural, ()))
    return given in names and group in ("", kind.group, kind.version, f"{kind.version}.{kind.group}")


def retried(read: Callable[[], T]) -> T:
    """Return a function's result, repeating it while concurrent changes break its iteration.

    Raises:
        RuntimeError: It always does.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return read()
        except RuntimeError:
            continue
    return read()
