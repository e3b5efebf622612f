"""The rights that a program needs, exactly as its controllers declare them, and those that its identity has.

The server is asked with as few requests as possible. One SelfSubjectRulesReview lists all rules that hold in a
namespace. With the authorizers of most clusters (Node, RBAC) the list is complete for every identity but a kubelet's;
with a webhook among them it says that it is not. So rights that a complete list has are granted, and each other one is
checked by itself (SelfSubjectAccessReview): a right is never called missing because of a list.

Source: RulesFor in kubernetes/plugin/pkg/auth/authorizer/node/node_authorizer.go,
apiserver/pkg/authorization/union/union.go and apiserver/plugin/pkg/authorizer/webhook/webhook.go.
"""

import asyncio
from collections.abc import Iterable, Mapping
from random import Random
from typing import Any, NamedTuple

import msgspec

from kcr.api import codec
from kcr.api.coordination import Lease
from kcr.api.core import Event
from kcr.api.meta import Object
from kcr.app.plugins import Setup, attach
from kcr.client import Client, Request
from kcr.controller import Right, rights
from kcr.errors import ConfigError, KcrError
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


REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
RULES_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
# A review of rules is about one namespace. In this one, whose name is none, only the rules of the whole cluster hold.
_NO_NAMESPACE = "-"
# So many rights of one scope are checked one by one: a list would save nothing.
_FEW = 2
_AT_ONCE = 10


class Need(NamedTuple):
    """A right that is needed.

    Attributes:
        right: The right.
        namespace: Where; empty for the cluster scope.
        name: The one object that it is needed for, which a role may name; empty for all.
    """

    right: Right
    namespace: str = ""
    name: str = ""

    @classmethod
    def of(cls, right: Right, namespace: str) -> "Need":
        """Return the need of a program that is limited to a namespace; cluster-scoped kinds keep the cluster scope."""
        return cls(right, namespace if right.namespaced else "", right.name)


class _Rule(Object):
    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()

    def grants(self, right: Right, name: str) -> bool:
        """Return whether the rule grants a right on one object, on all of them when the name is empty.

        Source: kubernetes/pkg/apis/rbac/v1/evaluation_helpers.go.
        """
        subresource = right.resource.partition("/")[2]
        resources = {"*", right.resource, *([f"*/{subresource}"] if subresource else [])}
        return (
            (not self.resource_names or name in self.resource_names)
            and not {"*", right.verb}.isdisjoint(self.verbs)
            and not {"*", right.group}.isdisjoint(self.api_groups)
            and not resources.isdisjoint(self.resources)
        )


class _RulesStatus(Object):
    resource_rules: tuple[_Rule, ...] = ()
    incomplete: bool = True


class _RulesReview(Object):
    status: _RulesStatus


class _Answer(Object):
    status: Mapping[str, Any]


class Permissions:
    """Rights of this program, each asked for once."""

    def __init__(self, client: Client) -> None:
        """Know nothing yet.

        Args:
            client: Reaches the server as the identity whose rights they are.
        """
        self._client = client
        self._known: dict[Need, bool | None] = {}
        self._rules: dict[str, tuple[_Rule, ...]] = {}
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def ask(self, needs: Iterable[Need]) -> dict[Need, bool | None]:
        """Return which rights are granted; None for those that the server does not report.

        Args:
            needs: The rights; the answers have their order.
        """
        needs = list(dict.fromkeys(needs))
        unknown = [need for need in needs if need not in self._known]
        scopes = {need.namespace for need in unknown}
        async with asyncio.TaskGroup() as group:
            for namespace in sorted(scopes - self._rules.keys()):
                if sum(need.namespace == namespace for need in unknown) > _FEW:
                    group.create_task(self._list_rules(namespace))
        async with asyncio.TaskGroup() as group:
            for need in unknown:
                if any(rule.grants(need.right, need.name) for rule in self._rules.get(need.namespace, ())):
                    self._known[need] = True
                else:
                    group.create_task(self._ask(need))
        return {need: self._known[need] for need in needs}

    async def has(self, right: Right, namespace: str) -> bool | None:
        """Return whether one right is granted in a namespace; None when the server does not report it."""
        return (await self.ask([Need(right, namespace)])).popitem()[1]

    async def _list_rules(self, namespace: str) -> None:
        spec = {"namespace": namespace or _NO_NAMESPACE}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": spec}
        try:
            body = await self._client.request("POST", RULES_REVIEWS, codec.encode(review))
            status = codec.decode(_RulesReview, body).status
        except (KcrError, msgspec.DecodeError):
            status = _RulesStatus()
        self._rules[namespace] = () if status.incomplete else status.resource_rules

    async def _ask(self, need: Need) -> None:
        """Ask for one right.

        Source: kubernetes/staging/src/k8s.io/kubectl/pkg/cmd/auth/cani.go.
        """
        right, namespace, name = need
        resource, _, subresource = right.resource.partition("/")
        attributes = {"verb": right.verb, "group": right.group, "resource": resource}
        attributes |= {"subresource": subresource} if subresource else {}
        attributes |= {"namespace": namespace} if namespace else {}
        attributes |= {"name": name} if name else {}
        spec = {"resourceAttributes": attributes}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
        try:
            async with self._places:
                body = await self._client.request("POST", REVIEWS, codec.encode(review))
            self._known[need] = bool(codec.decode(_Answer, body).status.get("allowed"))
        except (KcrError, msgspec.DecodeError):
            self._known[need] = None
