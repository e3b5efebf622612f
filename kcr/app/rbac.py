"""The rights of a program, exactly as its controllers declare them."""

from collections.abc import Mapping
from random import Random
from typing import Any

from kcr.api.coordination import Lease
from kcr.api.core import Event
from kcr.app.plugins import Setup, attach
from kcr.client import Client, Request
from kcr.controller import Right, rights
from kcr.errors import ConfigError
from kcr.events import event_kind
from kcr.manager import Manager
from kcr.scopes.namespaces import Namespaces

# The requests of an elector for its Lease, and its event.
LEASE_RIGHTS = rights(Lease, "get", "create", "update") | rights(Event, "create", "patch")
# The requests of a replica for the Leases of sharding. A role cannot name them: each replica has one of its own.
SHARDING_RIGHTS = rights(Lease, "get", "list", "watch", "create", "update", "delete")
# The reviews of clients that read protected metrics.
METRICS_RIGHTS = frozenset(
    {
        Right("authentication.k8s.io", "tokenreviews", "create", namespaced=False),
        Right("authorization.k8s.io", "subjectaccessreviews", "create", namespaced=False),
    }
)


class _NoServer:
    """A transport without a server, for setups whose declarations are read."""

    def send(self, request: Request) -> Any:
        raise ConfigError(
            f"a setup asks the server for {request.target}: let it declare rights only, and ask in a component"
        )


def declared_by(
    setups: Mapping[str, Setup],
    environ: Mapping[str, str],
    namespace: str | Namespaces = "",
    gates: frozenset[str] | None = None,
) -> Manager:
    """Return a manager that never runs, with all that these setup functions declare; no server is needed.

    Args:
        setups: The functions by name.
        environ: The environment that their options are read from.
        namespace: The one namespace to watch, or those that may change; empty for all.
        gates: Features that are on; None for those of the environment.

    Raises:
        ConfigError: A setup cannot be called.
    """
    manager = Manager(Client(_NoServer()), random=Random(0), namespace=namespace)
    attach(setups, manager, environ, take_over=True, feature_gates=gates)
    return manager


def with_events_api(wanted: frozenset[Right], api: str) -> frozenset[Right]:
    """Return rights with those to write events in the chosen API group, too, where they have those to write any.

    Args:
        wanted: The rights, with those of the core group.
        api: `core`, `events.k8s.io` or `auto`.
    """
    if api == "core":
        return wanted
    new = event_kind("events.k8s.io")
    return wanted.union(*(rights(new, one.verb) for one in rights(Event, "create", "patch") & wanted))
