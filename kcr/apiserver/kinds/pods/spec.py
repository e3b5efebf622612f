"""Validation of pod specs and pod templates.

Source: kubernetes/pkg/apis/core/validation/validation.go, ValidatePodSpec, ValidatePodTemplateSpec and ValidateVolumes.
"""

from kcr.apiserver.kinds.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, one_of, required
from kcr.apiserver.kinds.names import (
    check_annotations,
    check_labels,
    check_selector,
    dns_label,
    dns_subdomain,
    label_value,
    qualified_name,
    selects,
)
from kcr.apiserver.kinds.pods.containers import check_containers
from kcr.apiserver.kinds.strategy import Manifest

_RESTARTS = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_LONGEST = 2**31 - 1


def check_template(template: Manifest, field: str) -> list[FieldError]:
    """Return the field errors of a pod template; labels and annotations are reported without `metadata`."""
    metadata, spec = template.get("metadata") or {}, template["spec"]
    errors = check_labels(metadata.get("labels") or {}, f"{field}.labels")
    errors += check_annotations(metadata.get("annotations") or {}, f"{field}.annotations")
    errors += check_pod_spec(spec, f"{field}.spec")
    if spec.get("ephemeralContainers"):
        words = "ephemeral containers not allowed in pod template"
        errors.append(forbidden(f"{field}.spec.ephemeralContainers", words))
    return errors


def check_selector_of(spec: Manifest, field: str) -> list[FieldError]:
    """Return the field errors of the selector, and of template labels it does not pick."""
    selector = spec.get("selector")
    if selector is None:
        errors, picks = [required(f"{field}.selector")], False
    else:
        errors = check_selector(selector, f"{field}.selector")
        # A selector that is invalid is not held against the labels.
        picks = bool(errors) or selects(selector, spec["template"]["metadata"].get("labels") or {})
    if not picks:
        labels = spec["template"]["metadata"].get("labels")
        words = "`selector` does not match template `labels`"
        errors.append(invalid(f"{field}.template.metadata.labels", labels, words))
    return errors


def check_pod_spec(spec: Manifest, field: str) -> list[FieldError]:
    """Return the field errors of what pods and pod templates share."""
    volumes, errors = check_volumes(spec.get("volumes") or (), f"{field}.volumes")
    errors += check_containers(spec, volumes, field)
    errors += one_of(f"{field}.restartPolicy", spec.get("restartPolicy", ""), _RESTARTS)
    errors += one_of(f"{field}.dnsPolicy", spec.get("dnsPolicy", ""), _DNS_POLICIES)
    if spec.get("terminationGracePeriodSeconds") is None:
        errors.append(required(f"{field}.terminationGracePeriodSeconds"))
    errors += check_labels(spec.get("nodeSelector") or {}, f"{field}.nodeSelector")
    errors += _check_gates(spec.get("schedulingGates") or (), f"{field}.schedulingGates")
    errors += _check_names(spec, field)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _LONGEST:
        words = f"must be between 1 and {_LONGEST}, inclusive"
        errors.append(invalid(f"{field}.activeDeadlineSeconds", deadline, words))
    return errors + _check_tolerations(spec.get("tolerations") or (), f"{field}.tolerations")


def _check_names(spec: Manifest, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, rule in (
        ("serviceAccountName", dns_subdomain),
        ("nodeName", dns_subdomain),
        ("hostname", dns_label),
        ("subdomain", dns_label),
        ("priorityClassName", dns_subdomain),
        ("runtimeClassName", dns_subdomain),
    ):
        value = spec.get(name)
        if value:
            errors += [invalid(f"{field}.{name}", value, reason) for reason in rule(value)]
    return errors


def _check_gates(gates: list[Manifest] | tuple[()], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for position, gate in enumerate(gates):
        path, name = f"{field}[{position}]", gate.get("name", "")
        if not name:
            errors.append(required(path, "must not be empty"))
            continue
        errors += [invalid(path, name, reason) for reason in qualified_name(name)]
        if name in seen:
            errors.append(duplicate(path, name))
        seen.add(name)
    return errors


def _check_tolerations(tolerations: list[Manifest] | tuple[()], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for position, toleration in enumerate(tolerations):
        path, key, effect = f"{field}[{position}]", toleration.get("key", ""), toleration.get("effect", "")
        errors += _check_operator(toleration, key, path)
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            words = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(invalid(f"{path}.effect", effect, words))
        if effect and effect not in _EFFECTS:
            errors.append(not_supported(f"{path}.effect", effect, _EFFECTS))
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
        errors.append(invalid(f"{field}.operator", toleration, "value must be empty when `operator` is 'Exists'"))
    return errors


# What a source cannot do without; kinds of volumes that are not named are taken as they come.
_NEEDED = {
    "configMap": "name", "hostPath": "path", "nfs": "server", "persistentVolumeClaim": "claimName",
    "secret": "secretName",
}  # fmt: skip


def check_volumes(volumes: list[Manifest] | tuple[()], field: str) -> tuple[dict[str, Manifest], list[FieldError]]:
    """Return the volumes by name, and their errors."""
    named: dict[str, Manifest] = {}
    errors: list[FieldError] = []
    for position, volume in enumerate(volumes):
        path, name = f"{field}[{position}]", volume.get("name", "")
        errors += [invalid(f"{path}.name", name, reason) for reason in dns_label(name)] if name else []
        if not name:
            errors.append(required(f"{path}.name"))
        elif name in named:
            errors.append(duplicate(f"{path}.name", name))
        named[name] = volume
        sources = [source for source in volume if source != "name"]
        errors += [forbidden(f"{path}.{extra}", "may not specify more than 1 volume type") for extra in sources[1:]]
        for source in sources[:1]:
            needed = _NEEDED.get(source)
            if needed and not volume[source].get(needed):
                errors.append(required(f"{path}.{source}.{needed}"))
    return named, errors
