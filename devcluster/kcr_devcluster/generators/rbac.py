"""`kcr rbac generate`: roles with exactly the rights that controllers declare, as YAML."""

import asyncio
import os
from collections.abc import Mapping
from typing import Any

import click
from click.core import ParameterSource

from kcr.api.meta import Key
from kcr.app.options import PluginOptions
from kcr.app.plugins import Setup, called, choose_to_run, find_plugins, warn_of_unknown_variables
from kcr.app.rbac import declared_by
from kcr.cli import options as shared
from kcr.cli.output import write_output
from kcr.controller import Right
from kcr.scopes.namespaces import Namespaces
from kcr_devcluster.generators.roles import NO_RIGHTS, certificates_of, rbac_manifests
from kcr_devcluster.generators.webhooks import named, namespaced
from kcr_devcluster.yaml_writer import yaml_documents

_WATCHING = ("list", "watch")
_READS_ONLY = (
    "no requests are declared beside what is watched, so the role lets it write nothing: declare the others with "
    "manager.add_controller(…, rights=kcr.rights(…))"
)


@click.group("rbac")
def command() -> None:
    """Make roles for controllers."""


@command.command(
    "generate", short_help="Write the roles that controllers need.", context_settings={"show_default": True}
)
@click.argument("named_setups", nargs=-1, metavar="[MODULE:SETUP]…")
@shared.plugin_options("controllers")
@click.option("--name", default="kcr", metavar="NAME", callback=named, help="Name of the roles and bindings.")
@click.option(
    "--service-account", default="default/kcr", metavar="NAMESPACE/NAME", callback=namespaced,
    help="Account to bind them to.",
)  # fmt: skip
@click.option("--create-namespace", is_flag=True, help="Write the namespace of the account as well.")
@click.option(
    "--namespace", default="", show_default="all", metavar="NAME", callback=named,
    help="Grant the rights in one namespace.",
)  # fmt: skip
@click.option(
    "--namespace-selector", is_flag=True,
    help="Write a ClusterRole to be bound in each namespace, for namespaces chosen by a selector or at run time.",
)  # fmt: skip
@click.option("--leader-elect", is_flag=True, help="Grant the rights of leader election as well.")
@click.option("--shards", is_flag=True, help="Grant the rights of sharding as well.")
@click.option(
    "--webhook-certificates", is_flag=True, help="Grant the rights of certificates that kcr makes for webhooks as well."
)
@click.option("--metrics-secure", is_flag=True, help="Grant the rights of protected metrics as well.")
@shared.plugin_options("feature_gates")
@shared.program_options("events_api")
@click.option("-o", "--output", default="-", metavar="FILE", help="File to write; `-` for stdout.")
def generate(  # the options of the command, all by name
    *, named_setups: tuple[str, ...], controllers: tuple[str, ...], service_account: Key, namespace: str,
    namespace_selector: bool, feature_gates: frozenset[str], **values: Any,
) -> None:  # fmt: skip
    """Write the rights that controllers need: for their watches, and for their declared requests.

    Controllers of your own are named MODULE:SETUP, as arguments or with --controllers, and declare their requests with
    manager.add_controller(…, rights=kcr.rights(ConfigMap, "create", "patch")). The rights of the named ones alone are
    written: with --controllers=*,MODULE:SETUP those of the Job controller as well.
    """
    if namespace and namespace_selector:
        raise click.UsageError("--namespace-selector: it is for namespaces without names: leave --namespace away")
    if named_setups:
        source = click.get_current_context().get_parameter_source("controllers")
        controllers = (*named_setups, *(() if source is ParameterSource.DEFAULT else controllers))
    watched = Namespaces(labels="any") if namespace_selector else namespace
    # A role grants nothing that is not named.
    setups = find_plugins(choose_to_run(PluginOptions(controllers=controllers), adds_own=False))
    warn_of_unknown_variables(setups, lambda words: click.echo(f"Warning: {words}", err=True))

    async def wanted() -> str:
        each = {
            name: declared_by({name: setup}, os.environ, watched, feature_gates).rights
            for name, setup in setups.items()
        }
        for name in (name for name, asked in each.items() if all(right.verb in _WATCHING for right in asked)):
            click.echo(f"kcr: {called(name)}: {_READS_ONLY}", err=True)
        found = frozenset[Right]().union(*each.values())
        manifests = rbac_manifests(
            found, name=values["name"], account=service_account, namespace=namespace, elects=values["leader_elect"],
            changes=namespace_selector, shards=values["shards"], metrics_secure=values["metrics_secure"],
            events_api=values["events_api"],
            certificates=certificates_of(setups, os.environ) if values["webhook_certificates"] else NO_RIGHTS,
        )  # fmt: skip
        if values["create_namespace"]:
            metadata = {"name": service_account.namespace}
            manifests.insert(0, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        return yaml_documents(manifests)

    write_output(values["output"], asyncio.run(wanted()).encode())
    if namespace_selector:
        name, account = values["name"], service_account
        binding = f"kubectl create rolebinding {name} --clusterrole={name} --serviceaccount={account.namespace}:"
        click.echo(f"kcr: in each namespace to work in: {binding}{account.name} -n NAMESPACE", err=True)


def roles_text(setups: Mapping[str, Setup], account: Key) -> str:
    """Return the roles of a program with leader election and webhooks, as YAML.

    Args:
        setups: The functions by name.
        account: The service account; its name is also that of the roles.
    """

    async def wanted() -> str:
        manifests = rbac_manifests(
            declared_by(setups, os.environ).rights, name=account.name, account=account, namespace="", elects=True,
            certificates=certificates_of(setups, os.environ),
        )  # fmt: skip
        return yaml_documents(manifests)

    return asyncio.run(wanted())
