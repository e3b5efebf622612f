"""Validation of the environment of containers, and of references to fields of the pod.

Source: kubernetes/pkg/apis/core/validation/validation.go, ValidateEnv, ValidateEnvFrom and
validateObjectFieldSelector; pkg/apis/core/pods/helpers.go, ConvertDownwardAPIFieldLabel.
"""

import re
from collections.abc import Mapping, Sequence

from kcr_devcluster.apiserver.kinds.formats import config_key, path_without_backsteps
from kcr_devcluster.apiserver.protocol.field_errors import FieldError, invalid, not_found, not_supported, required
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import dns_label, dns_subdomain, qualified_name
from kcr_devcluster.apiserver.schema.quantities import amount, canonical

_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
ENV_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP",
    "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
# Fields of pods that have a label; which of them may be named depends on where.
_LABELLED = (*ENV_FIELDS, "metadata.annotations", "metadata.labels", "spec.restartPolicy", "spec.schedulerName",
             "status.phase", "spec.host")  # fmt: skip
_SUBSCRIPTED = ("metadata.annotations", "metadata.labels")
_RESOURCES = tuple(
    f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)
_HUGE_PAGES = ("limits.hugepages-", "requests.hugepages-")
_BYTES = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
# The name of a resource in messages, and its divisors.
_DIVISORS = {
    "cpu": ("cpu", ("1m", "1")), "memory": ("memory", _BYTES), "hugepages": ("hugepages", _BYTES),
    "ephemeral-storage": ("local ephemeral storage", _BYTES),
}  # fmt: skip
_SUBSCRIPT = re.compile(r"(.*)\['(.*)'\]")
_NAME_MESSAGE = "a valid environment variable name must consist only of printable ASCII characters other than '='"


def check_env(env: Sequence[Manifest], volumes: Mapping[str, Manifest], field: str) -> list[FieldError]:
    """Return the field errors of environment variables.

    Args:
        env: The variables.
        volumes: The pod's volumes by name.
        field: The path of the variables.
    """
    errors: list[FieldError] = []
    for position, variable in enumerate(env):
        name, source = variable.get("name", ""), variable.get("valueFrom")
        is_valid = _is_name(name)
        if is_valid and source is None:
            continue
        path = f"{field}[{position}]"
        if not is_valid:
            errors.append(invalid(f"{path}.name", name, _NAME_MESSAGE) if name else required(f"{path}.name"))
        if source is not None:
            errors += _check_source(variable, source, f"{path}.valueFrom")
            if (file := source.get("fileKeyRef")) is not None:
                errors += _check_file_key(file, volumes, f"{path}.valueFrom.fileKeyRef")
    return errors


def _is_name(name: str) -> bool:
    return name != "" and "=" not in name and name.isprintable() and name.isascii()


def _check_source(variable: Manifest, source: Manifest, field: str) -> list[FieldError]:
    given = [name for name in _SOURCES if source.get(name) is not None]
    errors: list[FieldError] = []
    for name in given:
        path, reference = f"{field}.{name}", source[name]
        if name == "fieldRef":
            errors += check_field_ref(reference, ENV_FIELDS, path)
        elif name == "resourceFieldRef":
            errors += check_resource_ref(reference, path)
        elif name != "fileKeyRef":
            errors += _check_key_ref(reference, path)
    if not given:
        words = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        errors.append(invalid(field, "", words))
    elif variable.get("value"):
        errors.append(invalid(field, "", "may not be specified when `value` is not empty"))
    elif len(given) > 1:
        errors.append(invalid(field, "", "may not have more than one field specified at a time"))
    return errors


def _check_file_key(reference: Manifest, volumes: Mapping[str, Manifest], field: str) -> list[FieldError]:
    """Source: validation.go, validateFileKeySelector."""
    key, path, name = (reference.get(member, "") for member in ("key", "path", "volumeName"))
    errors = [required(f"{field}.{member}") for member in ("key", "path", "volumeName") if not reference.get(member)]
    if key and not _is_name(key):
        errors.append(invalid(f"{field}.key", key, _NAME_MESSAGE))
    errors += [invalid(f"{field}.volumeName", name, reason) for reason in (dns_label(name) if name else ())]
    errors += path_without_backsteps(f"{field}.path", path)
    if name not in volumes:
        errors.append(not_found(f"{field}.volumeName", name))
    elif "emptyDir" not in volumes[name]:
        errors.append(invalid(f"{field}.volumeName", name, "referenced volume must be of type emptyDir"))
    return errors


