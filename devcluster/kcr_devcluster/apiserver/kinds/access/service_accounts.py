"""The strategy of ServiceAccounts."""

from kcr_devcluster.apiserver.kinds.strategy import Strategy
from kcr_devcluster.apiserver.protocol.manifests import Manifest

_DEPRECATED = "kubernetes.io/enforce-mountable-secrets"


class ServiceAccountStrategy(Strategy):
    """ServiceAccounts, which know Secrets by name alone.

    Source: kubernetes/pkg/registry/core/serviceaccount/strategy.go.
    """

    stored_as = ("v1", "ServiceAccount")

    def prepare_create(self, obj: Manifest) -> None:
        """Keep the names of Secrets, and drop the rest of the references."""
        if secrets := obj.get("secrets"):
            obj["secrets"] = [{"name": one["name"]} if "name" in one else {} for one in secrets]

    def prepare_update(self, new: Manifest, old: Manifest) -> None:
        """Keep the names of Secrets, and drop the rest of the references."""
        self.prepare_create(new)

    def warnings(self, new: Manifest, old: Manifest | None) -> list[str]:
        """Return the warning about a deprecated annotation, once it is set."""
        if not _has_deprecated(new) or (old is not None and _has_deprecated(old)):
            return []
        return [
            f"metadata.annotations[{_DEPRECATED}]: deprecated in v1.32+; "
            "prefer separate namespaces to isolate access to mounted secrets"
        ]


def _has_deprecated(obj: Manifest) -> bool:
    return _DEPRECATED in (obj["metadata"].get("annotations") or {})
