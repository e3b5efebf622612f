"""`kcr webhooks generate`: webhook configurations and the Service of controllers, as YAML."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import click

from kcr.api.meta import Key
from kcr.webhooks.conversion import WebhookService

F = TypeVar("F", bound=Callable[..., Any])


def service_options(command: F) -> F:
    """Add `--service`, `--secret` and `--cert-manager`, which the command takes as one `WebhookService`."""

    @wraps(command)
    def with_service(*given: Any, service: Key, secret: str, cert_manager: bool, **options: Any) -> Any:
        made = WebhookService(service.namespace, service.name, secret, cert_manager=cert_manager)
        return command(*given, service=made, **options)

    decorators = (
        click.option(
            "--service", default=str(Key(*WebhookService()[:2])), show_default=True, metavar="NAMESPACE/NAME",
            callback=namespaced, help="The Service of the webhooks.",
        ),
        click.option(
            "--secret", default="", show_default="the Service's name", metavar="NAME",
            help="The Secret of their certificate, in the same namespace.",
        ),
        click.option(
            "--cert-manager", is_flag=True,
            help="Let cert-manager write the caBundle, from the Certificate of the Secret's name, instead of kcr.",
        ),
    )  # fmt: skip
    wrapped: Any = with_service
    for decorator in reversed(decorators):
        wrapped = decorator(wrapped)
    return wrapped  # type: ignore[no-any-return]  # click's decorators keep the type


def namespaced(ctx: click.Context, parameter: click.Parameter, text: str) -> Key:
    """Read NAMESPACE/NAME.

    Raises:
        click.BadParameter: It is no name in a namespace.
    """
    try:
        key = Key.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    if not key.namespace:
        raise click.BadParameter(f"{text!r} names no namespace: write NAMESPACE/NAME")
    return key
