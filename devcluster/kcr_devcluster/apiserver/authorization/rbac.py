"""Authorizers: always-allow, and role-based access control (RBAC).

`AlwaysAllow` allows every request. `Rbac` allows the requests that a role bound to the user or to one of his groups
allows, and everything to the group `system:masters`; rights add up, and nothing denies.

Source: kubernetes/plugin/pkg/auth/authorizer/rbac/rbac.go; staging/src/k8s.io/apiserver/pkg/authorization/
authorizerfactory/builtin.go.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kcr_devcluster.apiserver.authentication import User
from kcr_devcluster.apiserver.authentication.users import MASTERS
from kcr_devcluster.apiserver.authorization.attributes import Attributes
from kcr_devcluster.apiserver.authorization.policy import Grants, Policy
from kcr_devcluster.apiserver.authorization.rules import ALL, PolicyRule
from kcr_devcluster.apiserver.storage.storage import Storage

# How many users, with their namespaces, and how many decisions of each are kept.
_MOST_USERS, _MOST_DECISIONS = 1_000, 1_000


class Decision(NamedTuple):
    """Whether a request is allowed, and why; `reason` is `""` where there is nothing to say."""

    is_allowed: bool
    reason: str = ""


class Rights(NamedTuple):
    """The rules that apply to a user in a namespace, and the errors that kept others from being found."""

    rules: Sequence[PolicyRule]
    errors: Sequence[str] = ()


class Authorizer(Protocol):
    """Decides whether a user may do something."""

    def authorize(self, user: User, wanted: Attributes) -> Decision:
        """Return whether a user may do something."""
        ...

    def rights(self, user: User, namespace: str) -> Rights:
        """Return the rights of a user in a namespace, `""` for the cluster scope."""
        ...


class AlwaysAllow:
    """Allows everything."""

    def authorize(self, user: User, wanted: Attributes) -> Decision:
        """Return that it is allowed."""
        return Decision(True)

    def rights(self, user: User, namespace: str) -> Rights:
        """Return everything."""
        return Rights((PolicyRule((ALL,), (ALL,), (ALL,)), PolicyRule((ALL,), paths=(ALL,))))


# A rule that allows a verb on a resource: the names that it is limited to, `()` for none, and the grant.
_Match = tuple[tuple[str, ...], str]


class _UserGrants:
    """The grants of one user in one namespace, with the matches of earlier decisions."""

    __slots__ = ("grants", "matches")

    def __init__(self, grants: Grants) -> None:
        self.grants = grants
        # By a request's attributes without the name. Matches after the first that holds for all names are left out.
        self.matches: dict[Attributes, tuple[_Match, ...]] = {}


class Rbac:
    """Role-based access control: allows the requests that roles and bindings grant.

    Attributes:
        storage: The objects.
        policy: The roles and bindings among them.
    """

    def __init__(self, storage: Storage) -> None:
        """Decide by the roles and bindings of a storage, as they are at the moment of a decision."""
        self.storage: Storage = storage
        self.policy: Policy = Policy(storage, self._forget)
        # By username, groups and namespace. Empty after each change of roles or bindings.
        self._users: dict[tuple[str, tuple[str, ...], str], _UserGrants] = {}

    def authorize(self, user: User, wanted: Attributes) -> Decision:
        """Return whether a user may do something.

        A decision that was made before, for whatever object, takes a microsecond.
        """
        if MASTERS in user.groups:
            return Decision(True)
        known = self._grants_of(user, wanted.namespace)
        key = wanted._replace(name="")
        matches = known.matches.get(key)
        if matches is None:
            if len(known.matches) >= _MOST_DECISIONS:
                known.matches.clear()
            matches = known.matches[key] = _matches(known.grants, key)
        for names, grant in matches:
            if not names or wanted.name in names:
                return Decision(True, f"RBAC: allowed by {grant}")
        return Decision(False, _resolution_errors(known.grants.errors))

    def rights(self, user: User, namespace: str) -> Rights:
        """Return the rules that apply to a user."""
        grants = self._grants_of(user, namespace).grants
        return Rights([rule for _, rule in grants.rules], grants.errors)

    def _grants_of(self, user: User, namespace: str) -> _UserGrants:
        key = (user.username, user.groups, namespace)
        known = self._users.get(key)
        if known is None:
            if len(self._users) >= _MOST_USERS:
                self._users.clear()
            known = self._users[key] = _UserGrants(self.policy.grants(user, namespace))
        return known

    def _forget(self) -> None:
        self._users.clear()


def _matches(grants: Grants, wanted: Attributes) -> tuple[_Match, ...]:
    """Return the matches of a request, whatever the object; after the first for all objects, none counts."""
    found: list[_Match] = []
    for grant, rule in grants.rules:
        if rule.matches_but_name(wanted):
            names = () if wanted.path else rule.names
            found.append((names, grant))
            if not names:
                break
    return tuple(found)


def joined(errors: Sequence[str]) -> str:
    """Return errors as one text.

    Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/util/errors/errors.go, aggregate.Error.
    """
    return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"


def _resolution_errors(errors: Sequence[str]) -> str:
    return f"RBAC: {joined(errors)}" if errors else ""
