"""The behaviour of ConfigMaps and Secrets.

Source: kubernetes/pkg/registry/core/{configmap,secret}/strategy.go; pkg/apis/core/validation/validation.go.
"""

import binascii
import re
from base64 import b64decode, b64encode
from functools import lru_cache

from kcr.apiserver.kinds.core.shape import UndecodableError, receive
from kcr.apiserver.kinds.field_errors import IMMUTABLE, forbidden, invalid, too_long
from kcr.apiserver.kinds.strategy import FieldError, Manifest, Strategy
from kcr.apiserver.schema.builtin import kind_shape

_LIMIT = 1024 * 1024
_KEY = re.compile(r"[-._a-zA-Z0-9]+")


class ConfigMapStrategy(Strategy):
    """ConfigMaps hold at most 1 MiB, and may be sealed."""

    def default(self, obj: Manifest) -> None:
        """Bring a ConfigMap into shape.

        Raises:
            UndecodableError: It is no ConfigMap.
        """
        receive(kind_shape("v1", "ConfigMap"), obj)

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the faults of a ConfigMap."""
        data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
        faults = _check_keys("data", data)
        for key in sorted(data.keys() & binary.keys()):
            faults.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
        faults += _check_keys("binaryData", binary)
        size = sum(len(value.encode()) for value in data.values()) + sum(
            len(value) * 3 // 4 for value in binary.values()
        )
        return [*faults, too_long("[]", _LIMIT)] if size > _LIMIT else faults

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the faults of a change; none of a sealed one is allowed."""
        return _check_sealed(new, old, ("data", "binaryData")) + self.validate(new)


class SecretStrategy(Strategy):
    """Secrets store base64; `stringData` is folded into `data` and never shown again."""

    def default(self, obj: Manifest) -> None:
        """Fill in the type and fold `stringData`.

        Raises:
            UndecodableError: It is no Secret, or a value of `data` is no base64.
        """
        receive(kind_shape("v1", "Secret"), obj)
        obj["type"] = obj.get("type") or "Opaque"
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
        """Return the faults of a Secret."""
        data = obj.get("data") or {}
        faults = _check_keys("data", data)
        size = sum(len(value) * 3 // 4 for value in data.values())
        return [*faults, too_long("data", _LIMIT)] if size > _LIMIT else faults

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the faults of a change; the type stays, and a sealed Secret altogether."""
        faults = [] if new["type"] == old["type"] else [invalid("type", new["type"], IMMUTABLE)]
        return faults + _check_sealed(new, old, ("data",)) + self.validate(new)


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


def _check_sealed(new: Manifest, old: Manifest, parts: tuple[str, ...]) -> list[FieldError]:
    if not old.get("immutable"):
        return []
    words = "field is immutable when `immutable` is set"
    faults = [] if new.get("immutable") else [forbidden("immutable", words)]
    return faults + [forbidden(part, words) for part in parts if (new.get(part) or {}) != (old.get(part) or {})]
