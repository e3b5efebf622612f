"""Routing: from the target of a request to kind, namespace, name and subresource."""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import NamedTuple, TypeVar

from kcr_devcluster.apiserver.kinds.access.reviews import VirtualKind
from kcr_devcluster.apiserver.kinds.catalogue import NODES, PODS, SERVICES
from kcr_devcluster.apiserver.kinds.kind import SUBRESOURCE_VERBS, Kind
from kcr_devcluster.apiserver.kinds.served import ServedIndex
from kcr_devcluster.apiserver.protocol.names import path_segment
from kcr_devcluster.apiserver.protocol.query import Query
from kcr_devcluster.apiserver.protocol.responses import (
    StatusError,
    bad_request,
    method_not_allowed,
    no_such_resource,
    not_found,
)

T = TypeVar("T")

_VERBS: Mapping[str, tuple[str, ...]] = {
    "GET": ("get", "list", "watch"), "POST": ("create",), "PUT": ("update",), "PATCH": ("patch",),
    "DELETE": ("delete", "deletecollection"),
}  # fmt: skip


# Upstream forwards requests to them.
PROXIED = (NODES, PODS, SERVICES)
# Behind a version, words that a resource has to follow.
_NO_PLACE = (["watch"], ["proxy"])


class Route(NamedTuple):
    """The kind, object or subresource that a path names.

    Attributes:
        kind: The kind.
        namespace: `""` for all namespaces.
        name: `""` for the collection.
        subresource: `""` for the object itself.
        is_watch: Whether it is an older path of watches, below `/watch/`.
    """

    kind: Kind
    namespace: str
    name: str
    subresource: str
    is_watch: bool = False

    def watches(self, query: Query) -> bool:
        """Return whether a GET is a watch."""
        return self.is_watch or (not self.name and query.flag("watch"))

    @property
    def is_writable_collection(self) -> bool:
        """Whether objects can be created and collections deleted here."""
        return not self.name and (bool(self.namespace) or not self.kind.type.namespaced)


def timeout_seconds(route: Route | None, query: Query) -> float | None:
    """Return the timeout of a request, None for none; watches and logs have their own.

    Raises:
        StatusError: 400, it is no duration.
    """
    if not query.text("timeout") or (route is not None and (route.subresource == "log" or route.watches(query))):
        return None
    return query.timeout_seconds()


async def within(seconds: float, served: Awaitable[T]) -> T:
    """Return the result of a request; raise TimeoutError when it takes longer.

    `asyncio.wait_for` loses a cancellation that comes with the result, on Python 3.11.
    """
    async with asyncio.timeout(seconds):
        return await served


