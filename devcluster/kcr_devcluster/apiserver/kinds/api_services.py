"""APIServices: which server answers for a group and version.

Here that is always this server: an APIService that names another one is stored, and says that it is not available.

Source: kube-aggregator/pkg/apis/apiregistration/validation/validation.go; pkg/apis/apiregistration/v1/defaults.go;
pkg/registry/apiservice/strategy.go; pkg/controllers/status/{local,remote}.
"""

from kcr_devcluster.apiserver.kinds.generic import without_effect
from kcr_devcluster.apiserver.kinds.strategy import Strategy
from kcr_devcluster.apiserver.protocol.field_errors import FieldError, invalid, required
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import dns_1035_label, dns_subdomain

_HIGHEST_GROUP_PRIORITY, _HIGHEST_VERSION_PRIORITY = 20_000, 1_000
_HTTPS_PORT, _LAST_PORT = 443, 65_535
_LOCAL = {
    "type": "Available", "status": "True", "reason": "Local", "message": "Local APIServices are always available",
}  # fmt: skip
# Upstream's reason of a server that cannot be reached.
_REMOTE = {
    "type": "Available", "status": "False", "reason": "FailedDiscoveryCheck",
    "message": "this server does not forward requests to other servers",
}  # fmt: skip


class APIServiceStrategy(Strategy):
    """APIServices, whose names are their version and group."""

    stored_as = ("apiregistration.k8s.io/v1", "APIService")
    # No manager owns the other metadata either, see `resets`.
    status_resets = ("spec", "metadata.labels")

    def default(self, obj: Manifest) -> None:
        """Fill in the port of the service."""
        super().default(obj)
        service = obj.setdefault("spec", {}).get("service")
        if service is not None:
            service.setdefault("port", _HTTPS_PORT)

    def prepare_create(self, obj: Manifest) -> None:
        """Set whether it is available: it is when it is served here."""
        made = _REMOTE if obj["spec"].get("service") is not None else _LOCAL
        obj["status"] = {"conditions": [{**made, "lastTransitionTime": obj["metadata"].get("creationTimestamp")}]}

    def resets(self, subresource: str) -> tuple[str, ...]:
        """Return the fields that no manager owns by an apply: of metadata, more than are left as they are."""
        return ("spec", "metadata") if subresource else super().resets(subresource)

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of an APIService."""
        spec, name = obj["spec"], obj["metadata"].get("name", "")
        group, version = spec.get("group", ""), spec.get("version", "")
        errors: list[FieldError] = []
        if name != f"{version}.{group}":
            words = f'must be `spec.version+"."+spec.group`: "{version}.{group}"'
            errors.append(invalid("metadata.name", name, words))
        if not group and version != "v1":
            words = "only v1 may have an empty group and it better be legacy kube"
            errors.append(required("spec.group", words))
        errors += [invalid("spec.group", group, reason) for reason in (dns_subdomain(group) if group else ())]
        errors += [invalid("spec.version", version, reason) for reason in dns_1035_label(version)]
        errors += _check_priority(spec, "groupPriorityMinimum", _HIGHEST_GROUP_PRIORITY)
        errors += _check_priority(spec, "versionPriority", _HIGHEST_VERSION_PRIORITY)
        return errors + (_check_local(spec) if spec.get("service") is None else _check_remote(spec))

    def warnings(self, new: Manifest, old: Manifest | None) -> list[str]:
        """Return, for a new one that names another server, that it has no effect here."""
        is_remote = new["spec"].get("service") is not None
        return [without_effect("apiservices.apiregistration.k8s.io")] if is_remote and old is None else []


def _check_priority(spec: Manifest, name: str, highest: int) -> list[FieldError]:
    priority = spec.get(name, 0)
    if 0 < priority <= highest:
        return []
    return [invalid(f"spec.{name}", priority, f"must be positive and less than {highest}")]


def _check_local(spec: Manifest) -> list[FieldError]:
    errors: list[FieldError] = []
    if spec.get("insecureSkipTLSVerify"):
        words = "local APIServices may not have insecureSkipTLSVerify"
        errors.append(invalid("spec.insecureSkipTLSVerify", True, words))
    return errors


def _check_remote(spec: Manifest) -> list[FieldError]:
    service = spec["service"]
    errors = [required(f"spec.service.{name}") for name in ("namespace", "name") if not service.get(name)]
    if not 0 < service["port"] <= _LAST_PORT:
        words = "port is not valid: must be between 1 and 65535, inclusive"
        errors.append(invalid("spec.service.port", service["port"], words))
    if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
        errors.append(invalid("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present"))
    return errors
