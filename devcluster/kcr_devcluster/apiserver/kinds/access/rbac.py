"""The strategies of Roles, ClusterRoles and their bindings: the group of subjects by default, and validation.

Source: kubernetes/pkg/apis/rbac/v1/defaults.go; pkg/apis/rbac/validation/validation.go;
pkg/registry/rbac/{role,clusterrole,rolebinding,clusterrolebinding}/strategy.go.
"""

from collections.abc import Callable

from kcr_devcluster.apiserver.kinds.strategy import Strategy
from kcr_devcluster.apiserver.protocol.field_errors import FieldError, invalid, not_supported, required
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import check_selector, dns_subdomain, path_segment

RBAC_GROUP = "rbac.authorization.k8s.io"
_SUBJECTS = ("ServiceAccount", "User", "Group")
_NO_SELECTOR = "at least one clusterRoleSelector required if aggregationRule is non-nil"
_NOT_ENFORCED = (
    "{} are stored by this server, and every user may do everything: nothing here acts on them "
    "without --authorization rbac"
)


class RbacStrategy(Strategy):
    """Base strategy of roles and bindings."""

    def __init__(self, *, is_enforced: bool = False) -> None:
        """Make the strategy.

        Args:
            is_enforced: Whether the server grants by these objects; else a create carries a warning.
        """
        self._is_enforced = is_enforced

    def warnings(self, new: Manifest, old: Manifest | None) -> list[str]:
        """Return, on create, that roles have no effect where they are not enforced."""
        if old is not None or self._is_enforced:
            return []
        return [_NOT_ENFORCED.format(f"{new['kind'].lower()}s.{RBAC_GROUP}")]


class RoleStrategy(RbacStrategy):
    """Roles: rules about resources."""

    _is_namespaced = True

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a role's rules."""
        rules = enumerate(obj.get("rules") or ())
        return [error for index, rule in rules for error in _check_rule(rule, f"rules[{index}]", self._is_namespaced)]


class ClusterRoleStrategy(RoleStrategy):
    """ClusterRoles: rules about resources or paths, and which other ClusterRoles are aggregated."""

    _is_namespaced = False

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of the rules and of the aggregation rule."""
        errors = super().validate(obj)
        aggregation, field = obj.get("aggregationRule"), "aggregationRule.clusterRoleSelectors"
        if aggregation is None:
            return errors
        selectors = aggregation.get("clusterRoleSelectors") or []
        if not selectors:
            errors.append(required(field, _NO_SELECTOR))
        for index, selector in enumerate(selectors):
            if wrong := check_selector(selector, f"{field}[{index}]"):
                errors += [*wrong, invalid(f"{field}[{index}]", None, "invalid label selector.")]
        return errors


def _check_rule(rule: Manifest, field: str, is_namespaced: bool) -> list[FieldError]:
    """Source: validation.go, ValidatePolicyRule."""
    errors: list[FieldError] = []
    if not rule.get("verbs"):
        errors.append(required(f"{field}.verbs", "verbs must contain at least one value"))
    if paths := rule.get("nonResourceURLs"):
        place = f"{field}.nonResourceURLs"
        if is_namespaced:
            errors.append(invalid(place, paths, "namespaced rules cannot apply to non-resource URLs"))
        if any(rule.get(name) for name in ("apiGroups", "resources", "resourceNames")):
            errors.append(invalid(place, paths, "rules cannot apply to both regular resources and non-resource URLs"))
        return errors
    if not rule.get("apiGroups"):
        errors.append(required(f"{field}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        errors.append(required(f"{field}.resources", "resource rules must supply at least one resource"))
    return errors


class RoleBindingStrategy(RbacStrategy):
    """RoleBindings: one role, for subjects; the role never changes."""

    _is_namespaced = True
    _roles: tuple[str, ...] = ("Role", "ClusterRole")

    def default(self, obj: Manifest) -> None:
        """Fill in the API group of the role, and of users and groups."""
        super().default(obj)
        reference = obj.get("roleRef") or {}
        obj["roleRef"] = {**reference, "apiGroup": reference.get("apiGroup") or RBAC_GROUP}
        for subject in obj.get("subjects") or ():
            if subject.get("kind") in ("User", "Group") and not subject.get("apiGroup"):
                subject["apiGroup"] = RBAC_GROUP

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of the reference and the subjects."""
        reference = obj.get("roleRef") or {}
        group, kind, name = (reference.get(member) or "" for member in ("apiGroup", "kind", "name"))
        errors = [] if group == RBAC_GROUP else [not_supported("roleRef.apiGroup", group, (RBAC_GROUP,))]
        if kind not in self._roles:
            errors.append(not_supported("roleRef.kind", kind, self._roles))
        errors += _check_name("roleRef.name", name, path_segment)
        for index, subject in enumerate(obj.get("subjects") or ()):
            errors += _check_subject(subject, f"subjects[{index}]", self._is_namespaced)
        return errors

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update."""
        errors = super().validate_update(new, old)
        before, after = old.get("roleRef") or {}, new.get("roleRef") or {}
        if before != after:
            # Upstream shows the field names of its internal type.
            names = {"APIGroup": "apiGroup", "Kind": "kind", "Name": "name"}
            shown = {said: after.get(name) or "" for said, name in names.items()}
            errors.append(invalid("roleRef", shown, "cannot change roleRef"))
        return errors


class ClusterRoleBindingStrategy(RoleBindingStrategy):
    """ClusterRoleBindings: of ClusterRoles only."""

    _is_namespaced = False
    _roles = ("ClusterRole",)


def _check_name(field: str, name: str, rule: Callable[[str], tuple[str, ...]]) -> list[FieldError]:
    return [invalid(field, name, reason) for reason in rule(name)] if name else [required(field)]


def _check_subject(subject: Manifest, field: str, is_namespaced: bool) -> list[FieldError]:
    """Source: validation.go, ValidateRoleBindingSubject."""
    kind, group, name = (subject.get(member) or "" for member in ("kind", "apiGroup", "name"))
    errors = _check_name(f"{field}.name", name, dns_subdomain if kind == "ServiceAccount" else lambda text: ())
    if kind not in _SUBJECTS:
        return [*errors, not_supported(f"{field}.kind", kind, _SUBJECTS)]
    wanted = "" if kind == "ServiceAccount" else RBAC_GROUP
    if group != wanted:
        errors.append(not_supported(f"{field}.apiGroup", group, (wanted,)))
    if kind == "ServiceAccount" and not is_namespaced and not subject.get("namespace"):
        errors.append(required(f"{field}.namespace"))
    return errors
