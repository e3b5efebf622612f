"""The variable `authorizer`: checks of what the user of a request, or a service account, may do.

Source: k8s.io/apiserver/pkg/cel/library/authz.go.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

from kcr_devcluster.apiserver.cel.libraries.overloads import Functions, Overload
from kcr_devcluster.apiserver.cel.values import EvaluationError
from kcr_devcluster.apiserver.protocol.names import dns_label, dns_subdomain

_PREFIX = "kubernetes.authorization."
_DECISION = f"{_PREFIX}Decision"


class Decision(NamedTuple):
    """What an authorizer says.

    Attributes:
        is_allowed: Whether the user may.
        reason: Why, or why not.
        error: What went wrong; empty for nothing.
    """

    is_allowed: bool
    reason: str = ""
    error: str = ""

    @property
    def cel_type(self) -> str:
        """The name of the type."""
        return _DECISION


# The argument is what is wanted: `verb`, and `path` or `group`, `resource`, `subresource`, `namespace`, `name`,
# `fieldSelector` and `labelSelector`; `serviceAccount` as namespace and name where it is not the user of the request.
Authorize = Callable[[Mapping[str, str]], Decision]


class _Check(NamedTuple):
    """Part of a question."""

    authorize: Authorize
    wanted: Mapping[str, str] = {}

    def with_(self, **wanted: str) -> Any:
        """Return the question with more of it."""
        return type(self)(self.authorize, {**self.wanted, **wanted})


class Authorizer(_Check):
    """A question without an object."""

    cel_type: ClassVar[str] = f"{_PREFIX}Authorizer"


class PathCheck(_Check):
    """A question about a path that is no resource."""

    cel_type: ClassVar[str] = f"{_PREFIX}PathCheck"


class GroupCheck(_Check):
    """A question about a group of resources."""

    cel_type: ClassVar[str] = f"{_PREFIX}GroupCheck"


class ResourceCheck(_Check):
    """A question about a resource."""

    cel_type: ClassVar[str] = f"{_PREFIX}ResourceCheck"


def _path(given: Authorizer, path: str) -> PathCheck:
    if not path.strip():
        raise EvaluationError("path must not be empty")
    return PathCheck(given.authorize, {**given.wanted, "path": path})


def _service_account(given: Authorizer, namespace: str, name: str) -> Any:
    if dns_subdomain(name):
        raise EvaluationError("Invalid service account name")
    if dns_label(namespace):
        raise EvaluationError("Invalid service account namespace")
    return given.with_(serviceAccount=f"{namespace}:{name}")


def _resource(given: GroupCheck, resource: str) -> ResourceCheck:
    if not resource.strip():
        raise EvaluationError("resource must not be empty")
    return ResourceCheck(given.authorize, {**given.wanted, "resource": resource})


def _check(given: _Check, verb: str) -> Decision:
    return given.authorize({**given.wanted, "verb": verb})


_TEXT, _RESOURCE = "string", ResourceCheck.cel_type


def _more(overload: str, name: str) -> tuple[Overload, ...]:
    """Return how a question about a resource gets more precise."""
    return (Overload(overload, _RESOURCE, (_RESOURCE, _TEXT), lambda given, value: given.with_(**{name: value})),)


def _answer(name: str, returns: str, call: Callable[[Decision], Any]) -> tuple[Overload, ...]:
    return (Overload(f"decision_{name}", returns, (_DECISION,), call),)


FUNCTIONS: Functions = {
    "path": (Overload("authorizer_path", PathCheck.cel_type, (Authorizer.cel_type, _TEXT), _path),),
    "group": (
        Overload(
            "authorizer_group", GroupCheck.cel_type, (Authorizer.cel_type, _TEXT),
            lambda given, group: GroupCheck(given.authorize, {**given.wanted, "group": group}),
        ),
    ),
    "serviceAccount": (
        Overload(
            "authorizer_serviceaccount", Authorizer.cel_type, (Authorizer.cel_type, _TEXT, _TEXT), _service_account
        ),
    ),
    "resource": (Overload("groupcheck_resource", _RESOURCE, (GroupCheck.cel_type, _TEXT), _resource),),
    "subresource": _more("resourcecheck_subresource", "subresource"),
    "namespace": _more("resourcecheck_namespace", "namespace"),
    "name": _more("resourcecheck_name", "name"),
    "fieldSelector": _more("authorizer_fieldselector", "fieldSelector"),
    "labelSelector": _more("authorizer_labelselector", "labelSelector"),
    "check": (
        Overload("pathcheck_check", _DECISION, (PathCheck.cel_type, _TEXT), _check),
        Overload("resourcecheck_check", _DECISION, (_RESOURCE, _TEXT), _check),
    ),
    "allowed": _answer("allowed", "bool", lambda decision: decision.is_allowed),
    "reason": _answer("reason", _TEXT, lambda decision: decision.reason),
    "errored": _answer("errored", "bool", lambda decision: decision.error != ""),
    "error": _answer("error", _TEXT, lambda decision: decision.error),
}  # fmt: skip
