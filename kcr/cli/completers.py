"""The names that a shell completes: controllers, namespaces, objects."""

from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from kcr.api.meta import Resource

# A shell that waits for names feels broken.
_SECONDS = 2.0


def complete_controllers(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the installed controllers whose name begins like the last of a list."""
    chosen, comma, start = incomplete.rpartition(",")
    names = sorted(point.name for point in entry_points(group="kcr.controllers"))
    return [CompletionItem(f"{chosen}{comma}{name}") for name in names if name.startswith(start)]


def complete_namespaces(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the namespaces of the cluster whose name begins so; none when it cannot be asked."""
    from kcr.api.core import Namespace  # noqa: PLC0415  # only a shell that completes needs it

    return _items("", _names(ctx, Namespace), incomplete)


def complete_programs(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the programs with Leases of sharding in the namespace; none when the cluster cannot be asked."""
    from kcr.api.coordination import Lease  # noqa: PLC0415  # see above
    from kcr.sharding.leases import GROUP_LABEL  # noqa: PLC0415  # see above

    return _items("", _names(ctx, Lease, lambda lease: lease.metadata.labels.get(GROUP_LABEL, "")), incomplete)


def complete_jobs(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the Jobs of the namespace whose name begins so; none when the cluster cannot be asked."""
    from kcr.api.batch import Job  # noqa: PLC0415  # see above

    return _items("job/", _names(ctx, Job), incomplete)


def complete_cronjobs(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the CronJobs of the namespace whose name begins so; none when the cluster cannot be asked."""
    from kcr.api.batch import CronJob  # noqa: PLC0415  # see above

    return _items("cronjob/", _names(ctx, CronJob), incomplete)


def complete_objects(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the Jobs and CronJobs whose name begins so; behind `KIND/`, the objects of that kind."""
    from kcr.api.batch import Job  # noqa: PLC0415  # see above

    kind, slash, _ = incomplete.partition("/")
    if slash and kind not in ("job", "cronjob"):
        return _items(f"{kind}/", _names(ctx, kind), incomplete)
    found = _items("job/", _names(ctx, Job), incomplete) if "job/".startswith(kind) else []
    return [*found, *(complete_cronjobs(ctx, parameter, incomplete) if "cronjob/".startswith(kind) else [])]


def _items(prefix: str, names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(prefix + name) for name in names if (prefix + name).startswith(incomplete)]


def _name(obj: "Resource") -> str:
    return obj.metadata.name


def _names(ctx: click.Context, kind: "type[Resource] | str", name_of: "Callable[[Resource], str]" = _name) -> list[str]:
    import asyncio  # noqa: PLC0415  # for a completion alone

    from kcr.app.logs import configure_logs  # noqa: PLC0415  # see above
    from kcr.cli.connection import connected  # noqa: PLC0415  # see above
    from kcr.cli.target import UnresolvedName, resolved  # noqa: PLC0415  # see above

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
            return sorted({*map(name_of, found)} - {""})

    try:
        return asyncio.run(names())
    except Exception:  # a shell shows no errors while it completes
        return []
