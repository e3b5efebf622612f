"""Attributes of a request that authorization decides by, and the 403 of a request that is refused.

They follow from method and path alone, so that a user without rights gets 403 for objects, kinds and paths that do not
exist.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/endpoints/request/requestinfo.go, NewRequestInfo;
pkg/endpoints/handlers/responsewriters/errors.go, ForbiddenStatusError.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from kcr_devcluster.apiserver.authentication import User
from kcr_devcluster.apiserver.protocol.names import path_segment
from kcr_devcluster.apiserver.protocol.query import Query
from kcr_devcluster.apiserver.protocol.responses import StatusError
from kcr_devcluster.apiserver.storage.selectors import parse_fields

_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAMESPACE_SUBRESOURCES = ("status", "finalize")
# Avoids errors that resemble HTML.
_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Attributes(NamedTuple):
    """The attributes of a request, for its authorization.

    Attributes:
        verb: Such as `list`, `deletecollection` or `impersonate`; of a path, the method in lower case.
        group: The API group, `""` for the core group.
        resource: The plural of the kind.
        subresource: Such as `status`; `""` for none.
        namespace: `""` for the cluster scope; that of a namespace is the namespace itself.
        name: The object; `""` for a collection.
        path: The path where there is no resource, else `""`.
    """

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def resource_path(self) -> str:
        """The resource with its subresource, as rules name them: `pods/log`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def request_attributes(method: str, path: str, query: Query) -> Attributes:
    """Return the attributes of a request.

    Args:
        method: The HTTP method.
        path: The path.
        query: The query: it tells a watch from a list, and may name one object.
    """
    steps = path.strip("/").split("/")
    match steps:
        case ["api", _, _, *_]:
            group, steps = "", steps[2:]
        case ["apis", group, _, _, *_]:
            steps = steps[3:]
        case _:
            return Attributes(method.lower(), path=path)
    verb = _VERBS.get(method, "")
    if steps[0] in ("watch", "proxy") and len(steps) > 1:
        verb, steps = steps[0], steps[1:]
    namespace = ""
    if steps[0] == "namespaces" and len(steps) > 1:
        namespace = steps[1]
        if len(steps) > 2 and steps[2] not in _NAMESPACE_SUBRESOURCES:
            steps = steps[2:]
    resource, name, subresource = (*steps, "", "")[:3]
    if not name and verb == "get":
        verb = "watch" if query.flag("watch") else "list"
        name = _selected_name(query)
    elif not name and verb == "delete":
        verb = "deletecollection"
    return Attributes(verb, group, resource, subresource, namespace, name)


def _selected_name(query: Query) -> str:
    """Return the name of the one object that a field selector leaves, `""` without such a selector."""
    try:
        terms = parse_fields(query.text("fieldSelector"))
    except StatusError:
        return ""
    names = [term.value for term in terms if term.path == "metadata.name" and not term.negated]
    return names[0] if names and not path_segment(names[0]) else ""


def forbidden(user: User, wanted: Attributes, reason: str = "") -> StatusError:
    """Return the 403 of a user whose request is not allowed.

    Args:
        user: The user.
        wanted: The attributes of the refused request.
        reason: The authorizer's reason, `""` for none.
    """
    words = _refusal(user, wanted).translate(_HTML)
    return refused(wanted, f"{words}: {reason}" if reason else words)


def refused(wanted: Attributes, why: str) -> StatusError:
    """Return the 403 of a request, for any reason.

    Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go, NewForbidden.
    """
    display = f"{wanted.resource}.{wanted.group}" if wanted.group else wanted.resource
    subject = f'{display} "{wanted.name}" is ' if wanted.name else f"{display} is " if display else ""
    members = {"name": wanted.name, "group": wanted.group, "kind": wanted.resource}
    details = {member: value for member, value in members.items() if value}
    return StatusError(403, "Forbidden", f"{subject}forbidden: {why}", details=details)


def _refusal(user: User, wanted: Attributes) -> str:
    who = f"User {quoted(user.username)} cannot {wanted.verb}"
    if wanted.path:
        return f"{who} path {quoted(wanted.path)}"
    scope = f"in the namespace {quoted(wanted.namespace)}" if wanted.namespace else "at the cluster scope"
    return f"{who} resource {quoted(wanted.resource_path)} in API group {quoted(wanted.group)} {scope}"


def quoted(value: str | Sequence[str]) -> str:
    """Return a text in quotes, or several in brackets, as Go's `%q`."""
    if isinstance(value, str):
        return msgspec.json.encode(value).decode()
    return f"[{' '.join(quoted(one) for one in value)}]"
