"""The strategies of the kinds of admissionregistration.k8s.io.

Source: kubernetes/pkg/registry/admissionregistration/*/strategy.go;
pkg/apis/admissionregistration/validation/static_suffix.go.
"""

from kcr_devcluster.apiserver.kinds.strategy import Strategy
from kcr_devcluster.apiserver.protocol.manifests import Manifest

_STATIC_SUFFIX = ".static.k8s.io"


class AdmissionStrategy(Strategy):
    """All six kinds: the generation counts the changes of the rules, and names for files of the server are reserved."""

    has_generation = True

    def warnings(self, new: Manifest, old: Manifest | None) -> list[str]:
        """Return that a name will be reserved for the configuration that API servers read from files."""
        if not str(new["metadata"].get("name", "")).endswith(_STATIC_SUFFIX):
            return []
        words = (
            f'names ending with "{_STATIC_SUFFIX}" will be reserved for static manifest-based configurations when the'
        )
        return [f"metadata.name: {words} ManifestBasedAdmissionControlConfig feature gate is enabled"]


class WebhookConfigurationStrategy(AdmissionStrategy):
    """Mutating- and ValidatingWebhookConfigurations: a change of the webhooks is a new generation."""

    def is_new_generation(self, new: Manifest, old: Manifest) -> bool:
        """Return whether the webhooks differ."""
        return bool(new.get("webhooks") != old.get("webhooks"))


class BindingStrategy(AdmissionStrategy):
    """Mutating- and ValidatingAdmissionPolicyBindings."""


class MutatingPolicyStrategy(AdmissionStrategy):
    """MutatingAdmissionPolicies."""


class ValidatingPolicyStrategy(AdmissionStrategy):
    """ValidatingAdmissionPolicies: a controller writes the results of type checking into their status."""

    status_keeps_metadata = True

    def prepare_create(self, obj: Manifest) -> None:
        """Drop the status: it is written through `/status` only."""
        obj.pop("status", None)
