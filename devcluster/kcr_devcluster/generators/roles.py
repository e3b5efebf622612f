"""The rights of a program as RBAC manifests."""

from collections.abc import Mapping
from typing import Any

from kcr.api.meta import Key
from kcr.app.plugins import Setup
from kcr.app.rbac import LEASE_RIGHTS, METRICS_RIGHTS, SHARDING_RIGHTS, declared_by, with_events_api
from kcr.controller import Right, policy_rules
from kcr.serving.webhooks.authority import certificate_rights

# The rights of clients that read protected metrics.
READING_RULES = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
NO_RIGHTS = (frozenset[Right](), frozenset[Right]())
_API = "rbac.authorization.k8s.io"


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
        wanted: From `declared_by`.
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
