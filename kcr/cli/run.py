"""`kcr run`: runs controllers against the API server that a kubeconfig, or the pod they run in, names."""

from typing import Any

import click

from kcr.app.options import PluginOptions, ProgramOptions
from kcr.cli import options as shared


@click.command("run", epilog="Exit codes: 0 after SIGTERM or SIGINT, 1 on failure, 2 on a wrong option.")
@shared.plugin_options()
@shared.program_options(leader_elect_resource_name="kcr-controller-manager")
def command(**values: Any) -> None:
    """Run controllers against a Kubernetes API server.

    Your own controllers are added to the default, unless the list names some of kcr's own.
    """
    # Not at the top: with them come the client and the runtime, which neither help nor completion needs.
    from kcr.app.plugins import choose_to_run, find_plugins  # noqa: PLC0415  # see above
    from kcr.app.run import run_controllers  # noqa: PLC0415  # see above

    plugins = PluginOptions(**{name: values.pop(name) for name in PluginOptions.__struct_fields__})
    chosen = choose_to_run(plugins)
    run_controllers(
        ProgramOptions(**values), lambda: find_plugins(chosen), plugins.given(), command="kcr run", controllers=chosen
    )
