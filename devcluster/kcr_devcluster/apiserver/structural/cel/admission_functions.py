"""The functions of expressions of admission: variables that are evaluated when needed, the authorizer, JSON pointers.

The library has functions, and no objects of ours. So an evaluation has a number, which values carry; by it the
functions find the variables and the authorizer.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/cel/library/{authz,jsonpatch}.go, pkg/cel/lazy/lazy.go.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any, Protocol

from kcr_devcluster.apiserver.protocol.names import dns_label, dns_subdomain
from kcr_devcluster.apiserver.structural.cel.functions import Overload
from kcr_devcluster.apiserver.structural.cel.syntax_tree import VARIABLE_FUNCTION

_TOKEN, _ALLOWED = "@authorizer", "@allowed"
_TEXT, _ANY = "string", "dyn"


class Host(Protocol):
    """An evaluation, as the functions of its expressions see it."""

    def variable(self, name: str) -> Any:
        """Return the value of a variable.

        Raises:
            ValueError: It has none; the message is cel-go's.
        """
        ...

    def authorize(self, wanted: Mapping[str, str]) -> tuple[bool, str]:
        """Return whether a user may do something, and why.

        Args:
            wanted: `verb`, and `path` or `group`, `resource`, `subresource`, `namespace` and `name`;
                `serviceAccount` as namespace and name where it is not the user of the request.
        """
        ...


# The evaluations that run now, by their numbers.
_hosts: dict[int, Host] = {}
_numbers = count(1)


@contextmanager
def hosted(host: Host) -> Iterator[int]:
    """Give an evaluation its number while it runs."""
    number = next(_numbers)
    _hosts[number] = host
    try:
        yield number
    finally:
        del _hosts[number]


def authorizer(number: int, resource: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the variable `authorizer` of an evaluation, with `requestResource`.

    Args:
        number: The number of the evaluation.
        resource: The resource of the request, see `Host.authorize`.
    """
    return {_TOKEN: number, "requestResource": {_TOKEN: number, **resource}}


def _variable(number: Any, name: str) -> Any:
    return _hosts[number].variable(name)


def _with(*members: str) -> Callable[..., dict[str, Any]]:
    """Return the function that adds members to a check that is being put together."""

    def call(given: Any, *values: Any) -> dict[str, Any]:
        if not isinstance(given, dict) or _TOKEN not in given:
            raise ValueError("no such overload")
        kept = {name: value for name, value in given.items() if name != "requestResource"}
        return kept | dict(zip(members, values, strict=True))

    return call


def _service_account(given: Any, namespace: str, name: str) -> dict[str, Any]:
    if dns_subdomain(name):
        raise ValueError(f"Invalid service account name: {'; '.join(dns_subdomain(name))}")
    if dns_label(namespace):
        raise ValueError(f"Invalid service account namespace: {'; '.join(dns_label(namespace))}")
    return _with("serviceAccount")(given, f"{namespace}:{name}")


def _check(given: Any, verb: str) -> dict[str, Any]:
    asked = _with("verb")(given, verb)
    allowed, reason = _hosts[asked.pop(_TOKEN)].authorize(asked)
    return {_ALLOWED: allowed, "reason": reason}


def _path(given: Any, path: str) -> dict[str, Any]:
    if not path:
        raise ValueError("path must not be empty")
    return _with("path")(given, path)


def _of_decision(member: str, otherwise: Any) -> Callable[[Any], Any]:
    def call(given: Any) -> Any:
        if not isinstance(given, dict) or _ALLOWED not in given:
            raise ValueError("no such overload")
        return given.get(member, otherwise)

    return call


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


_ONE, _TWO = (_ANY,), (_ANY, _TEXT)

ADMISSION_FUNCTIONS: Mapping[str, tuple[Overload, ...]] = {
    VARIABLE_FUNCTION: (Overload(_ANY, _TWO, _variable, False),),
    "path": (Overload(_ANY, _TWO, _path),),
    "group": (Overload(_ANY, _TWO, _with("group")),),
    "serviceAccount": (Overload(_ANY, (_ANY, _TEXT, _TEXT), _service_account),),
    "resource": (Overload(_ANY, _TWO, _with("resource")),),
    "subresource": (Overload(_ANY, _TWO, _with("subresource")),),
    "namespace": (Overload(_ANY, _TWO, _with("namespace")),),
    "name": (Overload(_ANY, _TWO, _with("name")),),
    "fieldSelector": (Overload(_ANY, _TWO, _with("fieldSelector")),),
    "labelSelector": (Overload(_ANY, _TWO, _with("labelSelector")),),
    "check": (Overload(_ANY, _TWO, _check),),
    "allowed": (Overload("bool", _ONE, _of_decision(_ALLOWED, False)),),
    "reason": (Overload(_TEXT, _ONE, _of_decision("reason", "")),),
    "errored": (Overload("bool", _ONE, _of_decision("@errored", False)),),
    "error": (Overload(_TEXT, _ONE, _of_decision("@error", "")),),
    "jsonpatch.escapeKey": (Overload(_TEXT, (_TEXT,), _escaped, False),),
}  # fmt: skip
