"""Discovery: which kinds a server serves, and where.

Needed where an object says no more than its `apiVersion` and `kind`, as manifests and models of kubernetes-asyncio do,
or where a person names a kind; kcr's own types know their place.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

import msgspec

from kcr.api.meta import Key
from kcr.api.resources import ResourceType
from kcr.errors import ApiError, KcrError, NotFoundError

if TYPE_CHECKING:
    from kcr.client.calls import Calls

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class ServedKind(NamedTuple):
    """A kind that a server serves, and the names that people give it.

    Attributes:
        resource: Where it lives.
        singular: Its name for one object, in lower case.
        short_names: Abbreviations.
    """

    resource: ResourceType
    singular: str
    short_names: tuple[str, ...]

    @property
    def names(self) -> frozenset[str]:
        """All that people call it, in lower case, without its group."""
        return frozenset({self.resource.plural, self.singular, self.resource.kind.lower(), *self.short_names})

    def matches(self, text: str) -> bool:
        """Return whether a text names it: `deploy`, `Deployment`, `deployments.apps`, `deployments.v1.apps`."""
        name, _, suffix = text.lower().partition(".")
        group, version = self.resource.group, self.resource.version
        # A group of the API is in lower case.
        return name in self.names and suffix in ("", group, f"{version}.{group}" if group else version)


async def all_served_kinds(client: "Calls") -> tuple[ServedKind, ...]:
    """Return all kinds that the server serves, in its order: core first, then by group, preferred versions first.

    Args:
        client: Asks the server, by aggregated discovery.

    Source: client-go/discovery/aggregated_discovery.go, SplitGroupsAndResources.
    """
    found: list[ServedKind] = []
    for root in ("/api", "/apis"):
        body = await client.request("GET", root, accept=_AGGREGATED)
        found += _kinds_of(msgspec.json.decode(body, type=_Groups).items)
    return tuple(found)


def find_kind(kinds: Iterable[ServedKind], text: str) -> ServedKind | None:
    """Return the kind that a text names as kubectl reads it; None for none.

    A short name has precedence over the full name of another kind; of several the first in the server's order.

    Source: client-go/restmapper/shortcut.go, expandResourceShortcut.
    """
    named = [kind for kind in kinds if kind.matches(text)]
    short = text.lower().partition(".")[0]
    return next((kind for kind in named if short in kind.short_names), next(iter(named), None))


def near_names(kinds: Iterable[ServedKind], text: str) -> tuple[str, ...]:
    """Return kinds, such as `websites.example.dev`, with names similar to an unknown one; the nearest first."""
    from difflib import get_close_matches  # noqa: PLC0415  # for a slip of the finger alone

    name = text.lower().partition(".")[0]
    displayed = {known: kind.resource.display for kind in reversed(tuple(kinds)) for known in kind.names}
    return tuple(dict.fromkeys(displayed[near] for near in get_close_matches(name, displayed)))


def _kinds_of(groups: Sequence["_Group"]) -> Iterable[ServedKind]:
    for group in groups:
        for version in group.versions:
            for one in version.resources:
                if one.response_kind is not None and one.response_kind.kind:
                    kind, namespaced = one.response_kind.kind, one.scope == "Namespaced"
                    place = ResourceType(group.metadata.name, version.version, kind, one.resource, namespaced)
                    yield ServedKind(place, one.singular, one.short_names)


class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    """A part of an APIGroupDiscoveryList, as far as it is read."""


class _Kind(_Wire, frozen=True):
    kind: str = ""


class _Resource(_Wire, frozen=True):
    resource: str
    scope: str = ""
    response_kind: _Kind | None = None
    singular: str = msgspec.field(default="", name="singularResource")
    short_names: tuple[str, ...] = ()


class _Version(_Wire, frozen=True):
    version: str
    resources: tuple[_Resource, ...] = ()


class _GroupName(_Wire, frozen=True):
    name: str = ""


class _Group(_Wire, frozen=True):
    metadata: _GroupName = _GroupName()
    versions: tuple[_Version, ...] = ()


class _Groups(_Wire, frozen=True):
    items: tuple[_Group, ...] = ()


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
    return {
        entry.kind: ResourceType(group, version, entry.kind, entry.name, entry.namespaced)
        for entry in await _entries(client, api_version)
        if "/" not in entry.name
    }


async def served_resources(client: "Calls", api_version: str) -> frozenset[str]:
    """Return the resources that the server serves in a group and version, with subresources: `jobs`, `jobs/status`.

    Args:
        client: Asks the server.
        api_version: Such as `batch/v1`.
    """
    return frozenset(entry.name for entry in await _entries(client, api_version))


async def serves(client: "Calls", resource: ResourceType, subresource: str, *, anew: bool = False) -> bool | None:
    """Return whether the server serves a subresource of a kind, which is remembered; None if it does not tell.

    Args:
        client: Asks the server.
        resource: The kind.
        subresource: Such as `status`.
        anew: Whether to ask again where it did not: its definition may have changed.
    """
    known, name = client.served_subresources, (resource, subresource)
    if name not in known or (anew and not known[name]):
        with suppress(KcrError, msgspec.DecodeError):
            names = await served_resources(client, resource.api_version)
            if resource.plural in names:
                known[name] = f"{resource.plural}/{subresource}" in names
    return known.get(name)


async def check_subresource(
    client: "Calls", resource: ResourceType, key: Key, subresource: str, error: BaseException
) -> None:
    """Raise another error than "not found" if the server has no such subresource, whether the object exists or not.

    But for the scale, it is no NotFoundError: reconcilers take that for an object that is deleted.
    """
    if isinstance(error, NotFoundError) and await serves(client, resource, subresource, anew=True) is False:
        what = f"{resource.plural} of {resource.api_version} have no subresource {subresource!r}"
        remedy = f"add `subresources: {{{subresource}: {{}}}}` to this version in their CustomResourceDefinition"
        text = f"{resource.display} {key}: there is no {subresource}, because {what}: {remedy}"
        kind = NotFoundError if subresource == "scale" else ApiError
        raise kind(error.code, error.reason, text) from error


async def _entries(client: "Calls", api_version: str) -> tuple[_Entry, ...]:
    group, _, version = api_version.rpartition("/")
    root = f"/apis/{quote(api_version)}" if group else f"/api/{quote(version)}"
    try:
        return msgspec.json.decode(await client.request("GET", root), type=_Resources).resources
    except ApiError as error:
        # For an unknown group, a server answers with a page that is no Status.
        if error.code != 404:
            raise
        return ()


async def versions_serving(client: "Calls", kind: str) -> str:
    """Return the groups and versions in which the server serves a kind, for a message: `batch/v1, batch/v1beta1`.

    Args:
        client: Asks the server.
        kind: Its name, such as `Job`; empty is returned if the server does not serve it, or does not answer.
    """
    with suppress(KcrError, msgspec.DecodeError):
        found = [one.resource.api_version for one in await all_served_kinds(client) if one.resource.kind == kind]
        return ", ".join(dict.fromkeys(found))
    return ""
