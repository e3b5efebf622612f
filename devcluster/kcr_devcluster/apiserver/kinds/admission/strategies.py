"""The strategies of the kinds of admissionregistration.k8s.io.

Source: kubernetes/pkg/registry/admissionregistration/*/strategy.go.
"""

from kcr_devcluster.apiserver.kinds.strategy import Strategy
from kcr_devcluster.apiserver.protocol.manifests import Manifest


class WebhookConfigurationStrategy(Strategy):
    """Mutating- and ValidatingWebhookConfigurations: a change of the webhooks is a new generation."""

    has_generation = True

    def is_new_generation(self, new: Manifest, old: Manifest) -> bool:
        """Return whether the webhooks differ."""
        return bool(new.get("webhooks") != old.get("webhooks"))


class BindingStrategy(Strategy):
    """Mutating- and ValidatingAdmissionPolicyBindings."""

    has_generation = True


class MutatingPolicyStrategy(Strategy):
    """MutatingAdmissionPolicies."""

    has_generation = True


class ValidatingPolicyStrategy(Strategy):
    """ValidatingAdmissionPolicies: a controller writes the results of type checking into their status."""

    has_generation = True
    status_keeps_metadata = True

    def prepare_create(self, obj: Manifest) -> None:
        """Drop the status: it is written through `/status` only."""
        obj.pop("status", None)
