"""Validation of the rules of webhooks and policies: operations and resources, selectors, match policies.

Source: kubernetes/pkg/apis/admissionregistration/validation/validation.go, validateRuleWithOperations and
validateMatchResources.
"""

from collections.abc import Iterator, Sequence

from kcr_devcluster.apiserver.protocol.field_errors import FieldError, duplicate, invalid, not_supported, required
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import check_selector, path_segment

FAILURE_POLICIES = ("Fail", "Ignore")
MATCH_POLICIES = ("Equivalent", "Exact")
REINVOCATION_POLICIES = ("IfNeeded", "Never")
# Policies that change objects have nothing to change when one is deleted.
MUTATING_OPERATIONS = ("*", "CONNECT", "CREATE", "UPDATE")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")


def check_choice(owner: Manifest, path: str, name: str, supported: tuple[str, ...]) -> Iterator[FieldError]:
    """Yield the error of a field that is set, and to none of the supported values."""
    value = owner.get(name)
    if value is not None and value not in supported:
        yield not_supported(f"{path}.{name}", value, supported)


def check_rule(rule: Manifest, path: str) -> Iterator[FieldError]:
    """Yield the field errors of a rule: operations, groups, versions and resources."""
    operations: Sequence[str] = rule.get("operations") or ()
    yield from _check_list(operations, f"{path}.operations", "operations")
    for position, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            yield not_supported(f"{path}.operations[{position}]", operation, _OPERATIONS)
    yield from _check_list(rule.get("apiGroups") or (), f"{path}.apiGroups", "API groups")
    versions: Sequence[str] = rule.get("apiVersions") or ()
    yield from _check_list(versions, f"{path}.apiVersions", "API versions")
    for position, version in enumerate(versions):
        if not version:
            yield required(f"{path}.apiVersions[{position}]")
    yield from _check_resources(rule.get("resources") or (), f"{path}.resources")
    yield from check_choice(rule, path, "scope", _SCOPES)


def _check_list(values: Sequence[str], path: str, called: str) -> Iterator[FieldError]:
    if not values:
        yield required(path)
    if len(values) > 1 and "*" in values:
        yield invalid(path, values, f"if '*' is present, must not specify other {called}")


def _check_resources(resources: Sequence[str], path: str) -> Iterator[FieldError]:
    """Yield the errors of resources and subresources, such as `pods/status`, of which wildcards cover others."""
    if not resources:
        yield required(path)
    yield from _check_subresources(resources, path)
    if len(resources) > 1 and "*/*" in resources:
        yield invalid(path, resources, "if '*/*' is present, must not specify other resources")
    # The last resource without a subresource decides, as upstream.
    plain = [one for one in resources if one and "/" not in one]
    if "*" in plain and plain[-1] != "*":
        yield invalid(path, resources, "if '*' is present, must not specify other resources without subresources")


def _check_subresources(resources: Sequence[str], path: str) -> Iterator[FieldError]:
    # Owners whose subresources are all named by `x/*`, and subresources that `*/x` names for all owners.
    owners: set[str] = set()
    subresources: set[str] = set()
    for position, one in enumerate(resources):
        place, (owner, slash, subresource) = f"{path}[{position}]", one.partition("/")
        if not one:
            yield required(place)
        if not slash:
            continue
        if owner in owners:
            yield invalid(place, one, f"if '{owner}/*' is present, must not specify {one}")
        if subresource in subresources:
            yield invalid(place, one, f"if '*/{subresource}' is present, must not specify {one}")
        if subresource == "*":
            owners.add(owner)
        if owner == "*":
            subresources.add(subresource)


def check_match_resources(matched: Manifest | None, path: str) -> Iterator[FieldError]:
    """Yield the field errors of the resources that a policy or a binding applies to, with their defaults."""
    if matched is None:
        return
    yield from check_choice(matched, path, "matchPolicy", MATCH_POLICIES)
    for name in ("namespaceSelector", "objectSelector"):
        yield from check_selector(matched.get(name) or {}, f"{path}.{name}")
    for name in ("resourceRules", "excludeResourceRules"):
        for position, rule in enumerate(matched.get(name) or ()):
            yield from _check_named_rule(rule, f"{path}.{name}[{position}]")


def _check_named_rule(rule: Manifest, path: str) -> Iterator[FieldError]:
    known: set[str] = set()
    for position, name in enumerate(rule.get("resourceNames") or ()):
        place = f"{path}.resourceNames[{position}]"
        yield from (invalid(place, name, reason) for reason in path_segment(name))
        if name in known:
            yield duplicate(place, name)
        known.add(name)
    yield from check_rule(rule, path)


def check_mutating_operations(matched: Manifest | None, path: str) -> Iterator[FieldError]:
    """Yield the errors of operations that a mutating policy cannot apply to."""
    for rule in (matched or {}).get("resourceRules") or ():
        for operation in rule.get("operations") or ():
            if operation not in MUTATING_OPERATIONS:
                yield not_supported(f"{path}.resourceRules.operations", operation, MUTATING_OPERATIONS)
