"""The rights of a program, as RBAC manifests: exactly what its controllers declare."""

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
from kcr.manager import Manager

# What an elector asks of its Lease, and the event that tells of it.
LEASE_RIGHTS = rights(Lease, "get", "create", "update") | rights(Event, "create", "patch")
_API = "rbac.authorization.k8s.io"


class _NoServer:
    """A transport for setups that are only asked what they want."""

    def send(self, request: Request) -> Any:
        raise ConfigError(
            f"a setup asks the server for {request.target}: let it declare rights only, and ask in a component"
        )


def declared_by(setups: Mapping[str, Setup], environ: Mapping[str, str], namespace: str = "") -> Manager:
    """Return a manager that never runs, with all that these setup functions declare; no server is needed.

    Args:
        setups: The functions, by what errors call them.
        environ: The environment that their options are read from.
        namespace: The one namespace to watch; empty for all.

    Raises:
        ConfigError: A setup cannot be called.
    """
    manager = Manager(Client(_NoServer()), random=Random(0), namespace=namespace)
    attach(setups, manager, environ, take_over=True)
    return manager


def rights_of(setups: Mapping[str, Setup], environ: Mapping[str, str], namespace: str = "") -> frozenset[Right]:
    """Return what the controllers of these setup functions ask of the API server; see `declared_by`."""
    return declared_by(setups, environ, namespace).rights


def rbac_manifests(
    wanted: frozenset[Right], *, name: str, account: Key, namespace: str, elects: bool
) -> list[dict[str, Any]]:
    """Return the roles that grant these rights to a service account, with their bindings and the account.

    Args:
        wanted: From `rights_of`.
        name: The name of the roles and bindings.
        account: The service account.
        namespace: Grant the rights in this namespace only; empty for all.
        elects: Whether the program takes part in leader election, with a Lease in the account's namespace.
    """
    kind = "Role" if namespace else "ClusterRole"
    manifests = [
        {
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": account.name, "namespace": account.namespace},
        },
        _role(kind, name, namespace, wanted),
        _binding(kind, name, namespace, account),
    ]  # fmt: skip
    if elects:
        lease = f"{name}-leader-election"
        manifests += [
            _role("Role", lease, account.namespace, LEASE_RIGHTS), _binding("Role", lease, account.namespace, account)
        ]  # fmt: skip
    return manifests


def _metadata(name: str, namespace: str) -> dict[str, str]:
    return {"name": name} | ({"namespace": namespace} if namespace else {})


def _role(kind: str, name: str, namespace: str, wanted: frozenset[Right]) -> dict[str, Any]:
    return {
        "apiVersion": f"{_API}/v1", "kind": kind, "metadata": _metadata(name, namespace), "rules": policy_rules(wanted)
    }  # fmt: skip


def _binding(kind: str, name: str, namespace: str, account: Key) -> dict[str, Any]:
    subject = {"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}
    return {
        "apiVersion": f"{_API}/v1", "kind": f"{kind}Binding", "metadata": _metadata(name, namespace),
        "roleRef": {"apiGroup": _API, "kind": kind, "name": name}, "subjects": [subject],
    }  # fmt: skip
