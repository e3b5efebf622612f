"""`kcr completion`, and the names that a shell completes: controllers, namespaces, Jobs."""

import asyncio
import sys
from collections.abc import Iterable
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

if TYPE_CHECKING:
    from kcr.api.meta import Resource

_SHELLS = ("bash", "fish", "zsh")
# A shell that waits for names feels broken.
_SECONDS = 2.0
# As of kubectl: do not complete the names of files.
_NO_FILES = 4


@click.command("completion", epilog="Exit codes: 0, 2 on a wrong option.")
@click.argument("shell", type=click.Choice(_SHELLS), metavar="|".join(_SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print what a shell needs to complete options, and names of controllers, namespaces and objects.

    For bash: source <(kcr completion bash)
    """
    completion = get_completion_class(shell)
    assert completion is not None
    root = ctx.find_root().command
    click.echo(completion(root, {}, "kcr", "_KCR_COMPLETE").source())


def kubectl_complete() -> None:
    """Complete `kubectl kcr …`: the program `kubectl_complete-kcr`, which kubectl calls with the words so far.

    Source: kubernetes/staging/src/k8s.io/kubectl/pkg/cmd/plugin/plugin_completion.go.
    """
    from kcr.cli.main import cli  # noqa: PLC0415  # it imports commands by name, this one among them

    *words, incomplete = sys.argv[1:] or [""]
    for item in ShellComplete(cli, {}, "kcr", "_KCR_COMPLETE").get_completions(words, incomplete):
        click.echo(item.value)
    click.echo(f":{_NO_FILES}")


def complete_controllers(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the installed controllers whose name begins like the last of a list."""
    chosen, comma, start = incomplete.rpartition(",")
    names = sorted(point.name for point in entry_points(group="kcr.controllers"))
    return [CompletionItem(f"{chosen}{comma}{name}") for name in names if name.startswith(start)]


def complete_namespaces(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the namespaces of the cluster whose name begins so; none when it cannot be asked."""
    from kcr.api.core import Namespace  # noqa: PLC0415  # only a shell that completes needs it

    return _items("", _names(ctx, Namespace), incomplete)


def complete_jobs(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the Jobs of the namespace whose name begins so; none when the cluster cannot be asked."""
    from kcr.api.batch import Job  # noqa: PLC0415  # see above

    return _items("job/", _names(ctx, Job), incomplete)


def complete_objects(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the Jobs and CronJobs whose name begins so; behind `KIND/`, the objects of that kind."""
    from kcr.api.batch import CronJob, Job  # noqa: PLC0415  # see above

    kind, slash, _ = incomplete.partition("/")
    if slash and kind not in ("job", "cronjob"):
        return _items(f"{kind}/", _names(ctx, kind), incomplete)
    found = _items("job/", _names(ctx, Job), incomplete) if "job/".startswith(kind) else []
    return [*found, *(_items("cronjob/", _names(ctx, CronJob), incomplete) if "cronjob/".startswith(kind) else [])]


def _items(prefix: str, names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(prefix + name) for name in names if (prefix + name).startswith(incomplete)]


def _names(ctx: click.Context, kind: "type[Resource] | str") -> list[str]:
    from kcr.app.logs import configure_logs  # noqa: PLC0415  # for a completion alone
    from kcr.cli.objects.connection import connected  # noqa: PLC0415  # see above
    from kcr.cli.objects.look import resolved  # noqa: PLC0415  # see above
    from kcr.cli.objects.target import UnresolvedName  # noqa: PLC0415  # see above

    # Such as that of a missing permission: it would be taken for a name, or stand in the middle of the command line.
    configure_logs(None, "critical")
    values = {name: ctx.params.get(name) for name in ("kubeconfig", "context", "namespace", "exec_plugins")}
    if values["exec_plugins"] == "ask":
        # A question would stand in the middle of the command line.
        values["exec_plugins"] = "never"

    async def names() -> list[str]:
        async with asyncio.timeout(_SECONDS), connected(values) as (client, namespace, _):
            wanted = (await resolved(client, UnresolvedName(kind, ""))).kind if isinstance(kind, str) else kind
            found = await client.list(wanted, namespace if wanted.resource.namespaced else "")
            return sorted(one.metadata.name for one in found)

    try:
        return asyncio.run(names())
    except Exception:  # a shell shows no errors while it completes
        return []
