"""`kcr webhooks generate`: webhook configurations and the Service of controllers, as YAML."""

import os
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

import click

from kcr.api.meta import Key
from kcr.api.resources import object_name
from kcr.app.plugins import Setup, find_plugins, warn_of_unknown_variables
from kcr.app.rbac import declared_by
from kcr.cli.output import write_output
from kcr.errors import ConfigError
from kcr.serving.webhooks.conversion import WebhookService
from kcr.serving.webhooks.server import PORT
from kcr_devcluster.webhook_manifests import webhook_configurations, webhook_service
from kcr_devcluster.yaml_writer import yaml_documents

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


def named(ctx: click.Context, parameter: click.Parameter, text: str) -> str:
    """Read the name of an object.

    Raises:
        click.BadParameter: No object may have it.
    """
    try:
        return object_name(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def namespaced(ctx: click.Context, parameter: click.Parameter, text: str) -> Key:
    """Read NAMESPACE/NAME.

    Raises:
        click.BadParameter: It is not a name in a namespace.
    """
    try:
        key = Key.parse(text)
        object_name(key.name)
        object_name(key.namespace)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    if not key.namespace:
        raise click.BadParameter(f"{text!r} names no namespace: write NAMESPACE/NAME")
    return key


@click.group("webhooks")
def command() -> None:
    """Make webhook configurations for controllers."""


@command.command(
    "generate",
    short_help="Write webhook configurations and their Service.",
    epilog="Exit codes: 0, 1 when there are no webhooks, 2 on a wrong option.",
)
@click.argument("setups", nargs=-1, required=True, metavar="MODULE:SETUP…")
@service_options
@click.option(
    "--selector", default="", show_default="app.kubernetes.io/name= and the Service's name", metavar="LABELS",
    callback=lambda *given: _labels(given[2]), help="Labels of the controller's pods.",
)  # fmt: skip
@click.option("--port", default=PORT, show_default=True, metavar="N", help="Port of the pods that serves webhooks.")
@click.option("-o", "--output", default="-", show_default=True, metavar="FILE", help="File to write; `-` for stdout.")
def generate(
    setups: tuple[str, ...], service: WebhookService, selector: Mapping[str, str], port: int, output: str
) -> None:
    """Write the webhook configurations of controllers, and the Service that they refer to.

    SETUP is the function that calls manager.add_webhook(…); its arguments become the fields of the configurations.
    """
    found = find_plugins(setups)
    warn_of_unknown_variables(found, lambda words: click.echo(f"Warning: {words}", err=True))
    write_output(output, webhooks_text(found, service, selector, port).encode())


def webhooks_text(
    setups: Mapping[str, Setup], service: WebhookService, selector: Mapping[str, str] = {}, port: int = PORT
) -> str:
    """Return the Service and the configurations of the webhooks that setup functions add, as YAML.

    Args:
        setups: The functions by name.
        service: The Service.
        selector: Labels of the pods; empty for the usual one.
        port: Where the pods serve webhooks.

    Raises:
        ConfigError: There are none.
    """
    webhooks = declared_by(setups, os.environ).webhooks
    if not webhooks:
        raise ConfigError(f"{', '.join(setups)}: no webhook: add some with manager.add_webhook(…)")
    labels = selector or {"app.kubernetes.io/name": service.name}
    manifests = [webhook_service(service, labels, port=port), *webhook_configurations(webhooks.rules, service)]
    return yaml_documents(manifests)


def _labels(text: str) -> dict[str, str]:
    try:
        return dict(part.split("=") for part in text.split(",") if part)
    except ValueError:
        raise click.BadParameter(f"{text!r}: write NAME=VALUE,NAME=VALUE") from None
