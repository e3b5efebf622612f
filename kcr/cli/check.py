"""`kcr check`: whether a cluster is ready for controllers, before they run."""

import asyncio
import os
from collections.abc import Mapping
from typing import Any

import click

from kcr.api.meta import Key
from kcr.app.checks import Finding, Wanted, check_cluster, filter_finding
from kcr.app.options import PluginOptions
from kcr.app.plugins import Setup, choose_to_run, find_plugins, warn_of_unknown_variables
from kcr.app.rbac import declared_by, with_events_api
from kcr.cli import options as shared
from kcr.cli.output import output_option, show
from kcr.client import Client, HttpTransport, load_config
from kcr.client.cluster_config import explain_failure
from kcr.client.credentials import PluginCredentials
from kcr.clock import SystemClock
from kcr.errors import ApiError, ConfigError, TransportError
from kcr.log.lines import one_line
from kcr.scopes.namespaces import Namespaces


@click.command(
    "check",
    context_settings={"auto_envvar_prefix": "KCR", "show_default": True},
    epilog="Exit codes: 0 when all is well, 1 when something has to be done, 2 on a wrong option.",
)
@shared.plugin_options("controllers", "no_controllers")
@shared.connection_options
@click.option(
    "--take-over", is_flag=True, show_envvar=True, help="Check for taking the place of the cluster's own controllers."
)
@click.option("--leader-elect", is_flag=True, show_envvar=True, help="Check the rights of leader election as well.")
@shared.program_options(
    "namespace_selector", "shards", "leader_elect_resource_name", "events_api",
    leader_elect_resource_name="kcr-controller-manager", words={"shards": "none"},
)  # fmt: skip
@click.option(
    "--leader-elect-resource-namespace", metavar="NAME", default="", show_envvar=True,
    show_default="the pod's own, or the context's", help="Namespace of the Leases.",
)  # fmt: skip
@click.option("--metrics-secure", is_flag=True, show_envvar=True, help="Check the rights of protected metrics as well.")
@output_option()
def command(*, controllers: tuple[str, ...], no_controllers: bool, output: str | None, **values: Any) -> None:
    """Check a cluster before controllers run on it, writing nothing."""
    setups = find_plugins(choose_to_run(PluginOptions(controllers=controllers, no_controllers=no_controllers)))
    warn_of_unknown_variables(setups, lambda words: click.echo(f"Warning: {words}", err=True))
    findings = asyncio.run(_findings(setups, values))
    if output:
        show([{"check": one.check, "isWrong": one.is_wrong, "text": one.text} for one in findings], output)
    else:
        for finding in findings:
            click.echo(f"{'FAIL' if finding.is_wrong else 'ok':<6}{finding.check:<13}{finding.text}")
    if any(finding.is_wrong for finding in findings):
        raise click.exceptions.Exit(1)


async def _findings(setups: Mapping[str, Setup], values: Mapping[str, Any]) -> list[Finding]:
    config = load_config(values["kubeconfig"], values["context"], exec_plugins=values["exec_plugins"])
    if isinstance(config.credentials, PluginCredentials):
        plugin = config.credentials.spec.shown
        line = f"kcr: {config.origin}: runs the credential plugin {plugin}; --exec-plugins=never refuses"
        click.echo(one_line(line), err=True)
    namespace, take_over = values["namespace"], values["take_over"]
    lease_namespace = values["leader_elect_resource_namespace"] or config.namespace
    watched = Namespaces(labels=values["namespace_selector"]) if values["namespace_selector"] else namespace
    declared = declared_by(setups, os.environ, watched)
    wanted = Wanted(
        with_events_api(declared.rights, values["events_api"]), namespace, changes=watched != namespace,
        takes_over=take_over,
        kinds=frozenset(selection.kind.resource for selection in declared.selections),
        lease=Key(lease_namespace, values["leader_elect_resource_name"]) if values["leader_elect"] else None,
        shards_in=lease_namespace if values["shards"] else "", metrics_secure=values["metrics_secure"],
        names=",".join(setups),
    )  # fmt: skip
    async with HttpTransport(config) as transport:
        try:
            client = Client(transport)
            findings = await check_cluster(client, wanted, SystemClock())
            return [*findings, await filter_finding(client, declared.selections)] if values["shards"] else findings
        except (ApiError, TransportError) as error:
            raise ConfigError(explain_failure(error, config)) from error
