"""The rights of a program as RBAC manifests, exactly as its controllers declare them."""

from collections.abc import Mapping
from random import Random
from typing import Any

from kcr.api.coordination import Lease
from kcr.api.core import Event
from kcr.api.meta import Key
from kcr.app.plugins import Setup, attach
from kcr.client import Client, Request
from kcr.controller import Right, policy_rules, rights
from kcr.errors import ConfigError
from kcr.events import event_kind
from kcr.manager import Manager
from kcr.namespaces import Namespaces
from kcr.webhooks.serving import certificate_rights

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
# The rights of these clients.
READING_RULES = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
NO_RIGHTS = (frozenset[Right](), frozenset[Right]())
_API = "rbac.authorization.k8s.io"


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


def rights_of(
    setups: Mapping[str, Setup],
    environ: Mapping[str, str],
    namespace: str | Namespaces = "",
    gates: frozenset[str] | None = None,
) -> frozenset[Right]:
    """Return the rights that the controllers of these setup functions declare; see `declared_by`."""
    return declared_by(setups, environ, namespace, gates).rights


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


def certificates_of(
    setups: Mapping[str, Setup], environ: Mapping[str, str]
) -> tuple[frozenset[Right], frozenset[Right]]:
    """Return the rights of certificates that kcr makes for the webhooks of these setup functions."""
    webhooks = declared_by(setups, environ).webhooks
    return certificate_rights(converts=bool(webhooks.conversions)) if webhooks else NO_RIGHTS


def rbac_manifests(  # noqa: PLR0913  # the options of `kcr rbac generate`, all by name
    wanted: frozenset[Right],
    *,
    name: str,
    account: Key,
    namespace: str,
    elects: bool,
    changes: bool = False,
    shards: bool = False,
    metrics_secure: bool = False,
    certificates: tuple[frozenset[Right], frozenset[Right]] = NO_RIGHTS,
    events_api: str = "core",
) -> list[dict[str, Any]]:
    """Return the roles that grant these rights to a service account, with their bindings and the account.

    Args:
        wanted: From `rights_of`.
        name: The name of the roles and bindings.
        account: The service account.
        namespace: Grant the rights in this namespace only; empty for all. Rights on kinds that are in no namespace need
            a ClusterRole all the same.
        changes: Whether the namespaces may change: a ClusterRole has the rights in them, and is left to be bound in
            each; the rights on kinds that are in no namespace have a ClusterRole of their own.
        elects: Whether the program takes part in leader election, with a Lease in the account's namespace.
        shards: Whether its replicas share the objects, with Leases in the account's namespace.
        metrics_secure: Whether the program asks who may read its metrics. There is a role for the readers then, and the
            user binds it to them.
        certificates: The rights for certificates of webhooks, from `certificate_rights`: in the namespace of the
            account, where their Secret is, and everywhere.
        events_api: The API group of the events that the program writes: `core`, `events.k8s.io` or `auto`.
    """
    wanted, of_lease = with_events_api(wanted, events_api), with_events_api(LEASE_RIGHTS, events_api)
    scoped = frozenset(right for right in wanted if right.namespaced and (namespace or changes))
    grants = [("Role", name, namespace, scoped), ("ClusterRole", name, "", wanted - scoped)]
    if changes:
        grants = [("ClusterRole", f"{name}-cluster", "", wanted - scoped)]
    if elects:
        grants.append(("Role", f"{name}-leader-election", account.namespace, of_lease))
    if shards:
        grants.append(("Role", f"{name}-sharding", account.namespace, SHARDING_RIGHTS))
    grants.append(("Role", f"{name}-webhooks", account.namespace, certificates[0]))
    grants.append(("ClusterRole", f"{name}-webhooks", "", certificates[1]))
    if metrics_secure:
        grants.append(("ClusterRole", f"{name}-metrics-auth", "", METRICS_RIGHTS))
    manifests = [
        {
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": account.name, "namespace": account.namespace},
        },
    ]  # fmt: skip
    for kind, called, place, rights_there in grants:
        if rights_there:
            rules = policy_rules(rights_there)
            manifests += [_role(kind, called, place, rules), _binding(kind, called, place, account)]
    if changes:
        manifests.append(_role("ClusterRole", name, "", policy_rules(scoped)))
    if metrics_secure:
        manifests.append(_role("ClusterRole", f"{name}-metrics-reader", "", READING_RULES))
    return manifests


def _metadata(name: str, namespace: str) -> dict[str, str]:
    return {"name": name} | ({"namespace": namespace} if namespace else {})


def _role(kind: str, name: str, namespace: str, rules: list[dict[str, list[str]]]) -> dict[str, Any]:
    return {"apiVersion": f"{_API}/v1", "kind": kind, "metadata": _metadata(name, namespace), "rules": rules}


def _binding(kind: str, name: str, namespace: str, account: Key) -> dict[str, Any]:
    subject = {"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}
    return {
        "apiVersion": f"{_API}/v1", "kind": f"{kind}Binding", "metadata": _metadata(name, namespace),
        "roleRef": {"apiGroup": _API, "kind": kind, "name": name}, "subjects": [subject],
    }  # fmt: skip
