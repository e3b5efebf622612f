"""Validation of the scheduling fields of a pod: affinity, topology spread constraints, tolerations, gates.

Source: kubernetes/pkg/apis/core/validation/validation.go, validateAffinity, validateTopologySpreadConstraints,
ValidateTolerations and validateSchedulingGates.
"""

from collections.abc import Sequence

from kcr_devcluster.apiserver.kinds.node_selectors import check_node_selector, check_node_term
from kcr_devcluster.apiserver.kinds.pods.defaults import EVICTION_TOLERATIONS
from kcr_devcluster.apiserver.protocol.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import (
    check_selector,
    dns_label,
    label_value,
    qualified_name,
)

TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_INCLUSIONS = ("Honor", "Ignore")
_POSITIVE = "must be greater than zero"


def check_affinity(affinity: Manifest, field: str) -> list[FieldError]:
    """Return the field errors of an affinity."""
    errors: list[FieldError] = []
    if node := affinity.get("nodeAffinity"):
        errors += _check_node_affinity(node, f"{field}.nodeAffinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        if terms := affinity.get(kind):
            errors += _check_pod_affinity(terms, f"{field}.{kind}")
    return errors


def _check_node_affinity(affinity: Manifest, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if affinity.get(_REQUIRED) is not None:
        errors += check_node_selector(affinity[_REQUIRED], f"{field}.{_REQUIRED}")
    for position, term in enumerate(affinity.get(_PREFERRED) or ()):
        path = f"{field}.{_PREFERRED}[{position}]"
        errors += _check_weight(term, path)
        # Labels with invalid values match nothing, which does no harm where nothing is required.
        errors += check_node_term(term.get("preference") or {}, f"{path}.preference", check_values=False)
    return errors


def _check_weight(term: Manifest, field: str) -> list[FieldError]:
    weight = term.get("weight", 0)
    return [] if 1 <= weight <= 100 else [invalid(f"{field}.weight", weight, "must be in the range 1-100")]


def _check_pod_affinity(affinity: Manifest, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for position, term in enumerate(affinity.get(_REQUIRED) or ()):
        errors += _check_pod_term(term, f"{field}.{_REQUIRED}[{position}]")
    for position, term in enumerate(affinity.get(_PREFERRED) or ()):
        path = f"{field}.{_PREFERRED}[{position}]"
        errors += _check_weight(term, path)
        errors += _check_pod_term(term.get("podAffinityTerm") or {}, f"{path}.podAffinityTerm")
    return errors


def _check_pod_term(term: Manifest, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in ("labelSelector", "namespaceSelector"):
        errors += check_selector(term.get(name) or {}, f"{field}.{name}")
    for name in term.get("namespaces") or ():
        errors += [invalid(f"{field}.namespace", name, reason) for reason in dns_label(name)]
    errors += _check_label_keys(term, field)
    key = term.get("topologyKey", "")
    if not key:
        errors.append(required(f"{field}.topologyKey", "can not be empty"))
    return errors + [invalid(f"{field}.topologyKey", key, reason) for reason in qualified_name(key)]


def _check_label_keys(term: Manifest, field: str) -> list[FieldError]:
    """Check the keys whose values come from the pod's own labels."""
    errors: list[FieldError] = []
    selector = term.get("labelSelector")
    for name in ("matchLabelKeys", "mismatchLabelKeys"):
        keys = term.get(name) or ()
        if keys and selector is None:
            errors.append(forbidden(f"{field}.{name}", "must not be specified when labelSelector is not set"))
            continue
        errors += [invalid(f"{field}.{name}[{position}]", key, reason)
                   for position, key in enumerate(keys) for reason in qualified_name(key)]  # fmt: skip
    opposite = term.get("mismatchLabelKeys") or ()
    errors += [
        invalid(f"{field}.matchLabelKeys[{position}]", key, "exists in both matchLabelKeys and mismatchLabelKeys")
        for position, key in enumerate(term.get("matchLabelKeys") or ())
        if key in opposite
    ]
    return errors


def check_spread(constraints: Sequence[Manifest], field: str) -> list[FieldError]:
    """Return the field errors of topology spread constraints."""
    errors: list[FieldError] = []
    for position, constraint in enumerate(constraints):
        path = f"{field}[{position}]"
        errors += _check_constraint(constraint, path)
        pair = _pair(constraint)
        if any(_pair(other) == pair for other in constraints[position + 1 :]):
            errors.append(duplicate(f"{path}.{{topologyKey, whenUnsatisfiable}}", f"{{{pair[0]}, {pair[1]}}}"))
        errors += _check_domains(constraint, path)
    return errors


def _pair(constraint: Manifest) -> tuple[str, str]:
    return constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")


def _check_constraint(constraint: Manifest, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    key, action = _pair(constraint)
    skew = constraint.get("maxSkew", 0)
    if skew <= 0:
        errors.append(invalid(f"{field}.maxSkew", skew, _POSITIVE))
    if not key:
        errors.append(required(f"{field}.topologyKey", "can not be empty"))
    if action not in _ACTIONS:
        errors.append(not_supported(f"{field}.whenUnsatisfiable", action, _ACTIONS))
    return errors


def _check_domains(constraint: Manifest, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    domains, action = constraint.get("minDomains"), constraint.get("whenUnsatisfiable", "")
    if domains is not None:
        if domains <= 0:
            errors.append(invalid(f"{field}.minDomains", domains, _POSITIVE))
        if action != "DoNotSchedule":
            words = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            errors.append(invalid(f"{field}.minDomains", domains, words))
    for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        policy = constraint.get(name)
        if policy is not None and policy not in _INCLUSIONS:
            errors.append(not_supported(f"{field}.{name}", policy, _INCLUSIONS))
    selector = constraint.get("labelSelector")
    if keys := constraint.get("matchLabelKeys"):
        errors += _check_spread_keys(keys, selector, field)
    return errors + check_selector(selector or {}, f"{field}.labelSelector")


def _check_spread_keys(keys: Sequence[str], selector: Manifest | None, constraint: str) -> list[FieldError]:
    errors: list[FieldError] = []
    field = f"{constraint}.matchLabelKeys"
    if selector is None:
        return [forbidden(field, "must not be specified when labelSelector is not set")]
    errors += [invalid(f"{field}[{position}]", key, reason)
               for position, key in enumerate(keys) for reason in qualified_name(key)]  # fmt: skip
    # The last expressions are those that the server has made of the keys.
    expressions = [one.get("key") for one in (selector or {}).get("matchExpressions") or ()]
    for key in reversed(keys):
        if expressions and expressions[-1] == key:
            expressions.pop()
    selected = {*expressions, *((selector or {}).get("matchLabels") or ())}
    for position, key in enumerate(keys):
        if key in selected:
            errors.append(invalid(f"{constraint}[{position}]", key, "exists in both matchLabelKeys and labelSelector"))
        selected.add(key)
    return errors


def check_gates(gates: Sequence[Manifest], field: str) -> list[FieldError]:
    """Return the field errors of scheduling gates."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for position, gate in enumerate(gates):
        path, name = f"{field}[{position}]", gate.get("name", "")
        errors += [invalid(path, name, reason) for reason in qualified_name(name)]
        if name in seen:
            errors.append(duplicate(path, name))
        seen.add(name)
    return errors


def check_tolerations(tolerations: Sequence[Manifest], field: str) -> list[FieldError]:
    """Return the field errors of tolerations."""
    errors: list[FieldError] = []
    for position, toleration in enumerate(tolerations):
        if toleration in EVICTION_TOLERATIONS:
            continue
        path, key, effect = f"{field}[{position}]", toleration.get("key", ""), toleration.get("effect", "")
        errors += _check_operator(toleration, key, path)
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            words = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(invalid(f"{path}.effect", effect, words))
        if effect and effect not in TAINT_EFFECTS:
            errors.append(not_supported(f"{path}.effect", effect, TAINT_EFFECTS))
    return errors


def _check_operator(toleration: Manifest, key: str, field: str) -> list[FieldError]:
    operator, value = toleration.get("operator", ""), toleration.get("value", "")
    errors = [invalid(f"{field}.key", key, reason) for reason in qualified_name(key)] if key else []
    if not key and operator != "Exists":
        words = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        errors.append(invalid(f"{field}.operator", operator, words))
    if operator in ("", "Equal"):
        errors += [invalid(f"{field}.operator", value, reason) for reason in label_value(value)]
    elif operator != "Exists":
        errors.append(not_supported(f"{field}.operator", operator, ("Equal", "Exists")))
    elif value:
        errors.append(invalid(f"{field}.operator", value, "value must be empty when `operator` is 'Exists'"))
    return errors
