"""Rights: a controller's requests to the API server, as RBAC rules."""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

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
    """

    group: str
    resource: str
    verb: str
    namespaced: bool = True


@checked
def rights(kind: type[Resource], *verbs: str, subresource: str = "") -> frozenset[Right]:
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

    Raises:
        ValueError: There is no such verb, or none is given.
    """
    if not verbs or (unknown := [verb for verb in verbs if verb not in _VERBS]):
        what = f"no verb is {unknown[0]!r}" if verbs else "no verb is given"
        raise ValueError(f"rights of {kind.resource.display}: {what}: verbs are {', '.join(_VERBS)}")
    resource = f"{kind.resource.plural}/{subresource}" if subresource else kind.resource.plural
    return frozenset(Right(kind.resource.group, resource, verb, kind.resource.namespaced) for verb in verbs)


def watch_rights(kinds: Iterable[type[Resource]]) -> frozenset[Right]:
    """Return the rights to list and watch kinds, but those of Secrets that kcr reads in one namespace for itself."""
    watched = (rights(kind, "list", "watch") for kind in kinds if not issubclass(kind, SecretData))
    return frozenset().union(*watched)


def policy_rules(wanted: Iterable[Right]) -> list[dict[str, list[str]]]:
    """Return the fewest plain rules of a Role that grant exactly these rights, in a steady order.

    Source: kubernetes/staging/src/k8s.io/api/rbac/v1/types.go, PolicyRule.
    """
    verbs: dict[tuple[str, str], set[str]] = defaultdict(set)
    for right in wanted:
        verbs[right.group, right.resource].add(right.verb)
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for group, resource in sorted(verbs):
        alike[group, tuple(verb for verb in _VERBS if verb in verbs[group, resource])].append(resource)
    return [
        {"apiGroups": [group], "resources": resources, "verbs": list(allowed)}
        for (group, allowed), resources in alike.items()
    ]
