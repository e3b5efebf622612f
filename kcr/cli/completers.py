"""`kcr completion`, and the names that a shell completes: options, controllers, namespaces, objects.

While a shell completes, commands are made of the table that `python -m tools.completions` writes: their modules import
clients and servers, for which a shell would wait.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem, get_completion_class

if TYPE_CHECKING:
    from kcr.api.meta import Resource
    from kcr.client import Client

# A shell that waits for names feels broken.
_SECONDS = 2.0
_SHELLS = ("bash", "fish", "zsh")


@cache
def outlines(package: str = "kcr.cli") -> Mapping[str, Any]:
    """Return the commands by name: the line in the help, and the parameters.

    kcr knows of the commands of kcr-devcluster that line alone; their parameters are in that package.
    """
    (folder,) = import_module(package).__path__
    found: Mapping[str, Any] = json.loads(Path(folder, "completions.json").read_text(encoding="utf-8"))
    return found


def outline(name: str) -> click.Command:
    """Return a command that can be completed, and not called."""
    found = outlines()[name]
    return _command(name, found if len(found) > 1 else outlines("kcr_devcluster")[name])


def _command(name: str, found: Mapping[str, Any]) -> click.Command:
    given: dict[str, Any] = {"params": [_parameter(one) for one in found.get("parameters", ())]}
    if "commands" in found:
        given["commands"] = {part: _command(part, one) for part, one in found["commands"].items()}
    kind = click.Group if "commands" in found else click.Command
    return kind(name, **given, short_help=found["help"])


def _parameter(found: str) -> click.Parameter:
    options, text, kind, completer, path, choices, *_ = f"{found}||||||".split("|")
    # Each name is one of this module.
    complete = globals().get(completer)
    values: Any = click.Choice(choices.split(","), case_sensitive=False) if choices else None
    if path:
        values = click.Path(file_okay=path == "file")
    if not options:
        return click.Argument(["words"], nargs=int(kind), required=False, type=values, shell_complete=complete)
    return click.Option(
        options.split(","), help=text, is_flag=kind == "flag", multiple=kind == "many", type=values,
        shell_complete=complete,
    )  # fmt: skip


def complete_controllers(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the installed controllers whose name begins like the last of a list; `-` leaves one out."""
    chosen, comma, start = incomplete.rpartition(",")
    minus = start[:1] if start.startswith("-") else ""
    names = sorted(point.name for point in entry_points(group="kcr.controllers"))
    return [CompletionItem(f"{chosen}{comma}{minus}{name}") for name in names if f"{minus}{name}".startswith(start)]


