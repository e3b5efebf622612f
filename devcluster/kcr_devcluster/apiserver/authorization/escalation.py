"""Privilege escalation checks: a user grants only rights that he has himself.

A user who writes a role must hold all that it allows, or have the right to `escalate` roles; a user who binds a role
must hold all that it allows, or have the right to `bind` it.

Source: kubernetes/pkg/registry/rbac/escalation_check.go; pkg/registry/rbac/{role,clusterrole,rolebinding,
clusterrolebinding}/policybased/storage.go; pkg/registry/rbac/validation/rule.go, ConfirmNoEscalation.
"""

from collections.abc import Callable, Sequence

from kcr_devcluster.apiserver.authentication import User
from kcr_devcluster.apiserver.authentication.users import MASTERS
from kcr_devcluster.apiserver.authorization.attributes import Attributes, forbidden, quoted, refused
from kcr_devcluster.apiserver.authorization.parameters import ADMISSION_GROUP, check_parameters
from kcr_devcluster.apiserver.authorization.policy import binding_of
from kcr_devcluster.apiserver.authorization.rbac import Rbac, joined
from kcr_devcluster.apiserver.authorization.rules import ALL, PolicyRule, compact, rules_of, uncovered
from kcr_devcluster.apiserver.kinds.access.rbac import RBAC_GROUP
from kcr_devcluster.apiserver.kinds.catalogue import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from kcr_devcluster.apiserver.protocol.manifests import Manifest, semantic_equal

_EVERYTHING = (PolicyRule((ALL,), (ALL,), (ALL,)), PolicyRule((ALL,), paths=(ALL,)))
_NO_AGGREGATION = "must have cluster-admin privileges to use the aggregationRule"
# Fields that the garbage collector changes, and those that every write changes.
_COLLECTED = ("ownerReferences", "finalizers", "managedFields", "generation")


class Access:
    """The writes that the user of one request may make: checks beyond its verb and path."""

    def __init__(self, authorizer: Rbac, user: User, wanted: Attributes) -> None:
        """Make the access of a request.

        Args:
            authorizer: Decides.
            user: Whose request it is.
            wanted: Its attributes.
        """
        self._authorizer = authorizer
        self._user = user
        self._wanted = wanted

    def check_create(self) -> None:
        """Refuse an update that would create the object, unless the user may create it.

        Raises:
            StatusError: 403.

        Source: kubernetes/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/update.go, withAuthorization.
        """
        authorized(self._authorizer, self._user, self._wanted._replace(verb="create"))

    def check_grant(self, new: Manifest, old: Manifest | None) -> None:
        """Refuse an object that grants more than the user has, or a policy with parameters that he may not read.

        Args:
            new: The object to store, with its defaults.
            old: The stored object; None on create.

        Raises:
            StatusError: 403, or 404 where a binding names a role that does not exist; 422 for a policy.
        """
        wanted = self._wanted
        if wanted.group == ADMISSION_GROUP and not wanted.subresource:
            check_parameters(self._authorizer, self._user, wanted.resource, new, old)
        check = _CHECKS.get(self._wanted.resource) if self._wanted.group == RBAC_GROUP else None
        if check is None or MASTERS in self._user.groups or _is_collected_only(new, old):
            return
        check(self, new, old)

    def _check_role(self, new: Manifest, old: Manifest | None) -> None:
        if self._may("escalate", self._wanted.resource, self._wanted.name):
            return
        self._confirm(new, rules_of(new))
        aggregates = any((obj.get("aggregationRule") or {}).get("clusterRoleSelectors") for obj in (new, old or {}))
        if aggregates and self._missing(_EVERYTHING):
            raise refused(self._wanted._replace(name=_name(new)), _NO_AGGREGATION)

    def _check_binding(self, new: Manifest, old: Manifest | None) -> None:
        role = binding_of(self._wanted.namespace, _name(new), new).role
        resource = ROLES.type.plural if role.kind == ROLES.type.kind else CLUSTER_ROLES.type.plural
        if not self._may("bind", resource, role.name):
            self._confirm(new, self._authorizer.policy.rules(role))

    def _may(self, verb: str, resource: str, name: str) -> bool:
        wanted = Attributes(verb, self._wanted.group, resource, "", self._wanted.namespace, name)
        return self._authorizer.authorize(self._user, wanted).is_allowed

    def _missing(self, rules: Sequence[PolicyRule]) -> list[PolicyRule]:
        return uncovered(self._authorizer.rights(self._user, self._wanted.namespace).rules, rules)

    def _confirm(self, new: Manifest, rules: Sequence[PolicyRule]) -> None:
        missing = self._missing(rules)
        if not missing:
            return
        user = self._user
        who = f"user {quoted(user.username)} (groups={quoted(user.groups)})"
        lines = "\n".join(sorted({str(rule) for rule in compact(missing)}))
        why = f"{who} is attempting to grant RBAC permissions not currently held:\n{lines}"
        if errors := self._authorizer.rights(user, self._wanted.namespace).errors:
            why += f"; resolution errors: [{joined(errors)}]"
        raise refused(self._wanted._replace(name=_name(new)), why)


def authorized(authorizer: Rbac, user: User, wanted: Attributes) -> Access:
    """Return the access of a user's request, once the request itself is allowed.

    Args:
        authorizer: Decides.
        user: Whose request it is.
        wanted: Its attributes.

    Raises:
        StatusError: 403, he may not send it.
    """
    decision = authorizer.authorize(user, wanted)
    if not decision.is_allowed:
        raise forbidden(user, wanted, decision.reason)
    return Access(authorizer, user, wanted)


_CHECKS: dict[str, Callable[[Access, Manifest, Manifest | None], None]] = {
    ROLES.type.plural: Access._check_role,
    CLUSTER_ROLES.type.plural: Access._check_role,
    ROLE_BINDINGS.type.plural: Access._check_binding,
    CLUSTER_ROLE_BINDINGS.type.plural: Access._check_binding,
}


def _name(obj: Manifest) -> str:
    return obj["metadata"].get("name") or ""


def _is_collected_only(new: Manifest, old: Manifest | None) -> bool:
    """Return whether an update changes only the fields that the garbage collector has to change.

    Source: kubernetes/pkg/registry/rbac/helpers.go, IsOnlyMutatingGCFields.
    """
    if old is None:
        return False
    changed = {**new, "metadata": {**new["metadata"], **{n: old["metadata"].get(n) for n in _COLLECTED}}}
    return semantic_equal(changed, old)
