"""The first contact with an API server: availability and rights; and webhooks."""

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Literal

from kcr.api.bindaddress import BindAddress
from kcr.api.coordination import Lease
from kcr.api.meta import Key
from kcr.app.checks import lease_need, missing_rights
from kcr.app.options import ProgramOptions
from kcr.app.process import GracePeriod
from kcr.app.rbac import Need, Permissions
from kcr.client import Client
from kcr.client.cluster_config import ClusterConfig
from kcr.controller import Right, rights
from kcr.errors import (
    BadRequestError,
    ConfigError,
    ForbiddenError,
    KcrError,
    NotFoundError,
)
from kcr.events import EventsApi
from kcr.informer import Selection
from kcr.log import get_logger
from kcr.manager import Manager
from kcr.serving.webhooks import Webhooks
from kcr.serving.webhooks.authority import certificate_rights
from kcr.serving.webhooks.conversion import PATH, WebhookService
from kcr.serving.webhooks.server import DRAIN_SECONDS, WebhookServing

# Without these a replica takes no shard, and would wait endlessly; without `delete` its sign of life merely stays.
_SHARD_NEEDS = rights(Lease, "list", "watch", "create", "update")


async def check_access(client: Client, selections: Iterable[Selection[Any]], permissions: Permissions) -> None:
    """Check that all selections can be listed and watched: a missing permission shows at once, not later.

    A kind that the server does not have is no failure: its controllers begin once it is installed. Only the
    controllers know their writes: the client logs the first refusal of each right. Where the server does not report
    whether a kind can be watched, the watches themselves fail, and name the cause.

    Raises:
        ApiError: The server refuses.
        ConfigError: It refuses a selector; the message has the kind.
    """
    async with asyncio.TaskGroup() as group:
        asked = [(selection, group.create_task(_list(client, selection))) for selection in selections]
    served = []
    for selection, task in asked:
        match task.result():
            case None:
                served.append(selection)
            case NotFoundError():
                pass
            case BadRequestError() as error if selection.labels or selection.fields:
                said = f"the API server refuses the selection {selection}: {error.message}"
                raise ConfigError(
                    f"{said}: correct its labels and fields, as kcr.Selection or a watch has them"
                ) from error
            case error:
                raise error
    watching = [
        (Need.of(Right(kind.group, kind.plural, "watch", kind.namespaced), selection.namespace), kind)
        for selection in served
        for kind in (selection.kind.resource,)
    ]
    answers = await permissions.ask(need for need, _ in watching)
    for need, resource in watching:
        if answers[need] is False:
            where = f'in the namespace "{need.namespace}"' if need.namespace else "at the cluster scope"
            words = f'cannot watch resource "{resource.plural}" in API group "{resource.group}" {where}'
            raise ForbiddenError(403, "Forbidden", f"{resource.display} is forbidden: {words}")


async def choose_events_api(client: Client, asked: Literal["core", "events.k8s.io", "auto"]) -> EventsApi:
    """Return the API group of the events: with `auto`, events.k8s.io where the server has it."""
    if asked != "auto":
        return asked
    try:
        await client.request("GET", "/apis/events.k8s.io/v1")
    except NotFoundError:
        return "core"
    return "events.k8s.io"


def fixed_selections(manager: Manager) -> tuple[Selection[Any], ...]:
    """Return the selections that are the same in all namespaces; each namespace that may change is reported later."""
    namespaces = manager.namespaces
    return tuple(one for one in manager.selections if namespaces is None or not namespaces.follows(one))


async def check_lease(permissions: Permissions, lease: Key) -> None:
    """Check that the Lease of leader election can be read and renewed, or this replica would stand by endlessly.

    Raises:
        ForbiddenError: It cannot.
    """
    answers = await permissions.ask(lease_need(right, lease) for right in sorted(rights(Lease, "get", "update")))
    if verbs := [need.right.verb for need, granted in answers.items() if granted is False]:
        words = f'cannot {", ".join(verbs)} resource "leases" in API group "coordination.k8s.io" in the namespace'
        text = f'leases.coordination.k8s.io "{lease.name}" is forbidden: {words} "{lease.namespace}"'
        raise ForbiddenError(403, "Forbidden", f"{text}, and leader election needs it")


async def check_shard_leases(permissions: Permissions, namespace: str) -> None:
    """Check that the Leases of sharding can be watched and written, or this replica would hold no shard, endlessly.

    Raises:
        ForbiddenError: They cannot.
    """
    answers = await permissions.ask(Need.of(right, namespace) for right in sorted(_SHARD_NEEDS))
    if missing := [need.right for need, granted in answers.items() if granted is False]:
        raise ForbiddenError(403, "Forbidden", f"{missing_rights(missing, namespace)}, and sharding needs it")


def serve_webhooks(
    manager: Manager, options: ProgramOptions, config: ClusterConfig, grace: GracePeriod
) -> frozenset[Need]:
    """Serve the webhooks of a manager, if there are any and the port is not disabled.

    Args:
        manager: The manager, with all webhooks.
        options: Where, and with which certificate.
        config: The cluster; its namespace is that of the Service unless the options name one.
        grace: How long the program has to end; longer with webhooks, because running reviews may finish.

    Returns:
        The rights that this needs.

    Raises:
        ConfigError: There is no certificate.
    """
    if not manager.webhooks or options.webhook_port < 0:
        return frozenset()
    serving = serving_of(options, config.namespace)
    if serving.makes_certificate and options.dry_run == "server":
        get_logger().info("dry run: no certificate is made, and webhooks are not served")
        return frozenset()
    manager.serve_webhooks(serving)
    grace.seconds += serving.shutdown_delay + DRAIN_SECONDS
    return needs_of_certificates(manager.webhooks, serving.secret) if serving.makes_certificate else frozenset()


def serving_of(options: ProgramOptions, namespace: str) -> WebhookServing:
    """Return how webhooks are served.

    Args:
        options: The options of the program.
        namespace: The namespace of the Service unless the options name one.
    """
    service = None
    if options.webhook_service_name:
        namespace = options.webhook_service_namespace or namespace or "default"
        service = WebhookService(namespace, options.webhook_service_name, options.webhook_secret_name)
    delay: timedelta = options.webhook_shutdown_delay
    return WebhookServing(
        BindAddress(options.webhook_host, options.webhook_port), options.webhook_cert_dir, options.webhook_cert_name,
        options.webhook_key_name, options.webhook_client_ca_name, service, delay.total_seconds(),
        options.max_connections,
    )  # fmt: skip


def needs_of_certificates(webhooks: Webhooks, secret: Key) -> frozenset[Need]:
    """Return the rights for certificates that kcr makes, and where they are needed."""
    in_namespace, everywhere = certificate_rights(converts=PATH in webhooks.paths)
    needs = {Need.of(right, secret.namespace) for right in in_namespace} | {Need.of(right, "") for right in everywhere}
    return frozenset(needs)


async def _list(client: Client, selection: Selection[Any]) -> KcrError | None:
    try:
        # Not decoded: one object that does not fit its type is no obstacle.
        await client.request("GET", selection.target({"limit": 1}))
    except KcrError as error:
        return error
    return None
