"""Validation of containers and init containers.

Source: kubernetes/pkg/apis/core/validation/validation.go, validateContainers, validateInitContainers and
validateContainerCommon.
"""

from collections.abc import Mapping, Sequence

from kcr_devcluster.apiserver.kinds.formats import port_number
from kcr_devcluster.apiserver.kinds.pods.validation.environment import check_env, check_env_from
from kcr_devcluster.apiserver.kinds.pods.validation.probes import HOOKS, check_hooks
from kcr_devcluster.apiserver.kinds.pods.validation.resources import check_resources
from kcr_devcluster.apiserver.kinds.pods.validation.security import check_container_security
from kcr_devcluster.apiserver.kinds.pods.validation.volumes import check_devices, check_mounts
from kcr_devcluster.apiserver.protocol.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    one_of,
    required,
    too_many,
)
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import dns_label, port_name

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_RESTARTS = ("Always", "Never", "OnFailure")
_NEEDS_POLICY = "must specify restartPolicy when restart rules are used"
_RULE_ACTIONS = ("Restart", "RestartAllContainers")
_OPERATORS = ("In", "NotIn")
_MOST_RULES, _MOST_CODES = 20, 255
_RESIZED = ("cpu", "memory")
_RESIZE_POLICIES = ("NotRequired", "RestartContainer")
# Fields that most containers lack: only containers with one of them pay for its rules.
_HOOKS = frozenset(HOOKS)
# Fields that an ephemeral container cannot have, beside the hooks.
_LASTING = ("ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules")
_NOT_EPHEMERAL = "cannot be set for an Ephemeral Container"
_RARE = frozenset({"envFrom", "volumeDevices", "securityContext", "resizePolicy"})
_RESTARTING = frozenset({"resizePolicy", "restartPolicy", "restartPolicyRules"})


def check_containers(spec: Manifest, volumes: Mapping[str, Manifest], field: str) -> list[FieldError]:
    """Return the field errors of containers and init containers.

    Args:
        spec: The pod's spec.
        volumes: Its volumes by name.
        field: The path of the spec.
    """
    errors = [] if spec.get("containers") else [required(f"{field}.containers")]
    names: set[str] = set()
    for member in ("containers", "initContainers"):
        for position, container in enumerate(spec.get(member) or ()):
            path, name = f"{field}.{member}[{position}]", container.get("name", "")
            errors += _check_container(container, spec, volumes, path)
            if not container.keys().isdisjoint(_RESTARTING):
                errors += _check_restarts(container, path, is_init=member == "initContainers")
            if name in names:
                errors.append(duplicate(f"{path}.name", name))
            names |= {name} if name or member == "containers" else set()
            if container.keys().isdisjoint(_HOOKS):
                continue
            if member == "initContainers" and container.get("restartPolicy") != "Always":
                words = "may not be set for init containers without restartPolicy=Always"
                errors += [forbidden(f"{path}.{hook}", words) for hook in HOOKS if container.get(hook) is not None]
            else:
                errors += check_hooks(container, spec.get("terminationGracePeriodSeconds"), path)
    return errors


def check_ephemeral_containers(spec: Manifest, volumes: Mapping[str, Manifest], field: str) -> list[FieldError]:
    """Return the field errors of ephemeral containers.

    Args:
        spec: The pod's spec.
        volumes: Its volumes by name.
        field: The path of the spec.

    Source: validateEphemeralContainers.
    """
    errors: list[FieldError] = []
    mains = {one.get("name", "") for one in spec.get("containers") or ()}
    names = mains | {one.get("name", "") for one in spec.get("initContainers") or ()}
    for position, container in enumerate(spec.get("ephemeralContainers") or ()):
        path, name = f"{field}.ephemeralContainers[{position}]", container.get("name", "")
        errors += _check_container(container, spec, volumes, path)
        if name in names:
            errors.append(duplicate(f"{path}.name", name))
        names.add(name)
        if (target := container.get("targetContainerName")) and target not in mains:
            errors.append(not_found(f"{path}.targetContainerName", target))
        set_here = [one for one in _LASTING if container.get(one) not in (None, {})]
        errors += [forbidden(f"{path}.{one}", _NOT_EPHEMERAL) for one in set_here]
        errors += [forbidden(f"{path}.{hook}", _NOT_EPHEMERAL) for hook in HOOKS if container.get(hook) is not None]
        errors += [
            forbidden(f"{path}.volumeMounts[{number}].{one}", _NOT_EPHEMERAL)
            for number, mount in enumerate(container.get("volumeMounts") or ())
            for one in ("subPath", "subPathExpr")
            if mount.get(one)
        ]
    return errors


