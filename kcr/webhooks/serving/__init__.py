"""Serving of webhooks: the HTTPS port, and its certificates.

`server` is the port, on a thread and an event loop of its own. Its certificate comes from files, or kcr makes it:
`authority` keeps it in a Secret and its authority in the configurations, as `rotation` decides, with certificates that
`pem` makes and reads. `options` chooses between the two, and `attach` adds
all of them to a manager.
"""

from kcr.webhooks.serving.attach import attach
from kcr.webhooks.serving.authority import CertificateAuthority, ServingSecret, certificate_rights
from kcr.webhooks.serving.options import WebhookServing
from kcr.webhooks.serving.server import WebhookServer

__all__ = ["CertificateAuthority", "ServingSecret", "WebhookServer", "WebhookServing", "attach", "certificate_rights"]
