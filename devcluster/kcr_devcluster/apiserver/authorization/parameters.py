"""Rights on the parameters of admission policies: who writes a policy or a binding must be able to read them.

A policy evaluates its parameters for all clients, and its messages may show them: without this check, a user without
rights on ConfigMaps or Secrets could read them through a policy. Unlike upstream the check precedes validation.

Source: kubernetes/pkg/registry/admissionregistration/{validating,mutating}admissionpolicy{,binding}/authz.go.
"""

from kcr_devcluster.apiserver.authentication import User
from kcr_devcluster.apiserver.authorization.attributes import Attributes
from kcr_devcluster.apiserver.authorization.rbac import Rbac
from kcr_devcluster.apiserver.kinds.catalogue import (
    ALL_KINDS,
    CUSTOM_RESOURCE_DEFINITIONS,
    MUTATING_POLICIES,
    MUTATING_POLICY_BINDINGS,
    VALIDATING_POLICIES,
    VALIDATING_POLICY_BINDINGS,
)
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.protocol.field_errors import FieldError, forbidden
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.responses import invalid
from kcr_devcluster.apiserver.storage.storage import Storage

ADMISSION_GROUP = "admissionregistration.k8s.io"
_POLICIES = {kind.type.plural: kind for kind in (MUTATING_POLICIES, VALIDATING_POLICIES)}
# The kind of policies of each kind of bindings.
_BINDINGS = {
    MUTATING_POLICY_BINDINGS.type.plural: (MUTATING_POLICY_BINDINGS, MUTATING_POLICIES),
    VALIDATING_POLICY_BINDINGS.type.plural: (VALIDATING_POLICY_BINDINGS, VALIDATING_POLICIES),
}


def check_parameters(authorizer: Rbac, user: User, plural: str, new: Manifest, old: Manifest | None) -> None:
    """Refuse a policy or a binding whose parameters its author may not read.

    Args:
        authorizer: Decides.
        user: The author.
        plural: The resource that is written, such as `validatingadmissionpolicies`.
        new: The object, with its defaults.
        old: The stored object; None on create. Its references are not checked again.

    Raises:
        StatusError: 422, with the cause Forbidden at the field that refers to the parameters.
    """
    after, before = new.get("spec") or {}, (old or {}).get("spec") or {}
    if plural in _POLICIES and after.get("paramKind") not in (None, before.get("paramKind")):
        error = _policy_error(authorizer, user, after["paramKind"])
        _refuse(_POLICIES[plural], new, error)
    elif plural in _BINDINGS and after.get("paramRef") is not None:
        kind, policies = _BINDINGS[plural]
        if any(after.get(name) != before.get(name) for name in ("paramRef", "policyName")):
            _refuse(kind, new, _binding_error(authorizer, user, after, policies))


def _refuse(kind: Kind, obj: Manifest, error: FieldError | None) -> None:
    if error is not None:
        raise invalid(kind.type.kind, kind.type.group, obj["metadata"].get("name", ""), [error])


def _policy_error(authorizer: Rbac, user: User, kind: Manifest) -> FieldError | None:
    group, resource = _resource_of(authorizer.storage, kind)
    wanted = Attributes("get", group, resource, "", "*", "*")
    if authorizer.authorize(user, wanted).is_allowed:
        return None
    named = f"kind={kind.get('kind', '')}, apiVersion={kind.get('apiVersion', '')}"
    words = f'must have "get" permission on all objects of the referenced paramKind ({named})'
    return forbidden("spec.paramKind", f"user {_shown(user)} {words}")


def _binding_error(authorizer: Rbac, user: User, spec: Manifest, policies: Kind) -> FieldError | None:
    record = authorizer.storage.get(policies, "", spec.get("policyName", ""))
    kind = (record.manifest().get("spec") or {}).get("paramKind") if record is not None else None
    # Of a policy that does not exist, the parameters may be anything.
    group, resource = ("*", "*") if kind is None else _resource_of(authorizer.storage, kind)
    reference = spec["paramRef"]
    wanted = Attributes("get", group, resource, "", reference.get("namespace", ""), reference.get("name", ""))
    if authorizer.authorize(user, wanted).is_allowed:
        return None
    words = 'does not have "get" permission on the object referenced by paramRef'
    return forbidden("spec.paramRef", f"user {_shown(user)} {words}")


def _resource_of(storage: Storage, named: Manifest) -> tuple[str, str]:
    """Return group and plural of a kind; the plural `*` where there is no such kind."""
    api_version, name = named.get("apiVersion", ""), named.get("kind", "")
    group = api_version.rpartition("/")[0]
    for kind in ALL_KINDS:
        if (kind.type.api_version, kind.type.kind) == (api_version, name):
            return group, kind.type.plural
    for record in storage.cache(CUSTOM_RESOURCE_DEFINITIONS).records.values():
        if record.metadata.name.endswith(f".{group}"):
            names = record.manifest()["spec"]["names"]
            if names.get("kind") == name:
                return group, str(names["plural"])
    return group, "*"


def _shown(user: User) -> str:
    """Return a user as Go prints one."""
    return f"&{{{user.username} {user.uid} [{' '.join(user.groups)}] map[]}}"
