"""Policy: the roles and bindings of the storage, indexed by subject.

It follows the storage: the watch caches of Roles, ClusterRoles and their bindings call it on every change, so that a
right holds from the moment when its binding is stored.

Source: kubernetes/pkg/registry/rbac/validation/rule.go, DefaultRuleResolver.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from kcr_devcluster.apiserver.authentication import User
from kcr_devcluster.apiserver.authorization.attributes import quoted
from kcr_devcluster.apiserver.authorization.rules import PolicyRule, rules_of
from kcr_devcluster.apiserver.kinds.access.rbac import RBAC_GROUP
from kcr_devcluster.apiserver.kinds.catalogue import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.protocol.responses import StatusError
from kcr_devcluster.apiserver.storage.records import Change, Record
from kcr_devcluster.apiserver.storage.storage import Storage

_ACCOUNT = "ServiceAccount"
_ROLE_KINDS = (ROLES.type.plural, CLUSTER_ROLES.type.plural)


class RoleRef(NamedTuple):
    """The role of a binding. `namespace` is the binding's for a Role, `""` for a ClusterRole."""

    kind: str
    namespace: str
    name: str


class Subject(NamedTuple):
    """A subject of a binding: the username or the group that requests have.

    Attributes:
        kind: `User` or `Group`.
        name: A service account is the user `system:serviceaccount:NAMESPACE:NAME`.
        shown: Its form in reasons, such as `ServiceAccount "builder/default"`.
    """

    kind: str
    name: str
    shown: str

    def is_user(self, user: User) -> bool:
        """Return whether a user is the subject, or in the group that it is."""
        return self.name == user.username if self.kind == "User" else self.name in user.groups


class Binding(NamedTuple):
    """A RoleBinding or ClusterRoleBinding, which has no namespace."""

    namespace: str
    name: str
    role: RoleRef
    subjects: tuple[Subject, ...]

    def grant_to(self, user: User) -> str:
        """Return the binding as the reason of a decision names it, with its first subject that matches the user."""
        subject = next(one for one in self.subjects if one.is_user(user))
        kind, name = "ClusterRoleBinding", self.name
        if self.namespace:
            kind, name = "RoleBinding", f"{self.name}/{self.namespace}"
        return f"{kind} {quoted(name)} of {self.role.kind} {quoted(self.role.name)} to {subject.shown}"


class Grants(NamedTuple):
    """The rules that are granted to a user in a namespace, or in the cluster scope.

    Attributes:
        rules: Each with the binding that grants it, in the order of the bindings: those of the cluster come first.
        errors: The errors that kept rules from being found.
    """

    rules: tuple[tuple[str, PolicyRule], ...]
    errors: tuple[str, ...]


class Policy:
    """The roles and bindings of a storage."""

    def __init__(self, storage: Storage, on_change: Callable[[], None]) -> None:
        """Follow a storage, and call back after each change."""
        self._on_change = on_change
        self._rules: dict[RoleRef, tuple[PolicyRule, ...]] = {}
        self._bindings: dict[tuple[str, str], Binding] = {}
        # The bindings by their namespace and the kind and name of each subject. Invariant: no empty values.
        self._by_subject: dict[tuple[str, str, str], set[tuple[str, str]]] = {}
        for kind in (ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS):
            cache = storage.cache(kind)
            for record in cache.records.values():
                self._set(kind, record)
            cache.subscribers[self._subscriber(kind)] = None

    def grants(self, user: User, namespace: str) -> Grants:
        """Return the rules that are granted to a user.

        Args:
            user: The user.
            namespace: `""` for the cluster scope.
        """
        rules: list[tuple[str, PolicyRule]] = []
        errors: dict[str, None] = {}
        for binding in self._bindings_of(user, namespace):
            try:
                found = self.rules(binding.role)
            except StatusError as error:
                errors[error.message] = None
            else:
                grant = binding.grant_to(user)
                rules += [(grant, rule) for rule in found]
        return Grants(tuple(rules), tuple(errors))

    def rules(self, role: RoleRef) -> tuple[PolicyRule, ...]:
        """Return the rules of a role.

        Raises:
            StatusError: 404, there is no such role: upstream names its kind in the singular. 500, of no such kind.
        """
        found = self._rules.get(role)
        if found is None and role.kind not in (ROLES.type.kind, CLUSTER_ROLES.type.kind):
            raise StatusError(500, "", f"unsupported role reference kind: {quoted(role.kind)}")
        if found is None:
            kind = role.kind.lower()
            details = {"name": role.name, "group": RBAC_GROUP, "kind": kind}
            raise StatusError(404, "NotFound", f'{kind}.{RBAC_GROUP} "{role.name}" not found', details=details)
        return found

    def _bindings_of(self, user: User, namespace: str) -> Iterator[Binding]:
        subjects = [("User", user.username), *(("Group", group) for group in user.groups)]
        for scope in ("", namespace) if namespace else ("",):
            keys = {key for subject in subjects for key in self._by_subject.get((scope, *subject), ())}
            yield from (self._bindings[key] for key in sorted(keys))

    def _subscriber(self, kind: Kind) -> Callable[[Change], None]:
        def follow(change: Change) -> None:
            if change.new is None:
                self._drop(kind, change.record)
            else:
                self._set(kind, change.new)
            self._on_change()

        return follow

    def _set(self, kind: Kind, record: Record) -> None:
        metadata, manifest = record.metadata, record.manifest()
        if kind.type.plural in _ROLE_KINDS:
            self._rules[RoleRef(kind.type.kind, metadata.namespace, metadata.name)] = rules_of(manifest)
            return
        self._drop(kind, record)
        binding = binding_of(metadata.namespace, metadata.name, manifest)
        key = (binding.namespace, binding.name)
        self._bindings[key] = binding
        for subject in binding.subjects:
            self._by_subject.setdefault((binding.namespace, subject.kind, subject.name), set()).add(key)

    def _drop(self, kind: Kind, record: Record) -> None:
        namespace, name = record.metadata.namespace, record.metadata.name
        if kind.type.plural in _ROLE_KINDS:
            del self._rules[RoleRef(kind.type.kind, namespace, name)]
            return
        binding = self._bindings.pop((namespace, name), None)
        for subject in binding.subjects if binding is not None else ():
            place = (namespace, subject.kind, subject.name)
            keys = self._by_subject.get(place, set())
            keys.discard((namespace, name))
            if not keys:
                self._by_subject.pop(place, None)


def binding_of(namespace: str, name: str, manifest: Mapping[str, Any]) -> Binding:
    """Return the binding that a manifest is.

    Args:
        namespace: Its namespace; `""` for a ClusterRoleBinding.
        name: Its name.
        manifest: The object, with its defaults.
    """
    reference = manifest.get("roleRef") or {}
    kind = reference.get("kind") or ""
    role = RoleRef(kind, namespace if kind == ROLES.type.kind else "", reference.get("name") or "")
    subjects = (_subject(subject, namespace) for subject in manifest.get("subjects") or ())
    return Binding(namespace, name, role, tuple(subject for subject in subjects if subject is not None))


def _subject(subject: Mapping[str, Any], binding_namespace: str) -> Subject | None:
    kind, name = subject.get("kind") or "", subject.get("name") or ""
    if kind != _ACCOUNT:
        return Subject(kind, name, f"{kind} {quoted(name)}")
    namespace = subject.get("namespace") or binding_namespace
    if not namespace:
        # In the cluster scope, an account without a namespace is none.
        return None
    return Subject("User", f"system:serviceaccount:{namespace}:{name}", f"{kind} {quoted(f'{name}/{namespace}')}")
