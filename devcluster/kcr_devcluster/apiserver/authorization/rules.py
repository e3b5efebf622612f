"""Policy rules: the requests they allow, and the rules they cover.

Source: kubernetes/pkg/apis/rbac/v1/evaluation_helpers.go;
staging/src/k8s.io/component-helpers/auth/rbac/validation/policy_comparator.go.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple

from kcr_devcluster.apiserver.authorization.attributes import Attributes, quoted

ALL = "*"


class PolicyRule(NamedTuple):
    """One policy rule: verbs on resources, or on paths.

    Attributes:
        verbs: The verbs, `*` for all.
        groups: The API groups of the resources, `*` for all.
        resources: Resources (`pods`), subresources (`pods/log`, `*/scale`), `*` for all.
        names: The names of the objects; empty for all.
        paths: Paths that are no resources; those that end in `*` are prefixes.
    """

    verbs: tuple[str, ...]
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    def matches_but_name(self, wanted: Attributes) -> bool:
        """Return whether the rule allows a request, if its object is one of the rule's."""
        if not _has(self.verbs, wanted.verb):
            return False
        if wanted.path:
            return any(_path_covers(path, wanted.path) for path in self.paths)
        return _has(self.groups, wanted.group) and any(
            resource in (ALL, wanted.resource_path)
            or (bool(wanted.subresource) and resource == f"*/{wanted.subresource}")
            for resource in self.resources
        )

    def allows(self, wanted: Attributes) -> bool:
        """Return whether the rule allows a request."""
        return self.matches_but_name(wanted) and (bool(wanted.path) or not self.names or wanted.name in self.names)

    @property
    def parts(self) -> Iterator["PolicyRule"]:
        """The rule in parts, each with one verb, one resource or path, and at most one name."""
        for group, resource, verb in product(self.groups, self.resources, self.verbs):
            part = PolicyRule((verb,), (group,), (resource,))
            if not self.names:
                yield part
            for name in self.names:
                yield part._replace(names=(name,))
        for path, verb in product(self.paths, self.verbs):
            yield PolicyRule((verb,), paths=(path,))

    def covers(self, part: "PolicyRule") -> bool:
        """Return whether the rule allows all that a part of another rule allows."""
        return (
            _covers(self.verbs, part.verbs)
            and _covers(self.groups, part.groups)
            and all(_covers_resource(self.resources, resource) for resource in part.resources)
            and all(any(_path_covers(own, path) for own in self.paths) for path in part.paths)
            and (not self.names or (bool(part.names) and set(part.names) <= set(self.names)))
        )

    def __str__(self) -> str:
        """Return the rule as messages about privilege escalation show it.

        Source: evaluation_helpers.go, CompactString.
        """
        members = {
            "APIGroups": self.groups, "Resources": self.resources, "NonResourceURLs": self.paths,
            "ResourceNames": self.names, "Verbs": self.verbs,
        }  # fmt: skip
        return f"{{{', '.join(f'{name}:{quoted(values)}' for name, values in members.items() if values)}}}"


_MEMBERS = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")


def rules_of(role: Mapping[str, Any]) -> tuple[PolicyRule, ...]:
    """Return the rules of a Role or ClusterRole."""
    return tuple(PolicyRule(*(tuple(rule.get(name) or ()) for name in _MEMBERS)) for rule in role.get("rules") or ())


def uncovered(owned: Collection[PolicyRule], granted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Return the parts of granted rules that no rule of the user covers."""
    parts = (part for rule in granted for part in rule.parts)
    return [part for part in parts if not any(own.covers(part) for own in owned)]


def compact(parts: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Return rules with those joined that differ in their verbs only, and have one group, one resource and no names.

    Source: kubernetes/pkg/registry/rbac/validation/policy_compact.go, CompactRules.
    """
    joined: dict[object, PolicyRule] = {}
    for part in parts:
        is_simple = len(part.groups) == len(part.resources) == 1 and not part.names and not part.paths
        key = (part.groups, part.resources) if is_simple else len(joined)
        before = joined.get(key)
        joined[key] = part if before is None else before._replace(verbs=before.verbs + part.verbs)
    return list(joined.values())


def _has(allowed: tuple[str, ...], wanted: str) -> bool:
    return wanted in allowed or ALL in allowed


def _covers(own: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    return ALL in own or all(one in own for one in wanted)


def _covers_resource(own: tuple[str, ...], wanted: str) -> bool:
    _, slash, subresource = wanted.partition("/")
    return ALL in own or wanted in own or (bool(slash) and f"*/{subresource}" in own)


def _path_covers(own: str, wanted: str) -> bool:
    return own == wanted or (own.endswith("*") and wanted.startswith(own.rstrip("*")))
