"""`kcr kubeconfig create`: its options."""

from typing import Any

import click

from kcr.api.durations import parse_duration
from kcr.api.meta import Key
from kcr.cli import options as shared


@click.group("kubeconfig")
def command() -> None:
    """Make kubeconfigs for service accounts and users."""


def _seconds(ctx: click.Context, parameter: click.Parameter, text: str) -> int:
    try:
        nanoseconds = parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a duration: write 24h or 30m") from error
    if nanoseconds < 1e9:
        raise click.BadParameter(f"{text} is not above zero")
    return int(nanoseconds / 1e9)


@command.command(
    "create",
    context_settings={"show_default": True},
    epilog="Exit codes: 0, 1 when the server or the kubeconfig cannot be used, 2 on a wrong option.",
)
@click.option(
    "--service-account",
    "account",
    metavar="[NAMESPACE/]NAME",
    help="For this service account, with a token.",
)
@click.option("--user", metavar="NAME", help="For a user of this name, with a certificate.")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="A group of the user. May be repeated.")
@click.option("--duration", "seconds", default="24h", metavar="TIME", callback=_seconds, help="How long it is valid.")
@shared.program_options("kubeconfig", "context", "exec_plugins")
def create(account: str | None, user: str | None, **values: Any) -> None:
    """Print a kubeconfig with fresh credentials: it is a secret.

    Any API server issues them: a token by TokenRequest, a certificate by a CertificateSigningRequest, which this
    command approves, waits for, and deletes.
    """
    from kcr.app.process import run_to_end  # noqa: PLC0415  # see above
    from kcr_devcluster.generators.credentials import ServiceAccountLogin, UserLogin, issue_kubeconfig  # noqa: PLC0415  # takes 0.2 s

    if (account is None) == (user is None):
        raise click.UsageError("name either --service-account or --user")
    if account is not None and values["groups"]:
        raise click.UsageError("--group is for --user: the groups of a service account are given")
    login: ServiceAccountLogin | UserLogin
    if user is not None:
        login = UserLogin(user, values["groups"], values["seconds"])
    else:
        namespace, _, name = (account or "").rpartition("/")
        if not name or "/" in namespace:
            raise click.UsageError(f"--service-account {account!r} is neither NAME nor NAMESPACE/NAME")
        login = ServiceAccountLogin(Key(namespace, name), values["seconds"])

    async def main() -> int:
        click.echo(
            await issue_kubeconfig(login, values["kubeconfig"], values["context"], values["exec_plugins"]), nl=False
        )
        return 0

    run_to_end(main)
