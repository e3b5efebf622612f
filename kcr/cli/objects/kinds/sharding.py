"""Which replica reconciles an object under sharding, from the Leases: one line of an explanation."""

from collections import defaultdict
from datetime import datetime

from msgspec.structs import replace

from kcr.api.batch import CronJob, Job
from kcr.api.coordination import Lease
from kcr.api.explanation import Code, Explanation
from kcr.api.meta import Key, ObjectMeta, Resource
from kcr.api.slots import shard_of, slot_of
from kcr.cli.objects.inside import Inside
from kcr.client import Client
from kcr.errors import KcrError
from kcr.scopes.sharding.leases import GROUP_LABEL
from kcr.scopes.sharding.overview import LeaseState, ShardView, overview
from kcr.scopes.sharding.shards import UNSHARDED

# Finished objects, and those of another controller, are reconciled by no replica.
_SETTLED = frozenset({Code.FINISHED, Code.FAILED, Code.MANAGED_BY_ANOTHER, Code.NOT_FOUND})


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
