"""Sharding at the first contact with an API server: the rights on Leases, and whether the server filters by shard."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kcr.api import codec
from kcr.api.coordination import Lease
from kcr.api.meta import Object
from kcr.api.slots import SLOTS
from kcr.app.checks import Finding, missing_rights
from kcr.app.permissions import Need, Permissions
from kcr.client import Client
from kcr.controller import rights
from kcr.errors import ForbiddenError, KcrError
from kcr.informer import Selection
from kcr.informer.slots import SlotRules, SlotSelection

_FILTERS = "the API server filters unlabelled objects by shard (KEP-5866)"
_FILTERS_NOT = "the API server does not filter by shard; kcr drops foreign objects before decoding"
_NOT_TOLD = "not told whether the API server filters by shard: no watched kind can be listed"
# Without these a replica takes no shard, and would wait for ever; without `delete` its sign of life merely stays.
_NEEDED = rights(Lease, "list", "watch", "create", "update")
# Not all of them: the API server has nothing to filter then.
_HALF = SlotSelection(frozenset(range(SLOTS // 2)), is_labelled=False, rules=SlotRules(is_root=True))


class _ListMetadata(Object):
    shard_info: Mapping[str, Any] = {}


class _List(Object):
    metadata: _ListMetadata = _ListMetadata()


async def check_shard_leases(permissions: Permissions, namespace: str) -> None:
    """Check that the Leases of sharding can be watched and written, or this replica would hold no shard, endlessly.

    Args:
        permissions: What is known of the rights.
        namespace: The namespace of the Leases.

    Raises:
        ForbiddenError: They cannot.
    """
    answers = await permissions.ask(Need.of(right, namespace) for right in sorted(_NEEDED))
    if missing := [need.right for need, granted in answers.items() if granted is False]:
        raise ForbiddenError(403, "Forbidden", f"{missing_rights(missing, namespace)}, and sharding needs it")


async def filter_finding(client: Client, selections: Iterable[Selection[Any]]) -> Finding:
    """Return which of the two filters unlabelled objects by their shard: the API server, or kcr.

    Args:
        client: Lists one object of the first kind that can be listed.
        selections: What is to be watched.

    Source: KEP-5866: `metadata.shardInfo` of a list is present where the server has obeyed the `shardSelector`.
    """
    for selection in sorted(selections, key=str):
        try:
            body = await client.request("GET", selection._replace(slots=_HALF).target({"limit": 1}))
            has_filtered = bool(codec.decode(_List, body).metadata.shard_info)
        except (KcrError, msgspec.DecodeError):
            continue
        return Finding("sharding", False, _FILTERS if has_filtered else _FILTERS_NOT)
    return Finding("sharding", False, _NOT_TOLD)
