"""Validation of probes and lifecycle hooks of containers.

Source: kubernetes/pkg/apis/core/validation/validation.go, validateProbe, validateHandler and validateLifecycle.
"""

import re
from collections.abc import Callable, Mapping

from kcr_devcluster.apiserver.kinds.formats import port_number
from kcr_devcluster.apiserver.protocol.field_errors import (
    FieldError,
    forbidden,
    invalid,
    non_negative,
    not_supported,
    required,
)
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import port_name

PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
HOOKS = ("lifecycle", *PROBES)
_SCHEMES = ("HTTP", "HTTPS")
_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_HEADER = re.compile(r"[-A-Za-z0-9]+")
_HEADER_MESSAGE = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for "
    "validation is '[-A-Za-z0-9]+')"
)


def check_hooks(container: Manifest, grace: int | None, field: str) -> list[FieldError]:
    """Return the field errors of the lifecycle hooks and probes of a container that may have them.

    Args:
        container: The container.
        grace: The pod's grace period in seconds; None where it is missing.
        field: The container's path.
    """
    errors: list[FieldError] = []
    lifecycle = container.get("lifecycle") or {}
    for hook in ("postStart", "preStop"):
        if lifecycle.get(hook) is not None:
            errors += _check_handler(lifecycle[hook], _LIFECYCLE, grace, f"{field}.lifecycle.{hook}")
    for name in PROBES:
        if container.get(name) is not None:
            errors += _check_probe(name, container[name], f"{field}.{name}")
    return errors


def _check_probe(name: str, probe: Manifest, field: str) -> list[FieldError]:
    errors = _check_handler(probe, _PROBE, None, field)
    for number in _NUMBERS:
        errors += non_negative(f"{field}.{number}", probe.get(number))
    seconds = probe.get("terminationGracePeriodSeconds")
    if seconds is not None and seconds <= 0:
        errors.append(invalid(f"{field}.terminationGracePeriodSeconds", seconds, "must be greater than 0"))
    if name == "readinessProbe":
        if seconds is not None:
            words = "must not be set for readinessProbes"
            errors.append(invalid(f"{field}.terminationGracePeriodSeconds", seconds, words))
    elif probe.get("successThreshold") != 1:
        errors.append(invalid(f"{field}.successThreshold", probe.get("successThreshold", 0), "must be 1"))
    return errors


def _check_handler(
    holder: Manifest, handlers: Mapping[str, "_Rule"], grace: int | None, field: str
) -> list[FieldError]:
    given = [name for name in handlers if holder.get(name) is not None]
    if not given:
        return [required(field, "must specify a handler type")]
    first, *more = given
    errors = handlers[first](holder[first], grace, f"{field}.{first}")
    return errors + [forbidden(f"{field}.{name}", "may not specify more than 1 handler type") for name in more]


def check_port(port: object, field: str) -> list[FieldError]:
    """Return the field errors of a port, which is a number or a name; absent, it is the number 0."""
    if isinstance(port, str):
        return [invalid(field, port, reason) for reason in port_name(port)]
    return port_number(field, port if isinstance(port, int) else 0)


def _check_exec(handler: Manifest, _: int | None, field: str) -> list[FieldError]:
    return [] if handler.get("command") else [required(f"{field}.command")]


def _check_http(handler: Manifest, _: int | None, field: str) -> list[FieldError]:
    errors = [] if handler.get("path") else [required(f"{field}.path")]
    errors += check_port(handler.get("port"), f"{field}.port")
    scheme = handler.get("scheme", "")
    if scheme not in _SCHEMES:
        errors.append(not_supported(f"{field}.scheme", scheme, _SCHEMES))
    for header in handler.get("httpHeaders") or ():
        name = header.get("name", "")
        if not _HEADER.fullmatch(name):
            errors.append(invalid(f"{field}.httpHeaders", name, _HEADER_MESSAGE))
    return errors


def _check_socket(handler: Manifest, _: int | None, field: str) -> list[FieldError]:
    return check_port(handler.get("port"), f"{field}.port")


def _check_sleep(handler: Manifest, grace: int | None, field: str) -> list[FieldError]:
    seconds = handler.get("seconds", 0)
    if grace is None or 0 <= seconds <= grace:
        return []
    words = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
    return [invalid(field, seconds, words)]


_Rule = Callable[[Manifest, int | None, str], list[FieldError]]
# In upstream's order: the first handler that is given counts, others are forbidden.
_PROBE: Mapping[str, _Rule] = {
    "exec": _check_exec, "httpGet": _check_http, "tcpSocket": _check_socket, "grpc": _check_socket,
}  # fmt: skip
_LIFECYCLE: Mapping[str, _Rule] = {
    "exec": _check_exec, "httpGet": _check_http, "tcpSocket": _check_socket, "sleep": _check_sleep,
}  # fmt: skip
