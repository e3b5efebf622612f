"""Rights: a controller's requests to the API server, as RBAC rules."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kcr.annotations import Text
from kcr.api.core import SecretData
from kcr.api.meta import Resource
from kcr.arguments import checked

# The order in which Kubernetes' own roles name verbs.
_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")


class Right(NamedTuple):
    """One verb on one resource.

    Attributes:
        group: The API group, `""` for core.
        resource: The plural, with a subresource behind a slash, such as `jobs/status`.
        verb: The verb, such as `create`.
        namespaced: Whether objects live in namespaces. A Role grants nothing on those that do not.
        name: The one object that it is limited to (`resourceNames`); empty for all.
    """

    group: str
    resource: str
    verb: str
    namespaced: bool = True
    name: str = ""


@checked
def rights(kind: type[Resource], *verbs: str, subresource: str = "", names: Sequence[Text] = ()) -> frozenset[Right]:
    """Return the rights for verbs on a kind: a controller's declaration of its own requests.

    ```python
    manager.add_controller(
        "website", reconciler, watches=[kcr.watch(Website)],
        rights=kcr.rights(ConfigMap, "get", "create", "patch") | kcr.rights(Website, "patch", subresource="status"),
    )
    ```

    Args:
        kind: The kind.
        verbs: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
        subresource: For example `status`; empty for the object itself.
        names: The objects; empty for all. A create has no name.

    Raises:
        ValueError: There is no such verb, or none is given.
    """
    if not verbs or (unknown := [verb for verb in verbs if verb not in _VERBS]):
        what = f"no verb is {unknown[0]!r}" if verbs else "no verb is given"
        raise ValueError(f"rights of {kind.resource.display}: {what}: verbs are {', '.join(_VERBS)}")
    if names and (nameless := {"create", "deletecollection"}.intersection(verbs)):
        raise ValueError(f"rights of {kind.resource.display}: {min(nameless)} has no name: declare it without names")
    resource = f"{kind.resource.plural}/{subresource}" if subresource else kind.resource.plural
    where = kind.resource.group, kind.resource.namespaced
    return frozenset(Right(where[0], resource, verb, where[1], name) for verb in verbs for name in names or ("",))


def watch_rights(kinds: Iterable[type[Resource]]) -> frozenset[Right]:
    """Return the rights to list and watch kinds, but those of Secrets that kcr reads in one namespace for itself."""
    watched = (rights(kind, "list", "watch") for kind in kinds if not issubclass(kind, SecretData))
    return frozenset().union(*watched)


def policy_rules(wanted: Iterable[Right]) -> list[dict[str, list[str]]]:
    """Return the fewest plain rules of a Role that grant exactly these rights, in a steady order.

    Source: kubernetes/staging/src/k8s.io/api/rbac/v1/types.go, PolicyRule.
    """
    verbs: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for right in wanted:
        verbs[right.group, right.resource, right.name].add(right.verb)
    names: dict[tuple[str, str, tuple[str, ...]], list[str]] = defaultdict(list)
    for group, resource, name in sorted(verbs):
        found = verbs[group, resource, name]
        others = sorted(found.difference(_VERBS))  # such as impersonate
        names[group, resource, (*(verb for verb in _VERBS if verb in found), *others)].append(name)
    alike: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = defaultdict(list)
    for (group, resource, allowed), named in names.items():
        alike[group, allowed, () if "" in named else tuple(named)].append(resource)
    return [
        {"apiGroups": [group], "resources": resources}
        | ({"resourceNames": [*objects]} if objects else {})
        | {"verbs": [*allowed]}
        for (group, allowed, objects), resources in alike.items()
    ]