class Routes(ServedIndex):
    """Finds the served kinds by their paths."""

    def find_path(self, steps: list[str], method: str) -> Route | None:
        """Return the route of a request, None for one that leads to no kind.

        Args:
            steps: The path, by its slashes.
            method: The method: custom resources of all namespaces are only read.

        Raises:
            StatusError: 404, there is no such resource.
        """
        route = self._find_path(steps)
        if route is None or route.kind.custom is None or method in ("GET", "HEAD"):
            return route
        return None if route.kind.type.namespaced and not route.namespace else route

    def _find_path(self, steps: list[str]) -> Route | None:
        match steps:
            case ["api", version, "watch", _, *_]:
                return self.find_watch("", version, steps[3:])
            case ["api", version, _, *_]:
                return self.find("", version, steps[2:])
            case ["apis", group, version, "watch", _, *_] if group and group in self.groups:
                return self.find_watch(group, version, steps[4:])
            case ["apis", group, version, _, *_] if group and group in self.groups:
                return self.find(group, version, steps[3:])
        return None

    def required(self, steps: list[str], method: str) -> Route:
        """Return the route of a request that was found before.

        Raises:
            StatusError: 404, there is no such resource any more.
        """
        route = self.find_path(steps, method)
        if route is None:
            raise no_such_resource()
        return route

    def find(self, group: str, version: str, steps: list[str]) -> Route | None:
        """Return the route of the rest of a path, behind `/api/v1` or `/apis/G/V`.

        Returns:
            None in a group of custom resources, where upstream's handler knows no such path.

        Raises:
            StatusError: 404, there is no such resource.
        """
        namespace = ""
        if len(steps) > 2 and steps[0] == "namespaces" and not self._is_own_subresource(group, steps):
            namespace, steps = steps[1], steps[2:]
        plural, name, subresource, *more = [*steps, "", "", ""][: max(3, len(steps))]
        kind = self.by_place.get((group, version, plural))
        if kind is None and (self.is_custom_group(group) or steps in _NO_PLACE):
            return None
        if subresource == "proxy" and kind in PROXIED and "" not in steps[:2]:
            return Route(kind, namespace, name, subresource)
        if kind is None or more or "" in steps:
            raise no_such_resource()
        if kind.type.namespaced != bool(namespace) and (namespace or name):
            if kind.custom is not None:
                return None
            raise no_such_resource()
        route = Route(kind, namespace, name, subresource)
        _check_steps(route)
        return route

    def find_watch(self, group: str, version: str, steps: list[str]) -> Route | None:
        """Return the route of the rest of an older path of watches, behind `/api/v1/watch` or `/apis/G/V/watch`.

        Source: kubernetes/staging/src/k8s.io/apiserver/pkg/endpoints/installer.go, WATCH and WATCHLIST.

        Returns:
            None in a group of custom resources, where upstream's handler knows no such path.

        Raises:
            StatusError: 404, there is no such resource; subresources have no such path.
        """
        route = self.find(group, version, steps)
        if route is not None and route.subresource:
            raise no_such_resource()
        return None if route is None else route._replace(is_watch=True)

    def _is_own_subresource(self, group: str, steps: list[str]) -> bool:
        return not group and len(steps) == 3 and steps[2] in ("status", "finalize")


def _check_steps(route: Route) -> None:
    """Refuse a path with a name that no object can have, or with a subresource that the kind lacks."""
    kind, namespace, name, subresource, _ = route
    if "%" in name or name in (".", ".."):
        raise bad_request(f'Name parameter invalid: "{name}": {path_segment(name)[0]}')
    if namespace in (".", ".."):
        raise StatusError(500, "", f'invalid key: "/{kind.type.plural}/{namespace}"')
    if subresource and subresource not in kind.subresources:
        if kind.custom is not None:
            raise not_found(kind.type, name)
        raise no_such_resource()


def check_method(route: Route, method: str) -> None:
    """Refuse a method that the path does not support.

    Raises:
        StatusError: 404 or 405.
    """
    verbs = _VERBS.get(method, ())
    if route.kind.custom is not None and not route.is_watch and verbs:
        _check_verb(route, verbs[0])
        return
    if route.is_watch:
        allowed = method == "GET"
    elif route.subresource:
        allowed = any(verb in SUBRESOURCE_VERBS[route.subresource] for verb in verbs)
    elif route.kind.is_computed:
        allowed = method == "GET"
    elif route.name:
        if isinstance(route.kind, VirtualKind):
            raise no_such_resource()
        allowed = method != "POST" and bool(verbs)
    elif method == "DELETE":
        allowed = route.is_writable_collection and "deletecollection" in route.kind.verbs
    else:
        reads = method == "GET" and not isinstance(route.kind, VirtualKind)
        allowed = reads or (method == "POST" and route.is_writable_collection)
    if not allowed:
        raise method_not_allowed()


def _check_verb(route: Route, verb: str) -> None:
    """Refuse a verb on a custom resource: no router, but the handler of all of them does."""
    if route.subresource:
        if verb not in SUBRESOURCE_VERBS[route.subresource]:
            resource = route.kind.type
            words = f'{verb} is not supported on resources of kind "{resource.display}"'
            raise StatusError(
                405, "MethodNotAllowed", words, details={"group": resource.group, "kind": resource.plural}
            )
    elif not route.name and verb in ("update", "patch"):
        raise bad_request("name must be provided")
