"""The webhooks of Websites: a defaulter, a validator and the conversion; `setup` adds them to the controller.

Run controller and webhooks on the cluster of your kubeconfig: `python -m examples.website.webhook`
"""

from msgspec.structs import replace

import kcr
from examples.website import controller
from examples.website.api import Website
from examples.website.v1beta1 import WebsiteV1Beta1


class WebsiteWebhook:
    """Completes and checks websites before they are stored."""

    def __init__(self, manager: kcr.Manager) -> None:
        self._websites = manager.store(Website)

    def default(self, obj: Website, request: kcr.WebhookRequest) -> Website | None:
        """Give an image without a tag the tag of the default: `latest` would change under running pods."""
        if ":" in obj.spec.image.rpartition("/")[2]:
            return None
        return replace(obj, spec=replace(obj.spec, image=f"{obj.spec.image}:3"))

    def validate_create(self, obj: Website, request: kcr.WebhookRequest) -> list[str]:
        """Refuse a title that is taken: a rule in the schema sees one object only.

        The cache may lag behind, so two websites that are created at once may both get a title.
        """
        for other in self._websites.list(obj.metadata.namespace):
            if other.spec.title == obj.spec.title and other.key != obj.key:
                raise kcr.Denied(f"{other.metadata.name} has this title: choose another one", field="spec.title")
        return [] if obj.spec.replicas else ["spec.replicas is 0: no pod serves the page"]

    def validate_update(self, old: Website, new: Website, request: kcr.WebhookRequest) -> list[str]:
        """Check a changed website like a new one; one that is being deleted may always change."""
        return [] if new.metadata.deletion_timestamp else self.validate_create(new, request)


def setup(manager: kcr.Manager) -> None:
    """Attach the controller and the webhooks to a manager."""
    controller.setup(manager)
    manager.add_webhook(Website, WebsiteWebhook(manager), timeout_seconds=5)
    manager.add_conversion(WebsiteV1Beta1)


if __name__ == "__main__":
    kcr.run(setup)
