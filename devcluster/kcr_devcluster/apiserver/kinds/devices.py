"""The strategies of ResourceClaims and their templates, on which nothing here acts.

Source: kubernetes/pkg/apis/resource/v1/defaults.go; pkg/registry/resource/resourceclaim/strategy.go.
"""

from collections.abc import Iterator

from kcr_devcluster.apiserver.kinds.generic import Conform, Rules
from kcr_devcluster.apiserver.protocol.manifests import Manifest

_EXACT_COUNT = "ExactCount"


def _requests(spec: Manifest) -> Iterator[Manifest]:
    """Yield what a claim asks for, alternatives included."""
    for request in (spec.get("devices") or {}).get("requests") or ():
        if request.get("exactly"):
            yield request["exactly"]
        yield from request.get("firstAvailable") or ()


def _count(spec: Manifest) -> None:
    """Set how devices are allocated, and how many: one."""
    for request in _requests(spec):
        request.setdefault("allocationMode", _EXACT_COUNT)
        if request["allocationMode"] == _EXACT_COUNT:
            request["count"] = request.get("count") or 1


def _default_claim(obj: Manifest, conform: Conform) -> None:
    conform(obj)
    _count(obj.get("spec") or {})


def _default_template(obj: Manifest, conform: Conform) -> None:
    conform(obj)
    spec = obj.setdefault("spec", {})
    spec.setdefault("metadata", {})
    _count(spec.get("spec") or {})


CLAIMS = Rules(default=_default_claim, status=lambda obj: {})
CLAIM_TEMPLATES = Rules(default=_default_template)