def _check_container(
    container: Manifest, spec: Manifest, volumes: Mapping[str, Manifest], field: str
) -> list[FieldError]:
    errors: list[FieldError] = []
    if not (name := container.get("name", "")):
        errors.append(required(f"{field}.name"))
    elif reasons := dns_label(name):
        errors += [invalid(f"{field}.name", name, reason) for reason in reasons]
    if not container.get("image"):
        errors.append(required(f"{field}.image"))
    if (policy := container.get("terminationMessagePolicy", "")) not in _MESSAGE_POLICIES:
        errors += one_of(f"{field}.terminationMessagePolicy", policy, _MESSAGE_POLICIES)
    if ports := container.get("ports"):
        errors += _check_ports(ports, f"{field}.ports")
    if env := container.get("env"):
        errors += check_env(env, volumes, f"{field}.env")
    if container.get("volumeMounts"):
        errors += check_mounts(container, volumes, f"{field}.volumeMounts")
    if (policy := container.get("imagePullPolicy", "")) not in _PULL_POLICIES:
        errors += one_of(f"{field}.imagePullPolicy", policy, _PULL_POLICIES)
    if resources := container.get("resources"):
        errors += check_resources(resources, spec.get("resourceClaims") or (), f"{field}.resources")
    return errors if container.keys().isdisjoint(_RARE) else errors + _check_rare(container, spec, volumes, field)


def _check_rare(container: Manifest, spec: Manifest, volumes: Mapping[str, Manifest], field: str) -> list[FieldError]:
    errors = check_env_from(container.get("envFrom") or (), f"{field}.envFrom")
    errors += check_devices(container, volumes, f"{field}.volumeDevices")
    errors += _check_resize(container.get("resizePolicy") or (), spec, f"{field}.resizePolicy")
    return errors + check_container_security(container.get("securityContext") or {}, spec, f"{field}.securityContext")


def _check_restarts(container: Manifest, field: str, *, is_init: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    restart, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    if is_init and restart != "Always":
        words = "must not be set to 'RestartContainer' for non-sidecar initContainers"
        errors += [
            invalid(f"{field}.resizePolicy[{position}].restartPolicy", one["restartPolicy"], words)
            for position, one in enumerate(container.get("resizePolicy") or ())
            if one.get("restartPolicy") == "RestartContainer"
        ]
    if is_init and restart is None:
        # Rules without a policy are not looked into.
        return errors + [required(f"{field}.restartPolicy", _NEEDS_POLICY)] * bool(rules)
    if rules and restart is None:
        errors.append(required(f"{field}.restartPolicy", _NEEDS_POLICY))
    elif restart is not None and restart not in _RESTARTS:
        errors.append(not_supported(f"{field}.restartPolicy", restart, _RESTARTS))
    if len(rules) > _MOST_RULES:
        errors.append(too_many(f"{field}.restartPolicyRules", len(rules), _MOST_RULES))
    for position, rule in enumerate(rules):
        errors += _check_rule(rule, f"{field}.restartPolicyRules[{position}]")
    return errors


def _check_rule(rule: Manifest, field: str) -> list[FieldError]:
    action, codes = rule.get("action", ""), rule.get("exitCodes")
    errors = [] if action in _RULE_ACTIONS else [not_supported(f"{field}.action", action, _RULE_ACTIONS)]
    if codes is None:
        return [*errors, required(f"{field}.exitCodes", "must be specified")]
    if (operator := codes.get("operator", "")) not in _OPERATORS:
        errors.append(not_supported(f"{field}.exitCodes.operator", operator, _OPERATORS))
    if (count := len(codes.get("values") or ())) > _MOST_CODES:
        errors.append(too_many(f"{field}.exitCodes.values", count, _MOST_CODES))
    return errors


def _check_ports(ports: Sequence[Manifest], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for position, port in enumerate(ports):
        path, name = f"{field}[{position}]", port.get("name", "")
        if name:
            reasons = port_name(name)
            errors += [invalid(f"{path}.name", name, reason) for reason in reasons]
            if name in names:
                errors.append(duplicate(f"{path}.name", name))
            names.add(name)
        number = port.get("containerPort", 0)
        errors += port_number(f"{path}.containerPort", number) if number else [required(f"{path}.containerPort")]
        if port.get("hostPort"):
            errors += port_number(f"{path}.hostPort", port["hostPort"])
        errors += one_of(f"{path}.protocol", port.get("protocol", ""), _PROTOCOLS)
    return errors


def _check_resize(policies: Sequence[Manifest], spec: Manifest, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for position, policy in enumerate(policies):
        name, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if name in seen:
            errors.append(duplicate(f"{field}[{position}]", name))
        seen.add(name)
        errors += one_of(field, name, _RESIZED)
        errors += one_of(field, restart, _RESIZE_POLICIES)
        if spec.get("restartPolicy") == "Never" and restart != "NotRequired":
            words = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            errors.append(invalid(field, restart, words))
    return errors
