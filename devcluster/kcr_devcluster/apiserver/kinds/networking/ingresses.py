"""The strategies of Ingresses and IngressClasses.

Source: kubernetes/pkg/apis/networking/validation/validation.go, ValidateIngressCreate, ValidateIngressSpec and
ValidateIngressClass; pkg/apis/networking/v1/defaults.go.
"""

import re
from typing import Any

from kcr_devcluster.apiserver.kinds.formats import parse_address, port_number
from kcr_devcluster.apiserver.kinds.generic import Conform, Rules
from kcr_devcluster.apiserver.kinds.networking.load_balancers import check_ingress_status
from kcr_devcluster.apiserver.protocol.field_errors import (
    IMMUTABLE,
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import (
    SUBDOMAIN_PATTERN,
    dns_label,
    dns_subdomain,
    domain_prefixed_path,
    path_segment,
    port_name,
)

_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_SEQUENCES, _SUFFIXES = ("//", "/./", "/../", "%2f", "%2F"), ("/..", "/.")
_CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_LONGEST_CONTROLLER = 250
_SCOPES = ("Cluster", "Namespace")
_ABSOLUTE = "must be an absolute path"
_WILDCARD = re.compile(rf"\*\.{SUBDOMAIN_PATTERN}")
_WILDCARD_MESSAGE = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', "
    f"regex used for validation is '{_WILDCARD.pattern}')"
)


def _validate_ingress(obj: Manifest) -> list[FieldError]:
    """Return the field errors of a new Ingress."""
    errors, spec = _check_spec(obj.get("spec") or {}), obj.get("spec") or {}
    annotation = (obj["metadata"].get("annotations") or {}).get(_CLASS_ANNOTATION)
    name = spec.get("ingressClassName")
    if annotation is not None and name is not None and annotation != name:
        words = "must match `ingressClassName` when both are specified"
        errors.append(invalid(f"annotations.{_CLASS_ANNOTATION}", annotation, words))
    return errors