def complete_namespaces(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the namespaces of the cluster whose name begins so; none when it cannot be asked."""
    from kcr.api.core import Namespace  # noqa: PLC0415  # only a shell that completes needs it

    return _items("", _names(ctx, Namespace), incomplete)


def complete_programs(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the programs with Leases of sharding in the namespace; none when the cluster cannot be asked."""
    from kcr.api.coordination import Lease  # noqa: PLC0415  # see above
    from kcr.scopes.sharding.leases import GROUP_LABEL  # noqa: PLC0415  # see above

    return _items("", _names(ctx, Lease, lambda lease: lease.metadata.labels.get(GROUP_LABEL, "")), incomplete)


def complete_jobs(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the Jobs of the namespace whose name begins so; none when the cluster cannot be asked."""
    return _objects(ctx, parameter, incomplete, ("job",))


def complete_cronjobs(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the CronJobs of the namespace whose name begins so; none when the cluster cannot be asked."""
    return _objects(ctx, parameter, incomplete, ("cronjob",))


def complete_objects(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return Jobs, CronJobs and kinds whose name begins so; behind `KIND/` and `KIND `, the objects of that kind."""
    kind, slash, _ = incomplete.partition("/")
    if slash:
        return _objects(ctx, parameter, incomplete, (kind,))
    found = _objects(ctx, parameter, incomplete, ("job", "cronjob"))
    return found or [CompletionItem(f"{name}/") for name in _asked(ctx, _kinds) if name.startswith(kind)]


def complete_containers(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the containers of the pods of the Job that is named before; none when the cluster cannot be asked."""
    words = next((given for given in ctx.params.values() if isinstance(given, tuple) and given), ("",))
    name = words[-1].rpartition("/")[2]

    async def containers(client: "Client", namespace: str) -> set[str]:
        from kcr.api.core import Pod  # noqa: PLC0415  # see above

        pods = await client.list(Pod, namespace, labels=f"batch.kubernetes.io/job-name={name}")
        return {one.name for pod in pods for one in (*pod.spec.init_containers, *pod.spec.containers)}

    return _items("", _asked(ctx, containers), incomplete)


async def _kinds(client: "Client", namespace: str) -> set[str]:
    from kcr.client.discovery import all_served_kinds  # noqa: PLC0415  # see above

    return {kind.singular or kind.resource.kind.lower() for kind in await all_served_kinds(client)}


def _objects(
    ctx: click.Context, parameter: click.Parameter, incomplete: str, kinds: Iterable[str]
) -> list[CompletionItem]:
    """Return objects of kinds as `KIND/NAME`, and by their names where the words before name a kind."""
    first = next(iter(ctx.params.get(parameter.name or "") or ()), "")
    if first and "/" not in first:
        return _items("", _names(ctx, first), incomplete)
    return [
        one for kind in kinds if incomplete.startswith(f"{kind}/") or f"{kind}/".startswith(incomplete)
        for one in _items(f"{kind}/", _names(ctx, kind), incomplete)
    ]  # fmt: skip


def _items(prefix: str, names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(prefix + name) for name in names if (prefix + name).startswith(incomplete)]


def _name(obj: "Resource") -> str:
    return obj.metadata.name


def _names(ctx: click.Context, kind: "type[Resource] | str", name_of: "Callable[[Resource], str]" = _name) -> list[str]:
    async def names(client: "Client", namespace: str) -> set[str]:
        from kcr.cli.target import parse_object, resolved  # noqa: PLC0415  # see above

        wanted = (await resolved(client, parse_object(f"{kind}/a"))).kind if isinstance(kind, str) else kind
        found = await client.list(wanted, namespace if wanted.resource.namespaced else "")
        return {*map(name_of, found)} - {""}

    return _asked(ctx, names)


def _asked(ctx: click.Context, ask: "Callable[[Client, str], Awaitable[Iterable[str]]]") -> list[str]:
    """Return the words that a question to the cluster of the options has found, sorted."""
    import asyncio  # noqa: PLC0415  # for a completion alone

    from kcr.app.logs import configure_logs  # noqa: PLC0415  # see above
    from kcr.cli.connection import connected  # noqa: PLC0415  # see above

    # Such as that of a missing permission: it would be taken for a name, or stand in the middle of the command line.
    configure_logs(None, "critical")
    values = {name: ctx.params.get(name) for name in ("kubeconfig", "context", "namespace", "exec_plugins")}
    if values["exec_plugins"] == "ask":
        # A question would stand in the middle of the command line.
        values["exec_plugins"] = "never"

    async def answer() -> list[str]:
        async with asyncio.timeout(_SECONDS), connected(values) as (client, namespace, _):
            return sorted(await ask(client, namespace))

    try:
        return asyncio.run(answer())
    except Exception:  # a shell shows no errors while it completes
        return []


@click.command("completion", epilog="Exit codes: 0, 2 on a wrong option.")
@click.argument("shell", type=click.Choice(_SHELLS), metavar="|".join(_SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a shell's completion.

    For bash: source <(kcr completion bash)
    """
    completion = get_completion_class(shell)
    assert completion is not None
    root = ctx.find_root().command
    click.echo(completion(root, {}, "kcr", "_KCR_COMPLETE").source())