def check_field_ref(reference: Manifest, fields: tuple[str, ...], field: str) -> list[FieldError]:
    """Return the field errors of a reference to a field of the pod.

    Args:
        reference: The reference.
        fields: The fields that may be named here, sorted.
        field: The path of the reference.
    """
    path = reference.get("fieldPath", "")
    for name in ("apiVersion", "fieldPath"):
        if not reference.get(name):
            return [required(f"{field}.{name}")]
    words = ""
    subscripted = _SUBSCRIPT.fullmatch(path)
    if reference["apiVersion"] != "v1":
        words = f"unsupported pod version: {reference['apiVersion']}"
    elif subscripted is None and path not in _LABELLED:
        words = f"field label not supported: {path}"
    elif subscripted is not None and subscripted[1] not in _SUBSCRIPTED:
        words = f"field label does not support subscript: {path}"
    if words:
        return [invalid(f"{field}.fieldPath", path, f"error converting fieldPath: {words}")]
    if subscripted is not None:
        key = subscripted[2].lower() if subscripted[1] == "metadata.annotations" else subscripted[2]
        return [invalid(field, key, reason) for reason in qualified_name(key)]
    path = "spec.nodeName" if path == "spec.host" else path
    return [] if path in fields else [not_supported(f"{field}.fieldPath", path, fields)]


def check_resource_ref(reference: Manifest, field: str, *, of_volume: bool = False) -> list[FieldError]:
    """Return the field errors of a reference to a resource of a container.

    Args:
        reference: The reference.
        field: Its path.
        of_volume: Whether it is in a volume, where it must name the container.
    """
    errors: list[FieldError] = []
    resource = reference.get("resource", "")
    if of_volume and not reference.get("containerName"):
        errors.append(required(f"{field}.containerName"))
    elif not resource:
        errors.append(required(f"{field}.resource"))
    elif resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        errors.append(not_supported(f"{field}.resource", resource, _RESOURCES))
    divisor = reference.get("divisor") or "0"
    if amount(divisor) == 0:
        return errors
    kind = resource.partition(".")[2]
    called, divisors = _DIVISORS.get(
        "hugepages" if kind.startswith("hugepages-") else kind, ("", (canonical(divisor),))
    )
    if canonical(divisor) not in divisors:
        values = "1m and 1" if called == "cpu" else ", ".join(divisors)
        words = f"only divisor's values {values} are supported with the {called} resource"
        errors.append(invalid(f"{field}.divisor", resource, words))
    return errors


def _check_key_ref(reference: Manifest, field: str) -> list[FieldError]:
    name, key = reference.get("name", ""), reference.get("key", "")
    errors = [invalid(f"{field}.name", name, reason) for reason in dns_subdomain(name)]
    if not key:
        return [*errors, required(f"{field}.key")]
    return errors + [invalid(f"{field}.key", key, reason) for reason in config_key(key)]


def check_env_from(sources: Sequence[Manifest], field: str) -> list[FieldError]:
    """Return the field errors of sources of many environment variables; their number is reported for the list."""
    errors: list[FieldError] = []
    for position, source in enumerate(sources):
        path = f"{field}[{position}]"
        if (prefix := source.get("prefix")) and not _is_name(prefix):
            errors.append(invalid(f"{path}.prefix", prefix, _NAME_MESSAGE))
        given = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        for name in given:
            named = source[name].get("name", "")
            errors += ([invalid(f"{path}.{name}.name", named, reason) for reason in dns_subdomain(named)]
                       if named else [required(f"{path}.{name}.name")])  # fmt: skip
        if not given:
            errors.append(invalid(field, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(given) > 1:
            errors.append(invalid(field, "", "may not have more than one field specified at a time"))
    return errors