def _validate_update_ingress(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return the field errors of an update; the annotation of old clients may differ from the class by then."""
    return _check_spec(new.get("spec") or {})


def _validate_status_ingress(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return the field errors of an update of the status."""
    return check_ingress_status(new)


def _warn(obj: Manifest) -> list[str]:
    """Return that the annotation is deprecated."""
    if _CLASS_ANNOTATION not in (obj["metadata"].get("annotations") or {}):
        return []
    return [f"annotation \"{_CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"]


def _check_spec(spec: Manifest) -> list[FieldError]:
    rules, backend = spec.get("rules"), spec.get("defaultBackend")
    errors: list[FieldError] = []
    if not rules and backend is None:
        errors.append(invalid("spec", rules, "either `defaultBackend` or `rules` must be specified"))
    if backend is not None:
        errors += _check_backend(backend, "spec.defaultBackend")
    for position, rule in enumerate(rules or ()):
        errors += _check_rule(rule, f"spec.rules[{position}]")
    for position, tls in enumerate(spec.get("tls") or ()):
        errors += _check_tls(tls, f"spec.tls[{position}]")
    if (name := spec.get("ingressClassName")) is not None:
        errors += [invalid("spec.ingressClassName", name, reason) for reason in dns_subdomain(name)]
    return errors


def _check_rule(rule: Manifest, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if host := rule.get("host"):
        if parse_address(host) is not None:
            errors.append(invalid(f"{field}.host", host, "must be a DNS name, not an IP address"))
        errors += _check_host(host, f"{field}.host")
    if (http := rule.get("http")) is None:
        return errors
    if not http.get("paths"):
        errors.append(required(f"{field}.http.paths"))
    for position, path in enumerate(http.get("paths") or ()):
        errors += _check_path(path, f"{field}.http.paths[{position}]")
    return errors


def _check_host(host: str, field: str) -> list[FieldError]:
    reasons = dns_subdomain(host)
    if "*" in host:
        reasons = () if _WILDCARD.fullmatch(host) else (_WILDCARD_MESSAGE,)
    return [invalid(field, host, reason) for reason in reasons]


def _check_path(path: Manifest, field: str) -> list[FieldError]:
    kind, text = path.get("pathType"), path.get("path", "")
    if kind is None:
        return [required(f"{field}.pathType", "pathType must be specified")]
    errors: list[FieldError] = []
    if kind not in _PATH_TYPES:
        errors.append(not_supported(f"{field}.pathType", kind, _PATH_TYPES))
    elif not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        errors.append(invalid(f"{field}.path", text, _ABSOLUTE))
    if kind in ("Exact", "Prefix"):
        reasons = [f"must not contain '{one}'" for one in _SEQUENCES if one in text]
        reasons += [f"cannot end with '{one}'" for one in _SUFFIXES if text.endswith(one)]
        errors += [invalid(f"{field}.path", text, reason) for reason in reasons]
    return errors + _check_backend(path.get("backend") or {}, f"{field}.backend")


def _check_backend(backend: Manifest, field: str) -> list[FieldError]:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        return [invalid(field, "", "cannot set both resource and service backends")]
    if resource is not None:
        return _check_reference(resource, f"{field}.resource")
    if service is None:
        return [invalid(field, "", "resource or service backend is required")]
    name = service.get("name")
    errors = [] if name else [required(f"{field}.service.name")]
    errors += [invalid(f"{field}.service.name", name, reason) for reason in (dns_label(name) if name else ())]
    return errors + _check_port(service.get("port") or {}, field)


def _check_port(port: Manifest, field: str) -> list[FieldError]:
    name, number = port.get("name"), port.get("number")
    if name and number:
        return [invalid(field, "", "cannot set both port name & port number")]
    if name:
        return [invalid(f"{field}.service.port.name", name, reason) for reason in port_name(name)]
    if number:
        return port_number(f"{field}.service.port.number", number)
    return [required(field, "port name or number is required")]


def _check_reference(reference: Manifest, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if (group := reference.get("apiGroup")) is not None:
        errors += [invalid(f"{field}.apiGroup", group, reason) for reason in dns_subdomain(group)]
    for name in ("kind", "name"):
        value: Any = reference.get(name)
        errors += [] if value else [required(f"{field}.{name}")]
        errors += [invalid(f"{field}.{name}", value, reason) for reason in (path_segment(value) if value else ())]
    return errors


def _check_tls(tls: Manifest, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for position, host in enumerate(tls.get("hosts") or ()):
        errors += _check_host(host, f"{field}.hosts[{position}]")
    if secret := tls.get("secretName"):
        errors += [invalid(f"{field}.secretName", secret, reason) for reason in dns_subdomain(secret)]
    return errors


def _default_class(obj: Manifest, conform: Conform) -> None:
    """Fill in the scope of the parameters."""
    conform(obj)
    parameters = (obj.get("spec") or {}).get("parameters")
    if parameters is not None:
        parameters.setdefault("scope", "Cluster")


def _validate_class(obj: Manifest) -> list[FieldError]:
    """Return the field errors of an IngressClass."""
    spec = obj.get("spec") or {}
    controller, parameters = spec.get("controller"), spec.get("parameters")
    errors = [] if controller else [required("spec.controller")]
    if controller and len(controller.encode()) > _LONGEST_CONTROLLER:
        errors.append(too_long("spec.controller", _LONGEST_CONTROLLER))
    errors += [invalid("spec.controller", part, reason)
               for part, reason in (domain_prefixed_path(controller) if controller else ())]  # fmt: skip
    return errors if parameters is None else errors + _check_parameters(parameters, "spec.parameters")


def _validate_update_class(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return the field errors of an update."""
    after, before = ((one.get("spec") or {}).get("controller") for one in (new, old))
    changed = [] if after == before else [invalid("spec.controller", after, IMMUTABLE)]
    return changed + _validate_class(new)


def _check_parameters(parameters: Manifest, field: str) -> list[FieldError]:
    errors = _check_reference(parameters, field)
    scope, namespace = parameters["scope"], parameters.get("namespace")
    if scope not in _SCOPES:
        errors.append(not_supported(f"{field}.scope", scope, _SCOPES))
    elif scope == "Cluster":
        if namespace is not None:
            errors.append(forbidden(f"{field}.namespace", "`parameters.scope` is set to 'Cluster'"))
    elif namespace is None:
        errors.append(required(f"{field}.namespace", "`parameters.scope` is set to 'Namespace'"))
    else:
        errors += [invalid(f"{field}.namespace", namespace, reason) for reason in dns_label(namespace)]
    return errors


# Ingresses: hosts, paths and the services behind them.
INGRESSES = Rules(
    stored_as=("networking.k8s.io/v1", "Ingress"),
    status=lambda _: {"loadBalancer": {}},
    validate=_validate_ingress,
    validate_update=_validate_update_ingress,
    validate_status=_validate_status_ingress,
    warnings=_warn,
)
# IngressClasses, whose controller never changes.
INGRESS_CLASSES = Rules(
    stored_as=("networking.k8s.io/v1", "IngressClass"),
    default=_default_class,
    validate=_validate_class,
    validate_update=_validate_update_class,
)
