"""`kcr reconcile`: the controllers of an object reconcile it now, and retry it if it is parked.

It sets an annotation, and does not call a debug port: so it reaches the replica that has the object, whichever that is,
needs no forwarded port, is allowed and recorded by the API server, and also reaches a controller that starts later.
"""

from collections.abc import Mapping
from typing import Any

import click

from kcr.api.meta import Key
from kcr.cli import options as shared
from kcr.cli.connection import connected, run_quietly, unfound
from kcr.cli.target import ObjectName, UnresolvedName, resolved
from kcr.clock import SystemClock
from kcr.controller.retries import RECONCILE_AT
from kcr.errors import NotFoundError


@click.command(
    "reconcile",
    context_settings={"auto_envvar_prefix": "KCR"},
    epilog="Exit codes: 0, 1 when the object does not exist or may not be patched, 2 on a wrong option.",
)
@shared.object_argument
@shared.object_options
def command(name: ObjectName | UnresolvedName, **values: Any) -> int:
    """Let the controllers of an object reconcile it now.

    One that was parked after too many failures is retried. It sets the annotation kcr.dev/reconcile-at of the object to
    the present time, which takes the right to patch it. Controllers made with kcr reconcile an object when this
    changes; others ignore it. `kcr explain` shows the result.
    """
    return run_quietly(lambda: _reconcile(name, values))


async def _reconcile(named: ObjectName | UnresolvedName, values: Mapping[str, Any]) -> int:
    async with connected(values) as (client, namespace, _):
        name = await resolved(client, named)
        key = Key(namespace if name.kind.resource.namespaced else "", name.name)
        # In microseconds: a second request within a second is another one.
        moment = f"{SystemClock().now():%Y-%m-%dT%H:%M:%S.%fZ}"
        try:
            await client.merge_patch(name.kind, key, {"metadata": {"annotations": {RECONCILE_AT: moment}}})
        except NotFoundError as error:
            raise await unfound(client, name.kind, key, error) from error
    click.echo(f"{name} annotated: {RECONCILE_AT}={moment}")
    return 0
