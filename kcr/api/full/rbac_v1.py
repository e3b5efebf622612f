# Made by `python -m tools.api_types`: do not edit.
"""Types of rbac/v1, whole."""

import msgspec

from kcr.api.meta import FullResource, Object
from kcr.api.selectors import LabelSelector


class AggregationRule(Object):
    cluster_role_selectors: tuple[LabelSelector, ...] = ()


class PolicyRule(Object):
    api_groups: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")
    resource_names: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    verbs: tuple[str, ...]


class ClusterRole(FullResource, api_version="rbac.authorization.k8s.io/v1", plural="clusterroles", namespaced=False):
    aggregation_rule: AggregationRule | None = None
    rules: tuple[PolicyRule, ...] = ()


class RoleRef(Object):
    api_group: str | None = None
    kind: str
    name: str


class Subject(Object):
    api_group: str | None = None
    kind: str
    name: str
    namespace: str | None = None


class ClusterRoleBinding(
    FullResource,
    api_version="rbac.authorization.k8s.io/v1",
    plural="clusterrolebindings",
    namespaced=False,
):
    role_ref: RoleRef
    subjects: tuple[Subject, ...] = ()


class Role(FullResource, api_version="rbac.authorization.k8s.io/v1", plural="roles"):
    rules: tuple[PolicyRule, ...] = ()


class RoleBinding(FullResource, api_version="rbac.authorization.k8s.io/v1", plural="rolebindings"):
    role_ref: RoleRef
    subjects: tuple[Subject, ...] = ()
