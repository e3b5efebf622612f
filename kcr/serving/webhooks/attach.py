"""Adds the serving of webhooks to a manager: the server, its certificate, and the health check."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from kcr.api.meta import Resource
from kcr.client import Client
from kcr.clock import Clock
from kcr.informer import Informer, InformerHandle, Selection
from kcr.metrics import Metrics
from kcr.runnables import Runnable
from kcr.serving.health import Health
from kcr.serving.webhooks.authority import CertificateAuthority, ServingSecret
from kcr.serving.webhooks.conversion import PATH as CONVERT
from kcr.serving.webhooks.options import CertificateLoader, WebhookServing
from kcr.serving.webhooks.server import WebhookServer
from kcr.serving.webhooks.webhooks import Webhooks

R = TypeVar("R", bound=Resource)


class WebhookHost(Protocol):
    """The part of a manager that serving needs."""

    client: Client
    clock: Clock
    health: Health
    metrics: Metrics
    webhooks: Webhooks

    def select(self, *selections: Selection[Any]) -> None:
        """Select the objects of a kind."""
        ...

    def informer(self, kind: type[R]) -> Informer[R]:
        """Return the informer of a kind."""
        ...

    def open_informer(self, kind: type[R]) -> InformerHandle[R]:
        """Open a handle of it for a while."""
        ...

    def add(self, component: Runnable, *, needs_leader_election: bool = True) -> None:
        """Run a component once the stores are synced."""
        ...


def attach(
    host: WebhookHost, serving: WebhookServing, run_early: Callable[[Callable[[], Awaitable[None]], str], None]
) -> WebhookServer:
    """Return the server of a manager's webhooks; the authority of its certificate is added to the manager.

    Objects that are stored in another version are listed by way of the conversion. So with conversions a pod is ready
    to serve them, and makes its certificate, before the caches are synced and a leader is elected.

    Args:
        host: The manager.
        serving: How to serve.
        run_early: Runs a component of this name beside the informers, before the caches are synced.

    Raises:
        ConfigError: There is no certificate.
    """
    certificate, converts = serving.certificate(), CONVERT in host.webhooks.paths
    server = WebhookServer(
        host.webhooks.handle, serving.address, certificate, shutdown_delay=serving.shutdown_delay,
        on_synced=lambda: host.health.limit_ready(""),
    )  # fmt: skip
    host.health.add_ready("webhooks", server.check, remark=server.certificate_error)
    host.metrics.certificate(certificate)
    if converts:
        host.health.limit_ready("webhooks")
    if serving.service is None or not serving.makes_certificate:
        return server
    # With conversions it runs on all replicas. Its preconditions make it safe.
    client = host.client.with_options(fence=lambda: None) if converts else host.client
    authority = CertificateAuthority(client, serving.service, host.clock, host.open_informer, converts=converts)
    host.select(Selection(ServingSecret, authority.key.namespace, fields=f"metadata.name={authority.key.name}"))
    host.informer(ServingSecret).add_handler(CertificateLoader(certificate))
    if converts:
        run_early(authority.run, authority.name)
    else:
        host.add(authority)
    return server
