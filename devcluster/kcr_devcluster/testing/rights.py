"""Rights: those that the requests of managers need, those that are declared, and the least roles.

A request needs the right that the API server checks: one more for an apply or a PUT that has created its object and for
a connection into a pod, and `impersonate` on the user whom it names instead of its own. What every user may do, such as
discovery, needs none.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from kcr.api.meta import Key
from kcr.app.rbac import LEASE_RIGHTS, METRICS_RIGHTS, SHARDING_RIGHTS, with_events_api
from kcr.client import Request
from kcr.client.context import WRITE_CONTEXT
from kcr.controller import Right, policy_rules
from kcr.manager import Manager
from kcr.serving.webhooks.authority import ServingSecret, certificate_rights
from kcr.serving.webhooks.conversion import PATH as CONVERT
from kcr.testing.fakes import FakeManager
from kcr_devcluster.apiserver.authentication.users import AUTHENTICATED, User, parse_service_account
from kcr_devcluster.apiserver.authorization import Attributes
from kcr_devcluster.apiserver.authorization.impersonation import requested_user
from kcr_devcluster.apiserver.http.pods.pod_streams import STREAMS
from kcr_devcluster.apiserver.kinds.access.rbac import RBAC_GROUP
from kcr_devcluster.apiserver.protocol.responses import StatusError
from kcr_devcluster.apiserver.registry.bootstrap import default_rules
from kcr_devcluster.testing.clusters import is_of_cluster
from kcr_devcluster.testing.requests import SentRequest, sent_request

_REVIEWS = "authentication.k8s.io"
# They begin with a GET, and the server asks for the right to create as well.
_STREAMS = frozenset(f"pods/{name}" for name in STREAMS)
_WATCHING = frozenset({"list", "watch"})


class Scope(NamedTuple):
    """The role that has a right.

    Attributes:
        kind: `Role` or `ClusterRole`.
        suffix: The end of its name; empty for that of the controllers.
        namespace: Its namespace; empty for the one where the program works, and for ClusterRoles.
    """

    kind: str
    suffix: str = ""
    namespace: str = ""


class LackingRight(NamedTuple):
    """A right that a manager has used and not declared.

    Attributes:
        test: The first test.
        controller: The controller, else the component; empty for the manager itself.
        right: The right.
    """

    test: str
    controller: str
    right: Right

    def __str__(self) -> str:
        who = f"controller {self.controller}" if self.controller else "the manager"
        return f"{self.test}: {who}: {spoken(self.right)}"


def spoken(right: Right) -> str:
    """Return a right as `patch jobs.batch/status`, with the name of the object that it is limited to."""
    resource, slash, subresource = right.resource.partition("/")
    where = f"{resource}.{right.group}" if right.group else resource
    return f"{right.verb} {where}{slash}{subresource}" + (f" {right.name}" if right.name else "")


class DeclaredRights(NamedTuple):
    """What a manager declares: as `kcr rbac generate` knows it, so what a reconcile opens later is not among it.

    Attributes:
        own: The rights of its controllers, informers and recorders.
        of_kcr: The rights that options of `kcr rbac generate` grant to other parts: leader election and its like.
    """

    own: frozenset[Right]
    of_kcr: frozenset[Right]

    @classmethod
    def of(cls, manager: Manager) -> "DeclaredRights":
        """Return what a manager declares, before it sends a request."""
        of_kcr = METRICS_RIGHTS
        if manager.elector is not None:
            of_kcr |= LEASE_RIGHTS
        if manager.shards is not None:
            of_kcr |= SHARDING_RIGHTS
        if any(one.kind is ServingSecret for one in manager.selections):
            of_kcr = of_kcr.union(*certificate_rights(converts=CONVERT in manager.webhooks.paths))
        own, others = (with_events_api(wanted, manager.events_api) for wanted in (manager.rights, of_kcr))
        return cls(frozenset(map(_plain, own)), frozenset(map(_plain, others)))

    @property
    def has_requests(self) -> bool:
        """Whether controllers declare more than a manager knows by itself, watches and events."""
        return any(right.verb not in _WATCHING and right.resource != "events" for right in self.own)

    def has(self, right: Right, sent: SentRequest) -> bool:
        """Return whether a right is declared: for a reconcile, those of the controllers count alone.

        Paths that are no resources cannot be declared, and count as declared.

        Args:
            right: The right.
            sent: The request that needs it.
        """
        known = self.own if sent.reconcile else self.own | self.of_kcr
        return right.resource.startswith("/") or right in known or right._replace(name="") in known


class RightsInUse:
    """The rights that managers have declared and used; an observer of their requests.

    Managers of the cluster itself, of the option `controllers` of the mark `kcr_cluster`, and `FakeManager`s are left
    out.

    Attributes:
        test: The test that runs.
        declared: The rights that were declared.
        used: The rights that were used, and the role that is to have each.
        lacking: The rights that were used and not declared, by controller and right.
    """

    def __init__(self) -> None:
        self.test: str = ""
        self.declared: set[Right] = set()
        self.used: set[tuple[Scope, Right]] = set()
        self.lacking: dict[tuple[str, Right], LackingRight] = {}
        self._managers: WeakKeyDictionary[Manager, DeclaredRights] = WeakKeyDictionary()

    def answered(self, request: Request, code: int, seconds: float) -> None:
        """Note the rights of a request; see `RequestObserver`."""
        manager: Manager = WRITE_CONTEXT.get().manager
        if isinstance(manager, FakeManager) or is_of_cluster(manager):
            return
        declared = self._managers.get(manager)
        if declared is None:
            declared = self._managers[manager] = DeclaredRights.of(manager)
            self.declared |= declared.own | (declared.of_kcr - _METRICS)
        sent = sent_request(request, code)
        for attributes in needed(request, sent):
            right = as_right(attributes, declared, manager)
            self.used.add((_scope(manager, sent, attributes, declared), right))
            if not declared.has(right, sent):
                found = LackingRight(self.test, sent.controller, right)
                self.lacking.setdefault((found.controller, found.right), found)

    def received(self, request: Request, size: int) -> None:
        """Do nothing."""

    def never_used(self) -> list[Right]:
        """Return the declared rights without a request.

        Left out are those that admission asks for (`update` on `finalizers`), and `list` beside `watch`: servers
        without streaming lists need it.
        """
        used = {form for _, right in self.used for form in (right, right._replace(name=""))}
        used |= {right._replace(verb="list") for right in used if right.verb == "watch"}
        return sorted(right for right in self.declared - used if not right.resource.endswith("/finalizers"))

    def roles(self, name: str) -> list[dict[str, Any]]:
        """Return the least roles that grant what was used.

        Args:
            name: The name of the roles.
        """
        granted: dict[Scope, set[Right]] = defaultdict(set)
        for scope, right in self.used:
            granted[scope].add(right)
        everywhere = granted.get(Scope("ClusterRole"), set())
        manifests = []
        for scope, found in sorted(granted.items()):
            rules = _rules(found if scope.suffix or found is everywhere else found - everywhere)
            metadata = {"name": "-".join(filter(None, (name, scope.suffix))), "namespace": scope.namespace}
            manifest = {
                "apiVersion": f"{RBAC_GROUP}/v1", "kind": scope.kind,
                "metadata": {field: value for field, value in metadata.items() if value}, "rules": rules,
            }  # fmt: skip
            manifests += [manifest] if rules else []
        return manifests


def needed(request: Request, sent: SentRequest) -> Iterator[Attributes]:
    """Yield the attributes that the authorizer has to allow for a request.

    Args:
        request: The request.
        sent: The same, with its answer.
    """
    attributes = sent.attributes
    try:
        wanted = requested_user(request.headers.items())
    except StatusError:
        return
    if wanted is not None:
        yield from _impersonating(wanted)
        return
    if any(rule.allows(attributes) for rule in _of_everyone()):
        return
    yield attributes
    if attributes.verb == "get" and attributes.resource_path in _STREAMS:
        yield attributes._replace(verb="create")
    if attributes.verb in ("patch", "update") and sent.status == 201:
        yield attributes._replace(verb="create", name="")


@cache
def _of_everyone() -> tuple[Any, ...]:
    return default_rules(AUTHENTICATED)


def _impersonating(wanted: User) -> Iterator[Attributes]:
    """Yield the rights to be treated as a user, without the bounds that Kubernetes 1.36 knows.

    Source: kubernetes/staging/src/k8s.io/apiserver/pkg/endpoints/filters/impersonation/mode.go.
    """
    account = parse_service_account(wanted.username)
    if account:
        yield Attributes("impersonate", "", "serviceaccounts", "", *account)
    else:
        yield Attributes("impersonate", "", "users", name=wanted.username)
    for group in wanted.groups:
        yield Attributes("impersonate", "", "groups", name=group)
    if wanted.uid:
        yield Attributes("impersonate", _REVIEWS, "uids", name=wanted.uid)
    for key, values in wanted.extra.items():
        for value in values:
            yield Attributes("impersonate", _REVIEWS, "userextras", key, name=value)


def as_right(attributes: Attributes, declared: DeclaredRights, manager: Manager) -> Right:
    """Return the right of a request.

    It has a name where a role may limit it to the object: a user who is impersonated, the Lease of leader election, and
    what is declared for some names only.

    Args:
        attributes: The attributes of the request.
        declared: What its manager declares.
        manager: The manager.
    """
    right = Right(attributes.group, attributes.path or attributes.resource_path, attributes.verb)
    key = Key(attributes.namespace, attributes.name)
    has_name = (
        attributes.verb == "impersonate"
        or (attributes.resource == "leases" and manager.elector is not None and key == manager.elector.config.key)
        or (right not in declared.own and any(one._replace(name="") == right for one in declared.own))
    )
    return right._replace(name=attributes.name) if has_name else right


def _scope(manager: Manager, sent: SentRequest, attributes: Attributes, declared: DeclaredRights) -> Scope:
    """Return which role is to have a right."""
    elects = sent.key is None and (manager.elector is not None or manager.shards is not None)
    writes_events = any(right.resource == "events" for right in declared.own)
    is_of_election = attributes.resource == "leases" or (attributes.resource == "events" and not writes_events)
    if elects and is_of_election and attributes.namespace:
        return Scope("Role", "leader-election", attributes.namespace)
    is_limited = bool(manager.namespace) or manager.namespaces is not None
    return Scope("Role" if is_limited and attributes.namespace else "ClusterRole")


def _rules(found: Iterable[Right]) -> list[dict[str, list[str]]]:
    paths = sorted({right.resource for right in found if right.resource.startswith("/")})
    rights = {right for right in found if not right.resource.startswith("/")}
    # An informer lists where the server cannot stream.
    rights |= {right._replace(verb="list") for right in rights if right.verb == "watch"}
    return policy_rules(rights) + ([{"nonResourceURLs": paths, "verbs": ["get"]}] if paths else [])


def _plain(right: Right) -> Right:
    """Return a right as a request shows it, which does not say whether objects of the kind live in namespaces."""
    return right._replace(namespaced=True)


_METRICS = frozenset(map(_plain, METRICS_RIGHTS))
