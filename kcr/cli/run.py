"""`kcr run`: controllers against the API server that a kubeconfig, or the pod they run in, names."""

import os
from typing import Any

import click

from kcr.cli import options as shared
from kcr.cli.contact import check_access
from kcr.cli.plugins import attach, find_plugins
from kcr.cli.program import begin, operate
from kcr.manager import Manager


@click.command(
    "run",
    context_settings={"auto_envvar_prefix": "KCR", "show_default": True},
    epilog="Exit codes: 0 after SIGTERM or SIGINT, 1 on failure, 2 on a wrong option.",
)
@shared.controllers_option("job")
@shared.connection_options
@click.option(
    "--take-over",
    is_flag=True,
    show_envvar=True,
    help="Take the place of the cluster's own controllers: reconcile Jobs without spec.managedBy too.",
)
@shared.workers_option
@shared.feature_gates_option
@shared.operation_options("info")
def command(**values: Any) -> int:
    """Run controllers against a Kubernetes API server."""
    begin(values)
    names = shared.names(values["controllers"])
    if not names:
        raise click.UsageError("--controllers names none")
    plugins = find_plugins(names)
    given = {name: values[name] for name in ("workers", "take_over", "feature_gates")}

    async def prepare(manager: Manager, embedded: bool) -> None:
        # The embedded server has no controllers of its own.
        given["take_over"] = given["take_over"] or embedded
        attach(plugins, manager, os.environ, **given)
        await check_access(manager.client, manager.kinds, manager.namespace)

    return operate(values, prepare, controllers=names) or 0
