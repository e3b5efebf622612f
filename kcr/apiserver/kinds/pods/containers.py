"""Validation of containers, and the quality of service that follows from their resources.

Source: kubernetes/pkg/apis/core/validation/validation.go, validateContainers, validateInitContainers and
ValidateResourceRequirements; pkg/apis/core/helper/qos/qos.go, ComputePodQOS.
"""

from collections.abc import Mapping

from kcr.apiserver.kinds.field_errors import (
    NON_NEGATIVE,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    one_of,
    required,
)
from kcr.apiserver.kinds.names import dns_label, port_name, qualified_name
from kcr.apiserver.kinds.pods.defaults import containers_of
from kcr.apiserver.kinds.strategy import Manifest
from kcr.apiserver.schema.quantities import amount

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("FallbackToLogsOnError", "File")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_RESTARTS = ("Always", "Never", "OnFailure")
_HOOKS = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


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
            errors += _check_container(container, volumes, path)
            if name in names:
                errors.append(duplicate(f"{path}.name", name))
            names.add(name)
            if member == "initContainers" and container.get("restartPolicy") != "Always":
                words = "may not be set for init containers without restartPolicy=Always"
                errors += [forbidden(f"{path}.{hook}", words) for hook in _HOOKS if container.get(hook) is not None]
    return errors


def _check_container(container: Manifest, volumes: Mapping[str, Manifest], field: str) -> list[FieldError]:
    name = container.get("name", "")
    errors = [invalid(f"{field}.name", name, reason) for reason in dns_label(name)] if name else []
    if not name:
        errors.append(required(f"{field}.name"))
    if not container.get("image"):
        errors.append(required(f"{field}.image"))
    policy = container.get("terminationMessagePolicy", "")
    errors += one_of(f"{field}.terminationMessagePolicy", policy, _MESSAGE_POLICIES)
    errors += _check_ports(container.get("ports") or (), f"{field}.ports")
    errors += _check_env(container.get("env") or (), f"{field}.env")
    errors += _check_mounts(container.get("volumeMounts") or (), volumes, f"{field}.volumeMounts")
    errors += one_of(f"{field}.imagePullPolicy", container.get("imagePullPolicy", ""), _PULL_POLICIES)
    errors += check_resources(container.get("resources") or {}, f"{field}.resources")
    restart = container.get("restartPolicy")
    if restart is not None and restart not in _RESTARTS:
        errors.append(not_supported(f"{field}.restartPolicy", restart, _RESTARTS))
    return errors


def _check_ports(ports: list[Manifest] | tuple[()], field: str) -> list[FieldError]:
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
        errors += [required(f"{path}.containerPort")] if not number else _check_port(f"{path}.containerPort", number)
        if port.get("hostPort"):
            errors += _check_port(f"{path}.hostPort", port["hostPort"])
        errors += one_of(f"{path}.protocol", port.get("protocol", ""), _PROTOCOLS)
    return errors


def _check_port(field: str, number: int) -> list[FieldError]:
    return [] if 1 <= number <= 65535 else [invalid(field, number, "must be between 1 and 65535, inclusive")]


def _check_env(env: list[Manifest] | tuple[()], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for position, variable in enumerate(env):
        path, name = f"{field}[{position}]", variable.get("name", "")
        if not name:
            errors.append(required(f"{path}.name"))
        elif "=" in name or not name.isprintable() or not name.isascii():
            words = "a valid environment variable name must consist only of printable ASCII characters other than '='"
            errors.append(invalid(f"{path}.name", name, words))
        source = variable.get("valueFrom")
        if source is not None:
            errors += _check_env_source(variable, source, f"{path}.valueFrom")
    return errors


def _check_env_source(variable: Manifest, source: Manifest, field: str) -> list[FieldError]:
    number = sum(source.get(name) is not None for name in _SOURCES)
    if number == 0:
        words = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        return [invalid(field, "", words)]
    if variable.get("value"):
        return [invalid(field, "", "may not be specified when `value` is not empty")]
    return [] if number == 1 else [invalid(field, "", "may not have more than one field specified at a time")]


def _check_mounts(mounts: list[Manifest] | tuple[()], volumes: Mapping[str, Manifest], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    paths: set[str] = set()
    for position, mount in enumerate(mounts):
        name, where = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.append(required(f"{field}[{position}].name"))
        elif name not in volumes:
            errors.append(not_found(f"{field}[{position}].name", name))
        if not where:
            errors.append(required(f"{field}[{position}].mountPath"))
        elif where in paths:
            errors.append(invalid(f"{field}[{position}].mountPath", where, "must be unique"))
        paths.add(where)
    return errors


# Resources that may be overcommitted; all others are extended resources, counted in whole units.
_STANDARD = ("cpu", "memory", "ephemeral-storage")
_FOR_QOS = ("cpu", "memory")


def check_resources(resources: Manifest, field: str) -> list[FieldError]:
    """Return the field errors of limits and requests."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    errors = _check_amounts(limits, f"{field}.limits")
    for name, value in requests.items():
        errors += _check_amounts({name: value}, f"{field}.requests")
        if name not in limits:
            continue
        overcommit = name in _STANDARD
        requested, limit = amount(value), amount(limits[name])
        if overcommit and requested > limit:
            words = f"must be less than or equal to {name} limit of {limits[name]}"
            errors.append(invalid(f"{field}.requests", value, words))
        elif not overcommit and requested != limit:
            words = f"must be equal to {name} limit of {limits[name]}"
            errors.append(invalid(f"{field}.requests", value, words))
    return errors


def _check_amounts(amounts: Manifest, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, value in amounts.items():
        errors += [invalid(f"{field}[{name}]", name, reason) for reason in qualified_name(name)]
        if "/" not in name and name not in _STANDARD and not name.startswith("hugepages-"):
            words = "must be a standard resource type or fully qualified"
            errors.append(invalid(f"{field}[{name}]", name, words))
        if amount(value) < 0:
            errors.append(invalid(f"{field}[{name}]", value, NON_NEGATIVE))
    return errors


def qos_class(spec: Manifest) -> str:
    """Return `Guaranteed`, `Burstable` or `BestEffort`: the quality of service class of a pod."""
    parts = (
        [spec["resources"]] if spec.get("resources") else [one.get("resources") or {} for one in containers_of(spec)]
    )
    requests, limits = dict[str, int](), dict[str, int]()
    all_limited = True
    for resources in parts:
        _add_up(requests, resources.get("requests") or {})
        limited = _add_up(limits, resources.get("limits") or {})
        all_limited = all_limited and limited == len(_FOR_QOS)
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if all_limited and requests == limits else "Burstable"


def _add_up(total: dict[str, int], amounts: Manifest) -> int:
    """Add the amounts that count to a total, and return how many counted."""
    counted = 0
    for name in _FOR_QOS:
        value = amount(amounts.get(name, "0"))
        if value > 0:
            total[name] = total.get(name, 0) + value
            counted += 1
    return counted
