"""The strategies of the core kinds but pods, and of Leases.

Source: kubernetes/pkg/registry/core/*/strategy.go; pkg/apis/core/v1/defaults.go; pkg/apis/core/validation/{validation,
events}.go; pkg/apis/coordination/validation/validation.go.
"""

import binascii
import re
from base64 import b64decode, b64encode
from functools import lru_cache

from kcr.apiserver.kinds.field_errors import (
    IMMUTABLE,
    NON_NEGATIVE,
    FieldError,
    forbidden,
    invalid,
    non_negative,
    required,
    too_long,
)
from kcr.apiserver.kinds.names import qualified_name
from kcr.apiserver.kinds.strategy import Manifest, Strategy, UndecodableError
from kcr.apiserver.schema.quantities import amount, whole

_NAME_LABEL = "kubernetes.io/metadata.name"


class NamespaceStrategy(Strategy):
    """Namespaces carry their name as a label, and a finalizer of their own in the spec."""

    stored_as = ("v1", "Namespace")

    def default(self, obj: Manifest) -> None:
        """Add the label that selectors of namespaces use."""
        super().default(obj)
        metadata = obj.setdefault("metadata", {})
        if metadata.get("name"):
            metadata["labels"] = {**(metadata.get("labels") or {}), _NAME_LABEL: metadata["name"]}

    def prepare_create(self, obj: Manifest) -> None:
        """Set the finalizer that holds the namespace until it is empty, and the phase."""
        spec: Manifest = obj.get("spec") or {}
        finalizers: list[str] = spec.get("finalizers") or []
        if "kubernetes" not in finalizers:
            finalizers = [*finalizers, "kubernetes"]
        obj["spec"] = {**spec, "finalizers": finalizers}
        obj["status"] = {"phase": "Active"}

    def prepare_update(self, new: Manifest, old: Manifest) -> None:
        """Keep the status and the finalizers of the spec, which only `/finalize` changes."""
        super().prepare_update(new, old)
        spec: Manifest = {name: value for name, value in (new.get("spec") or {}).items() if name != "finalizers"}
        kept = (old.get("spec") or {}).get("finalizers")
        new["spec"] = {**spec, "finalizers": kept} if kept else spec


class NodeStrategy(Strategy):
    """Nodes register with their status; allocatable resources are the capacity unless the node says less."""

    stored_as = ("v1", "Node")

    def default(self, obj: Manifest) -> None:
        """Set `allocatable`, which is `capacity` when it is not there."""
        super().default(obj)
        status = obj["status"]
        if status.get("capacity") and not status.get("allocatable"):
            status["allocatable"] = dict(status["capacity"])


_LIMIT = 1024 * 1024
_KEY = re.compile(r"[-._a-zA-Z0-9]+")


class ConfigMapStrategy(Strategy):
    """ConfigMaps hold at most 1 MiB, and may be immutable."""

    stored_as = ("v1", "ConfigMap")

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a ConfigMap."""
        data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
        errors = _check_keys("data", data)
        for key in sorted(data.keys() & binary.keys()):
            errors.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
        errors += _check_keys("binaryData", binary)
        size = sum(len(value.encode()) for value in data.values()) + sum(
            len(value) * 3 // 4 for value in binary.values()
        )
        return [*errors, too_long("[]", _LIMIT)] if size > _LIMIT else errors

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update; an immutable ConfigMap does not change."""
        return _check_immutable(new, old, ("data", "binaryData")) + self.validate(new)


class SecretStrategy(Strategy):
    """Secrets store base64; `stringData` is write-only and merged into `data`."""

    stored_as = ("v1", "Secret")

    def default(self, obj: Manifest) -> None:
        """Merge `stringData` into `data`, and refuse values that are no base64."""
        super().default(obj)
        data: Manifest = obj.get("data") or {}
        for key, value in (obj.pop("stringData", None) or {}).items():
            data[key] = b64encode(value.encode()).decode()
        for value in data.values():
            try:
                b64decode(value, validate=True)
            except binascii.Error:
                raise UndecodableError("Secret", "v1", "illegal base64 data at input byte 0") from None
        if data:
            obj["data"] = data

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a Secret."""
        data = obj.get("data") or {}
        errors = _check_keys("data", data)
        size = sum(len(value) * 3 // 4 for value in data.values())
        return [*errors, too_long("data", _LIMIT)] if size > _LIMIT else errors

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update; the type is immutable, and an immutable Secret altogether."""
        errors = [] if new["type"] == old["type"] else [invalid("type", new["type"], IMMUTABLE)]
        return errors + _check_immutable(new, old, ("data",)) + self.validate(new)


def _check_keys(field: str, data: Manifest) -> list[FieldError]:
    return [invalid(f"{field}[{key}]", key, reason) for key in sorted(data) for reason in _key(key)]


