"""The strategies of ConfigMaps and Secrets.

Source: kubernetes/pkg/apis/core/validation/validation.go, ValidateConfigMap and ValidateSecret.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping

from kcr_devcluster.apiserver.kinds.formats import config_key
from kcr_devcluster.apiserver.kinds.strategy import Strategy
from kcr_devcluster.apiserver.protocol.field_errors import IMMUTABLE, FieldError, forbidden, invalid, required, too_long
from kcr_devcluster.apiserver.protocol.gojson import decode_json, kind_of
from kcr_devcluster.apiserver.protocol.manifests import Manifest

_LIMIT = 1024 * 1024


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


def _needs(*keys: str) -> "_Rule":
    return lambda _, data: [required(f"data[{key}]") for key in keys if key not in data]


def _check_token(obj: Manifest, _: Manifest) -> list[FieldError]:
    name = "kubernetes.io/service-account.name"
    given = (obj["metadata"].get("annotations") or {}).get(name)
    return [] if given else [required(f"metadata.annotations[{name}]")]


def _check_json(key: str) -> "_Rule":
    def check(_: Manifest, data: Manifest) -> list[FieldError]:
        if key not in data:
            return [required(f"data[{key}]")]
        why = ""
        try:
            found = decode_json(b64decode(data[key]))
            if not isinstance(found, dict | None):
                why = f"json: cannot unmarshal {kind_of(found)} into Go value of type map[string]interface {{}}"
        except ValueError as error:
            why = str(error)
        return [invalid(f"data[{key}]", "<secret contents redacted>", why)] if why else []

    return check


def _check_login(_: Manifest, data: Manifest) -> list[FieldError]:
    return [] if data.keys() & {"username", "password"} else [required("data[username]"), required("data[password]")]


def _check_ssh(_: Manifest, data: Manifest) -> list[FieldError]:
    return [] if data.get("ssh-privatekey") else [required("data[ssh-privatekey]")]


_Rule = Callable[[Manifest, Manifest], list[FieldError]]
# The rules for Secrets by their type, each called with (object, data).
_TYPES: Mapping[str, _Rule] = {
    "kubernetes.io/service-account-token": _check_token,
    "kubernetes.io/dockercfg": _check_json(".dockercfg"),
    "kubernetes.io/dockerconfigjson": _check_json(".dockerconfigjson"),
    "kubernetes.io/basic-auth": _check_login,
    "kubernetes.io/ssh-auth": _check_ssh,
    "kubernetes.io/tls": _needs("tls.crt", "tls.key"),
}


class SecretStrategy(Strategy):
    """Secrets store base64; `stringData` is write-only and merged into `data`."""

    stored_as = ("v1", "Secret")

    def default(self, obj: Manifest) -> None:
        """Merge `stringData` into `data`."""
        super().default(obj)
        data: Manifest = obj.get("data") or {}
        for key, value in (obj.pop("stringData", None) or {}).items():
            data[key] = b64encode(value.encode()).decode()
        if data:
            obj["data"] = data

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a Secret."""
        data = obj.get("data") or {}
        errors = _check_keys("data", data)
        if sum(len(value) * 3 // 4 for value in data.values()) > _LIMIT:
            errors.append(too_long("data", _LIMIT))
        rule = _TYPES.get(obj["type"])
        return errors + rule(obj, data) if rule else errors

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update; the type is immutable, and an immutable Secret altogether."""
        errors = [] if new["type"] == old["type"] else [invalid("type", new["type"], IMMUTABLE)]
        return errors + _check_immutable(new, old, ("data",)) + self.validate(new)

    def warnings(self, new: Manifest, old: Manifest | None) -> list[str]:
        """Return, of a Secret for TLS, in which part there is nothing in PEM."""
        if new["type"] != "kubernetes.io/tls":
            return []
        data = new.get("data") or {}
        for key, part in (("tls.crt", "certificate"), ("tls.key", "key")):
            if b"-----BEGIN " not in b64decode(data.get(key, "")):
                return [f"tls: failed to find any PEM data in {part} input"]
        return []


def _check_keys(field: str, data: Manifest) -> list[FieldError]:
    return [invalid(f"{field}[{key}]", key, reason) for key in sorted(data) for reason in config_key(key)]


def _check_immutable(new: Manifest, old: Manifest, parts: tuple[str, ...]) -> list[FieldError]:
    if not old.get("immutable"):
        return []
    words = "field is immutable when `immutable` is set"
    errors = [] if new.get("immutable") else [forbidden("immutable", words)]
    return errors + [forbidden(part, words) for part in parts if (new.get(part) or {}) != (old.get(part) or {})]
