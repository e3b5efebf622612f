"""Requests as verb and resource, for rules of faults and for timelines."""

from collections.abc import Mapping
from typing import Literal, NamedTuple
from urllib.parse import unquote

Verb = Literal["get", "list", "watch", "create", "update", "patch", "delete"]

_VERBS: Mapping[str, Verb] = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Call(NamedTuple):
    """A request, as verb and resource.

    Attributes:
        verb: The API verb.
        resource: Group, version and plural; all empty for a request that is not about a resource.
        name: The object's name, empty for a collection.
        subresource: Such as `status`.
    """

    verb: Verb
    resource: tuple[str, str, str] = ("", "", "")
    name: str = ""
    subresource: str = ""


def call_of(method: str, target: str) -> Call:
    """Return verb and resource of a request.

    Args:
        method: The HTTP method.
        target: Path and query, percent-encoded.
    """
    path, _, query = target.partition("?")
    steps = [unquote(step) for step in path.removeprefix("/").split("/")]
    if steps[0] == "api" and len(steps) > 2:
        group, version, *rest = "", *steps[1:]
    elif steps[0] == "apis" and len(steps) > 3:
        group, version, *rest = steps[1:]
    else:
        return Call(_VERBS.get(method, "get"))
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        rest = rest[2:]
    plural, name, subresource = (*rest, "", "")[:3]
    reading: Verb = "get" if name else "watch" if "watch=" in query else "list"
    return Call(_VERBS.get(method, reading), (group, version, plural), name, subresource)