@lru_cache(1024)
def _key(text: str) -> tuple[str, ...]:
    reasons = ["must be no more than 253 characters"] if len(text) > 253 else []
    if not _KEY.fullmatch(text):
        reasons.append(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
            f"'KEY_NAME',  or 'key-name', regex used for validation is '{_KEY.pattern}')"
        )
    if text in (".", "..") or text.startswith(".."):
        reasons.append(f"must not be '{text}'" if text in (".", "..") else "must not start with '..'")
    return tuple(reasons)


def _check_immutable(new: Manifest, old: Manifest, parts: tuple[str, ...]) -> list[FieldError]:
    if not old.get("immutable"):
        return []
    words = "field is immutable when `immutable` is set"
    errors = [] if new.get("immutable") else [forbidden("immutable", words)]
    return errors + [forbidden(part, words) for part in parts if (new.get(part) or {}) != (old.get(part) or {})]


_OBJECTS = (
    "configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets", "services",
    "services.loadbalancers", "services.nodeports",
)  # fmt: skip
_RESOURCES = tuple(
    f"{kind}{name}" for kind in ("", "requests.", "limits.") for name in ("cpu", "memory", "ephemeral-storage")
)
_STANDARD = frozenset((*_OBJECTS, *_RESOURCES, "requests.storage"))
_HUGE_PAGES = ("hugepages-", "requests.hugepages-")
_NOT_STANDARD = "must be a standard resource for quotas"


class ResourceQuotaStrategy(Strategy):
    """Resource quotas; their status is what the namespace uses."""

    stored_as = ("v1", "ResourceQuota")

    def prepare_create(self, obj: Manifest) -> None:
        """Empty the status."""
        obj["status"] = {}

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a quota."""
        return _check("spec.hard", obj["spec"].get("hard") or {})

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update; the scopes are immutable."""
        scopes = [spec.get("scopes") or [] for spec in (new["spec"], old["spec"])]
        changed = [] if sorted(scopes[0]) == sorted(scopes[1]) else [invalid("spec.scopes", scopes[0], IMMUTABLE)]
        return self.validate(new) + changed

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update of the status."""
        status = new["status"]
        return _check("status.hard", status.get("hard") or {}) + _check("status.used", status.get("used") or {})


def _check(field: str, amounts: Manifest) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, value in sorted(amounts.items()):
        path = f"{field}[{name}]"
        reasons = qualified_name(name)
        if not reasons and "/" not in name and name not in _STANDARD and not name.startswith(_HUGE_PAGES):
            reasons = (_NOT_STANDARD,)
        errors += [invalid(path, name, reason) for reason in reasons]
        if amount(value) < 0:
            errors.append(invalid(path, value, NON_NEGATIVE))
        if not whole(value) and (name in _OBJECTS or name.startswith("count/")):
            errors.append(invalid(path, value, "must be an integer"))
    return errors


class LimitRangeStrategy(Strategy):
    """Limit ranges are stored and not enforced, which a warning says."""

    def warnings(self, new: Manifest, old: Manifest | None) -> list[str]:
        """Return, on create, that limit ranges have no effect here."""
        return [] if old is not None else ["limit ranges are stored and not applied by this server"]


_LONGEST_MESSAGE, _LONGEST_NAME = 1024, 128
_SYSTEM_NAMESPACES = ("default", "kube-system")


class EventStrategy(Strategy):
    """Events are in the namespace of the object that they are about; for cluster-scoped objects that is `default`."""

    stored_as = ("v1", "Event")

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of an Event; those with an `eventTime` must name the reporter."""
        about, here = (obj.get("involvedObject") or {}).get("namespace", ""), obj["metadata"].get("namespace", "")
        modern = obj.get("eventTime") is not None
        at_home = here in ("", *_SYSTEM_NAMESPACES[: 2 if modern else 1])
        errors: list[FieldError] = []
        if not (at_home if not about else modern or about == here):
            errors.append(invalid("involvedObject.namespace", about, "does not match event.namespace"))
        return errors + _check_modern(obj) if modern else errors


def _check_modern(obj: Manifest) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in ("reportingComponent", "reportingInstance", "action", "reason"):
        value = obj.get(name) or ""
        if not value:
            errors.append(required(name))
        if name == "reportingComponent":
            errors += [invalid(name, value, reason) for reason in qualified_name(value)]
        elif len(value) > _LONGEST_NAME:
            errors.append(invalid(name, "", f"can have at most {_LONGEST_NAME} characters"))
    if len(obj.get("message") or "") > _LONGEST_MESSAGE:
        errors.append(invalid("message", "", f"can have at most {_LONGEST_MESSAGE} characters"))
    return errors


class LeaseStrategy(Strategy):
    """Leases of leader election and of nodes."""

    stored_as = ("coordination.k8s.io/v1", "Lease")

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a Lease."""
        spec = obj["spec"]
        duration = spec.get("leaseDurationSeconds")
        errors: list[FieldError] = []
        if duration is not None and duration <= 0:
            errors.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
        return errors + non_negative("spec.leaseTransitions", spec.get("leaseTransitions"))
