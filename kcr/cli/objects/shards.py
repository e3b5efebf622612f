"""Shards, from the Leases alone: `kcr shards`, and the line of an explanation that names the holder of an object's."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import click
from msgspec.structs import replace

from kcr.api.batch import CronJob, Job
from kcr.api.coordination import Lease
from kcr.api.explanation import Code, Explanation, ago
from kcr.api.meta import Key, ObjectMeta, Resource
from kcr.api.slots import shard_of, slot_of
from kcr.cli import options as shared
from kcr.cli.completers import complete_programs
from kcr.cli.connection import connected, run_quietly
from kcr.cli.objects.inside import Inside
from kcr.cli.output import output_option, show, table
from kcr.client import Client
from kcr.clock import SystemClock
from kcr.errors import ConfigError, KcrError, NotFoundError
from kcr.log.lines import printable
from kcr.scopes.sharding.leases import GROUP_LABEL, LeaseState, Overview, ShardView, is_group, overview, state_of
from kcr.scopes.sharding.shards import UNSHARDED, shown

# Finished objects, and those of another controller, are reconciled by no replica.
_SETTLED = frozenset({Code.FINISHED, Code.FAILED, Code.MANAGED_BY_ANOTHER, Code.NOT_FOUND})


@click.command(
    "shards",
    context_settings={"auto_envvar_prefix": "KCR"},
    epilog="Exit codes: 0, 1 when there are no Leases or the server cannot be used, 2 on a wrong option.",
)
@shared.program_options("kubeconfig", "context", "exec_plugins", "namespace", words={"namespace": "the context's"})
@click.option(
    "--name", default="kcr-controller-manager", metavar="NAME", show_default=True,
    allow_from_autoenv=False, shell_complete=complete_programs,
    help="Name of the program's Leases: its --leader-elect-resource-name.",
)  # fmt: skip
@output_option()
def command(name: str, output: str | None, **values: Any) -> int:
    """Show which replica holds which shard of a program.

    It reads the Leases only, so the right to list them is enough. A shard whose holder does not renew it is expired,
    and is taken by another replica; a free one was released, or never taken.
    """
    return run_quietly(lambda: _show(name, output, values))


async def _show(name: str, output: str | None, values: Mapping[str, Any]) -> int:
    async with connected(values) as (client, namespace, _):
        leases = await client.list(Lease, namespace, labels=f"{GROUP_LABEL}={name}")
        leader = await _leader(client, Key(namespace, name))
    now = SystemClock().now()
    found = overview(leases, now)
    if not found.shards and not found.replicas:
        remedy = "name another namespace with -n, another program with --name, or start replicas with --shards"
        waiting = f"; {leader} leads without sharding" if leader else ""
        raise ConfigError(f"no leases of sharding named {name} in namespace {namespace}{waiting}: {remedy}")
    if output:
        show(as_json(name, namespace, found), output)
    else:
        click.echo("\n".join(map(printable, lines_of(found, now))))
        if leader:
            click.echo(printable(f"\n{leader} leads without sharding: replicas with --shards wait until it ends"))
    return 0


async def _leader(client: Client, key: Key) -> str:
    try:
        lease = await client.get(Lease, key)
    except NotFoundError:
        return ""
    holder = lease.spec.holder_identity
    is_held = state_of(lease, SystemClock().now()) is LeaseState.HELD
    return holder if is_held and not is_group(holder) else ""


def lines_of(found: Overview, now: datetime) -> Iterator[str]:
    """Yield the tables of the shards and of the replicas as lines."""
    yield from table(
        ("SHARD", "SLOTS", "HOLDER", "SINCE", "RENEWED", "STATE"),
        [
            (str(one.number), f"{one.first_slot}-{one.last_slot}", one.holder or "-", _age(one.since, now),
             _age(one.renewed, now), one.state.value)
            for one in found.shards
        ],
    )  # fmt: skip
    yield ""
    yield from table(
        ("REPLICA", "COUNT", "SHARDS", "RENEWED", "STATE"),
        [
            (one.identity, str(len(one.shards)), shown(one.shards) or "-", _age(one.renewed, now), one.state.value)
            for one in found.replicas
        ],
    )


def as_json(name: str, namespace: str, found: Overview) -> dict[str, object]:
    """Return the shards and the replicas as one JSON object.

    Args:
        name: The name of the program's Leases.
        namespace: Their namespace.
        found: The shards and the replicas.
    """
    shards = [
        {"shard": one.number, "firstSlot": one.first_slot, "lastSlot": one.last_slot, "holder": one.holder,
         "since": one.since, "renewed": one.renewed, "state": one.state.value}
        for one in found.shards
    ]  # fmt: skip
    replicas = [
        {"identity": one.identity, "shards": one.shards, "renewed": one.renewed, "state": one.state.value}
        for one in found.replicas
    ]
    return {"name": name, "namespace": namespace, "shards": shards, "replicas": replicas}


def _age(moment: datetime | None, now: datetime) -> str:
    return "-" if moment is None else ago(moment, now)


def seen_by(inside: Inside, metadata: ObjectMeta) -> Inside:
    """Return the state of an object in a process, which knows nothing about it if another replica has its shard."""
    sharding = inside.state.sharding
    if sharding is None:
        return inside
    return inside._replace(is_elsewhere=_number(metadata, sharding.shards, inside) not in sharding.phases)


def _number(metadata: ObjectMeta, shards: int, inside: Inside | None) -> int:
    """Return the shard in whose name an object is reconciled; a controller that is not sharded belongs to the first."""
    is_sharded = inside is None or all(view.is_sharded for view in inside.views)
    return shard_of(slot_of(metadata), shards) if is_sharded else UNSHARDED


async def name_holder(
    client: Client, kind: type[Resource], metadata: ObjectMeta, explanation: Explanation, now: datetime,
    inside: Inside | None,
) -> Explanation:  # fmt: skip
    """Return an explanation with the shard of the object and its holder as a reason; unchanged without sharding.

    Args:
        client: Lists the Leases of all programs that are sharded.
        kind: The object's kind.
        metadata: Its metadata.
        explanation: The explanation so far.
        now: The moment to judge at.
        inside: Its state in the process of its controllers, whose program is meant; without one, Jobs and CronJobs are
            those of the only program that is sharded.
    """
    is_keyed = bool(inside.views) if inside is not None else kind in (Job, CronJob)
    if explanation.code in _SETTLED or not is_keyed:
        return explanation
    if inside is not None and inside.state.sharding is None:
        return explanation
    shard, program = await _find(client, metadata, now, inside)
    if shard is None or (explanation.code is Code.NO_CONTROLLER and shard.state is LeaseState.HELD):
        return explanation
    where = f"shard {shard.number} of {shard.shards}"
    if shard.state is LeaseState.HELD:
        return replace(explanation, reasons=(*explanation.reasons, f"{where}, held by {shard.holder}"))
    namespace, _, base = program.partition("/")
    remedy = f"to see all shards: kcr shards -n {namespace} --name {base}"
    return replace(
        explanation,
        reasons=(*explanation.reasons, f"{where} has no holder: no replica reconciles its objects"),
        remedies=(*explanation.remedies, remedy),
    )


async def _find(
    client: Client, metadata: ObjectMeta, now: datetime, inside: Inside | None
) -> tuple[ShardView | None, str]:
    """Return the shard of an object, and the program; None where no program, or more than one, may be meant."""
    sharding = None if inside is None else inside.state.sharding
    program = "" if sharding is None else sharding.lease
    try:
        found = await client.list(Lease, program.partition("/")[0], labels=GROUP_LABEL)
    except KcrError:
        return None, ""
    programs = defaultdict(list)
    for lease in found:
        programs[str(Key(lease.metadata.namespace, lease.metadata.labels[GROUP_LABEL]))].append(lease)
    name = program or (next(iter(programs)) if len(programs) == 1 else "")
    shards = overview(programs.get(name, ()), now).shards
    if not shards:
        return None, ""
    return shards[_number(metadata, len(shards), inside)], name
