"""Bootstrap policy: creates the roles and bindings that every cluster has, where they are missing.

Source: kubernetes/pkg/registry/rbac/rest/storage_rbac.go, PostStartHook; plugin/pkg/auth/authorizer/rbac/
bootstrappolicy.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from kcr_devcluster.apiserver.authorization import default_roles
from kcr_devcluster.apiserver.authorization.default_roles import DefaultRole
from kcr_devcluster.apiserver.authorization.rules import PolicyRule, rules_of
from kcr_devcluster.apiserver.kinds.access.rbac import RBAC_GROUP, RbacStrategy
from kcr_devcluster.apiserver.kinds.catalogue import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.registry.registry import Registry

AGGREGATE = f"{RBAC_GROUP}/aggregate-to-"
_NAMESPACE = "kube-system"
_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
_VERBS = {"read": _READ, "write": _WRITE, "read+write": (*_READ, *_WRITE)}


def with_rbac(kinds: Iterable[Kind]) -> tuple[Kind, ...]:
    """Return the kinds with roles and bindings that are enforced, so that creating one carries no warning."""
    return tuple(_enforced(kind) if kind.type.group == RBAC_GROUP else kind for kind in kinds)


def _enforced(kind: Kind) -> Kind:
    assert isinstance(kind.strategy, RbacStrategy)
    return replace(kind, make_strategy=partial(type(kind.strategy), is_enforced=True))


def create_missing(registry: Registry) -> None:
    """Create the default roles and bindings that do not exist; others stay as they are.

    Args:
        registry: The server's, with the namespace kube-system.
    """
    for kind, namespace, manifest in _defaults():
        if registry.storage.get(kind, namespace, manifest["metadata"]["name"]) is None:
            registry.create(kind, namespace, manifest)


def _defaults() -> Iterator[tuple[Kind, str, Manifest]]:
    for name in default_roles.CLUSTER_ROLES:
        yield CLUSTER_ROLES, "", _cluster_role(name)
    for name, role in default_roles.APPROVER_ROLES.items():
        yield CLUSTER_ROLES, "", _role(name, role.rules)
    for name, role in default_roles.CONTROLLER_ROLES.items():
        yield CLUSTER_ROLES, "", _role(f"system:controller:{name}", role.rules)
    for name, subjects in default_roles.CLUSTER_ROLE_BINDINGS.items():
        yield CLUSTER_ROLE_BINDINGS, "", _binding(name, CLUSTER_ROLES, name, subjects)
    for name, system in default_roles.KUBE_SYSTEM_ROLES.items():
        yield ROLES, _NAMESPACE, _role(name, system.rules)
        yield ROLE_BINDINGS, _NAMESPACE, _binding(system.binding, ROLES, name, system.subjects)


def default_rules(group: str) -> tuple[PolicyRule, ...]:
    """Return the rules that a group of users has in every cluster."""
    bound = (name for name, found in default_roles.CLUSTER_ROLE_BINDINGS.items() if f"group:{group}" in found)
    return tuple(rule for name in bound for rule in rules_of(_cluster_role(name)))


def _cluster_role(name: str) -> Manifest:
    role = default_roles.CLUSTER_ROLES[name]
    manifest = _role(name, _aggregated(name, role))
    if role.aggregate_to:
        manifest["metadata"]["labels"][f"{AGGREGATE}{role.aggregate_to}"] = "true"
    if role.aggregates:
        manifest["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {f"{AGGREGATE}{name}": "true"}}]}
    return manifest


def _aggregated(name: str, role: DefaultRole) -> str:
    """Return the rules of a role, as the controller would aggregate them: the role holds from the beginning."""
    if not role.aggregates:
        return role.rules
    others = sorted(default_roles.CLUSTER_ROLES.items())
    return "\n".join(_aggregated(other, found) for other, found in others if found.aggregate_to == name)


def _metadata(name: str) -> Manifest:
    return {
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    }


def _role(name: str, rules: str) -> Manifest:
    lines = (line.split() for line in rules.splitlines())
    return {"metadata": _metadata(name), "rules": [_rule(*line) for line in lines if line]}


def _rule(verbs: str, what: str, resources: str = "") -> Manifest:
    rule: Manifest = {"verbs": sorted(_VERBS.get(verbs) or verbs.split(","))}
    if not resources:
        return {**rule, "nonResourceURLs": what.split(",")}
    resources, _, names = resources.partition("=")
    rule["apiGroups"] = ["" if group == "core" else group for group in what.split(",")]
    rule["resources"] = resources.split(",")
    return rule | ({"resourceNames": names.split(",")} if names else {})


def _binding(name: str, kind: Kind, role: str, subjects: Iterable[str]) -> Manifest:
    reference = {"apiGroup": RBAC_GROUP, "kind": kind.type.kind, "name": role}
    manifest: Manifest = {"metadata": _metadata(name), "roleRef": reference}
    if found := [_subject(subject) for subject in subjects]:
        manifest["subjects"] = found
    return manifest


def _subject(text: str) -> Manifest:
    if text.startswith("account:"):
        namespace, _, name = text.removeprefix("account:").partition("/")
        return {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    kind = "Group" if text.startswith("group:") else "User"
    return {"kind": kind, "name": text.removeprefix("group:"), "apiGroup": RBAC_GROUP}
