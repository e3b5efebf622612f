"""Discovery: which kinds a server serves, and where.

Needed where an object says no more than its `apiVersion` and `kind`, as manifests and models of kubernetes-asyncio do;
kcr's own types know their place.
"""

from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from kcr.api.resources import ResourceType
from kcr.errors import ApiError

if TYPE_CHECKING:
    from kcr.client.calls import Calls


class _Entry(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool


class _Resources(msgspec.Struct):
    """An APIResourceList, as far as it is read."""

    resources: tuple[_Entry, ...]


async def served_kinds(client: "Calls", api_version: str) -> dict[str, ResourceType]:
    """Return the kinds that the server serves in a group and version, by name; none where it serves no such group.

    Args:
        client: Asks the server.
        api_version: Such as `batch/v1`.

    Source: client-go/discovery/discovery_client.go, ServerResourcesForGroupVersion.
    """
    group, _, version = api_version.rpartition("/")
    root = f"/apis/{quote(api_version)}" if group else f"/api/{quote(version)}"
    try:
        answer = msgspec.json.decode(await client.request("GET", root), type=_Resources)
    except ApiError as error:
        # For an unknown group, a server answers with a page that is no Status.
        if error.code != 404:
            raise
        return {}
    return {
        entry.kind: ResourceType(group, version, entry.kind, entry.name, entry.namespaced)
        for entry in answer.resources
        if "/" not in entry.name
    }
