"""Data of Secrets and ConfigMaps as hashes.

Equal values of one snapshot have equal hashes, so a controller that copies or compares them finds what it would find.
The key of the hashes is drawn for each snapshot and kept nowhere: a short password cannot be found by trying.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Collection, Mapping
from typing import Any

# kubectl keeps the whole manifest there, with the data in the clear.
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_KINDS = {"ConfigMap": "configmaps", "Secret": "secrets"}
# Their values are base64.
_BINARY = {"ConfigMap": ("binaryData",), "Secret": ("data",)}


class DataHider:
    """Replaces values by hashes.

    Attributes:
        shown: The kinds whose data is left as it is: `configmaps`, `secrets`.
    """

    def __init__(self, shown: Collection[str]) -> None:
        self.shown: frozenset[str] = frozenset(shown)
        self._key = secrets.token_bytes(32)

    def hidden(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Return an object without data that is not to be shown; others as they are."""
        kind = str(manifest.get("kind"))
        if manifest.get("apiVersion") != "v1" or kind not in _KINDS or _KINDS[kind] in self.shown:
            return manifest
        changed = dict(manifest)
        for field in ("data", "binaryData"):
            if isinstance(values := manifest.get(field), Mapping):
                is_binary = field in _BINARY[kind]
                changed[field] = {name: self._hash(str(value), is_binary=is_binary) for name, value in values.items()}
        annotations = manifest["metadata"].get("annotations") or {}
        if _LAST_APPLIED in annotations:
            hashed = self._hash(annotations[_LAST_APPLIED], is_binary=False)
            changed["metadata"] = {**manifest["metadata"], "annotations": {**annotations, _LAST_APPLIED: hashed}}
        return changed

    def _hash(self, value: str, *, is_binary: bool) -> str:
        text = f"hash:{hmac.new(self._key, value.encode(), hashlib.sha256).hexdigest()[:32]}"
        return base64.b64encode(text.encode()).decode() if is_binary else text
