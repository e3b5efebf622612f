"""Impersonation: a user asks to be treated as another one, by headers that begin with `Impersonate-`.

The authorizer decides in modes, one after the other: rights for the request as the other user
(`impersonate-on:user-info:list` on pods, with `impersonate:user-info` on the user), and the verb `impersonate` without
such bounds, which was the only one before Kubernetes 1.36. The first mode that allows it counts; when none does, the
refusal of the first is the answer.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/endpoints/filters/impersonation/{constrained_impersonation,mode}.go.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote

import msgspec

from kcr_devcluster.apiserver.authentication.users import (
    ANONYMOUS,
    AUTHENTICATED,
    MASTERS,
    UNAUTHENTICATED,
    User,
    parse_service_account,
    service_account_groups,
)
from kcr_devcluster.apiserver.authorization.attributes import Attributes, forbidden
from kcr_devcluster.apiserver.authorization.rbac import Authorizer
from kcr_devcluster.apiserver.protocol.names import dns_subdomain
from kcr_devcluster.apiserver.protocol.responses import StatusError, bad_request

HEADERS = "impersonate-"
_USER, _UID, _GROUP, _EXTRA = (f"{HEADERS}{part}" for part in ("user", "uid", "group", "extra-"))
_NODE = "system:node:"
_NODES = "system:nodes"
_NODE_NAME = "authentication.kubernetes.io/node-name"
_GROUP_OF_REVIEWS = "authentication.k8s.io"
# From so many on, the right to all is checked first.
_MANY = 4


def acting_user(user: User, headers: Iterable[tuple[str, str]], request: Attributes, authorizer: Authorizer) -> User:
    """Return the user whom a request is executed for: the one whom its headers name, or who sends it.

    Args:
        user: Who sends the request.
        headers: All of the request, names in any case; one may be there several times.
        request: The attributes of the request.
        authorizer: Decides whether he may do it as another one.

    Raises:
        StatusError: 400 or 403, the headers name no user, or this user may not impersonate that one.
    """
    wanted = requested_user(headers)
    return user if wanted is None else impersonate(user, wanted, request, authorizer)


def requested_user(headers: Iterable[tuple[str, str]]) -> User | None:
    """Return the user whom a request names, as it names him; None where it names none.

    Args:
        headers: All of the request, names in any case; one may be there several times.

    Raises:
        StatusError: 400, groups or the like are given without a user.
    """
    single: dict[str, str] = {}
    groups: list[str] = []
    extra: dict[str, tuple[str, ...]] = {}
    for given, value in headers:
        name = given.lower()
        if name == _GROUP:
            groups.append(value)
        elif name.startswith(_EXTRA):
            key = unquote(name.removeprefix(_EXTRA))
            extra[key] = (*extra.get(key, ()), value)
        elif name in (_USER, _UID):
            single.setdefault(name, value)
    wanted = User(single.get(_USER, ""), single.get(_UID, ""), tuple(groups), extra)
    if wanted.username:
        return wanted
    if wanted.uid or wanted.groups or wanted.extra:
        raise bad_request(f"requested {_go_syntax(wanted)} without impersonating a user name")
    return None


def impersonate(user: User, wanted: User, request: Attributes, authorizer: Authorizer) -> User:
    """Return the user whom a request is executed for.

    Args:
        user: Who sends the request.
        wanted: Whom he wants to be.
        request: The attributes of the request as that user.
        authorizer: Decides whether he may.

    Raises:
        StatusError: 403, he may not.
    """
    refusal: StatusError | None = None
    for mode in (*_constrained_modes(user, wanted), None):
        try:
            return _Mode(user, authorizer, mode).impersonate(wanted, request)
        except StatusError as error:
            refusal = refusal or error
    assert refusal is not None
    raise refusal


def _constrained_modes(user: User, wanted: User) -> Iterator[str]:
    """Yield the modes that are for such a user, in their order."""
    node, account = _node_name(wanted.username), parse_service_account(wanted.username)
    has_only_name = not (wanted.uid or wanted.groups or wanted.extra)
    if has_only_name and node:
        if parse_service_account(user.username) and user.extra.get(_NODE_NAME) == (node,):
            yield "associated-node"
        yield "arbitrary-node"
    if has_only_name and account:
        yield "serviceaccount"
    if not node and not account:
        yield "user-info"


class _Mode(NamedTuple):
    """One way to be allowed to impersonate; `name` is None for the one without bounds."""

    user: User
    authorizer: Authorizer
    name: str | None

    def impersonate(self, wanted: User, request: Attributes) -> User:
        """Return the user with the groups that he has by himself, when all of it is allowed."""
        if self.name is not None:
            self._check(request._replace(verb=f"impersonate-on:{self.name}:{request.verb}"))
        groups = self._authorize_name(wanted)
        if wanted.uid:
            self._authorize("uids", wanted.uid, group=_GROUP_OF_REVIEWS)
        if wanted.groups:
            self._authorize_groups(wanted.groups)
        if wanted.extra:
            self._authorize_extra(wanted.extra)
        if wanted.username == ANONYMOUS.username:
            own = UNAUTHENTICATED
        else:
            own = UNAUTHENTICATED if UNAUTHENTICATED in groups else AUTHENTICATED
        return wanted._replace(groups=groups if own in groups else (*groups, own))

    def _authorize_name(self, wanted: User) -> tuple[str, ...]:
        node = _node_name(wanted.username) if self.name else ""
        if account := parse_service_account(wanted.username):
            self._authorize("serviceaccounts", account[1], namespace=account[0])
            return wanted.groups or service_account_groups(account[0])
        if node:
            self._authorize("nodes", "*" if self.name == "associated-node" else node)
            return (_NODES,)
        self._authorize("users", wanted.username)
        return wanted.groups

    def _authorize_groups(self, groups: Sequence[str]) -> None:
        if self.name:
            for group, called in (("", "the empty string"), (MASTERS, f"the {MASTERS}")):
                if group in groups:
                    raise forbidden(
                        self.user, self._right("groups", group), f"impersonating {called} group is not allowed"
                    )
        if self.name and len(groups) >= _MANY and self._is_allowed(self._right("groups", "*")):
            return
        for group in groups:
            self._authorize("groups", group)

    def _authorize_extra(self, extra: Mapping[str, Sequence[str]]) -> None:
        if self.name and (fault := _extra_fault(extra)):
            right = self._right("userextras", "", group=_GROUP_OF_REVIEWS)
            raise forbidden(self.user, right, f"impersonating {fault}")
        if self.name and sum(map(len, extra.values())) >= _MANY:
            every = self._right("userextras", "*", group=_GROUP_OF_REVIEWS)._replace(subresource="*")
            if self._is_allowed(every):
                return
        for key, values in extra.items():
            for value in values:
                right = self._right("userextras", value, group=_GROUP_OF_REVIEWS)
                self._check(right._replace(subresource=key))

    def _right(self, resource: str, name: str, *, group: str = "", namespace: str = "") -> Attributes:
        verb = f"impersonate:{self.name}" if self.name else "impersonate"
        return Attributes(verb, group or (_GROUP_OF_REVIEWS if self.name else ""), resource, "", namespace, name)

    def _authorize(self, resource: str, name: str, *, group: str = "", namespace: str = "") -> None:
        self._check(self._right(resource, name, group=group, namespace=namespace))

    def _check(self, right: Attributes) -> None:
        decision = self.authorizer.authorize(self.user, right)
        if not decision.is_allowed:
            raise forbidden(self.user, right, decision.reason)

    def _is_allowed(self, right: Attributes) -> bool:
        return self.authorizer.authorize(self.user, right).is_allowed


def _node_name(username: str) -> str:
    name = username.removeprefix(_NODE)
    return name if username.startswith(_NODE) and not dns_subdomain(name) else ""


def _extra_fault(extra: Mapping[str, Sequence[str]]) -> str:
    for key, values in extra.items():
        if not key:
            return "the empty string key in extra is not allowed"
        host, _, path = key.partition("/")
        if not path or dns_subdomain(host):
            why = 'must be a domain-prefixed path (such as "acme.io/foo")'
            return f"an invalid key in extra is not allowed: extra.key: Invalid value: {_quoted(key)}: {why}"
        if "" in values:
            return "the empty string value in extra is not allowed"
    return ""


def _go_syntax(wanted: User) -> str:
    """Return a user as Go's `%#v` shows him."""
    extra = ", ".join(f"{_quoted(key)}:{_strings(values)}" for key, values in sorted(wanted.extra.items()))
    shown = f"map[string][]string{{{extra}}}" if extra else "map[string][]string(nil)"
    return (
        f"&user.DefaultInfo{{Name:{_quoted(wanted.username)}, UID:{_quoted(wanted.uid)}, "
        f"Groups:{_strings(wanted.groups)}, Extra:{shown}}}"
    )


def _strings(values: Sequence[str]) -> str:
    return f"[]string{{{', '.join(map(_quoted, values))}}}" if values else "[]string(nil)"


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()
