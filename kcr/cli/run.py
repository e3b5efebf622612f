"""`kcr run`: controllers against the API server that a kubeconfig, or the pod they run in, names."""

from typing import Any

import click

from kcr.app.plugins import find_plugins
from kcr.app.run import Settings, run
from kcr.cli import options as shared


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
def command(**values: Any) -> None:
    """Run controllers against a Kubernetes API server."""
    names = shared.names(values.pop("controllers"))
    if not names:
        raise click.UsageError("--controllers names none")
    given = {name: values.pop(name) for name in ("workers", "take_over", "feature_gates")}
    run(Settings(**values), lambda: find_plugins(names), given, controllers=names)
