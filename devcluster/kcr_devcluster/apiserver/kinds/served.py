"""The index of served kinds: groups and their versions, in the order of discovery."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache, partial

from kcr_devcluster.apiserver.kinds.catalogue import KINDS
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.schema.builtin import is_served
from kcr_devcluster.versions import DEFAULT, TRAITS, KubernetesVersion

# The groups of Kubernetes in the order of their priorities; those of definitions follow.
_GROUPS = {
    name: place
    for place, name in enumerate((
        "", "apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io",
        "autoscaling", "batch", "certificates.k8s.io", "networking.k8s.io", "policy", "rbac.authorization.k8s.io",
        "storage.k8s.io", "admissionregistration.k8s.io", "apiextensions.k8s.io", "scheduling.k8s.io",
        "coordination.k8s.io", "node.k8s.io", "discovery.k8s.io", "resource.k8s.io", "flowcontrol.apiserver.k8s.io",
        "storagemigration.k8s.io",
    ))
}  # fmt: skip
_VERSION = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?")


def version_priority(version: str) -> tuple[int, int, int, str]:
    """Return the sort key of a version in its group: released before beta before alpha, the highest first.

    Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/version/helpers.go, CompareKubeAwareVersionStrings.
    """
    found = _VERSION.fullmatch(version)
    if found is None:
        return 3, 0, 0, version
    return {None: 0, "beta": 1, "alpha": 2}[found[2]], -int(found[1]), -int(found[3] or 0), ""


def kinds_in(kinds: Iterable[Kind], version: KubernetesVersion) -> tuple[Kind, ...]:
    """Return those of the kinds that a version of Kubernetes has."""
    return tuple(kind for kind in kinds if is_served(kind.type.api_version, kind.type.kind, version))


@cache
def with_traits(kind: Kind, version: KubernetesVersion) -> Kind:
    """Return a kind with the traits that it has in a version of Kubernetes."""
    traits, name = TRAITS[version], kind.type.display
    if name not in traits.strategies:
        return kind
    made, conversion = partial(kind.make_strategy, **traits.strategies[name]), kind.conversion
    if conversion is not None:
        conversion = conversion._replace(hub=with_traits(conversion.hub, version))
    return replace(kind, make_strategy=made, printer=traits.printers.get(name, ""), conversion=conversion)


class ServedIndex:
    """The kinds that are served now: the built-in ones, and those of definitions.

    Attributes:
        version: The version of Kubernetes.
        builtin: The kinds that are always served.
        kinds: All kinds that are served now.
        groups: Their groups, each with its versions.
        by_place: All of them by group, version and plural.
        generation: Grows with each change of the served kinds.
    """

    def __init__(self, kinds: Iterable[Kind], version: KubernetesVersion = DEFAULT) -> None:
        """Serve kinds as a version of Kubernetes."""
        self.version: KubernetesVersion = version
        self.builtin: tuple[Kind, ...] = tuple(kinds)
        self.generation: int = 0
        # By the name of their definition.
        self._custom: dict[str, tuple[Kind, ...]] = {}
        self._builtin_groups = {kind.type.group for kind in self.builtin}
        self._index()

    def set_custom(self, name: str, kinds: tuple[Kind, ...]) -> None:
        """Serve the kinds of a definition, those and no others.

        Args:
            name: The name of the definition.
            kinds: Its kinds; empty for none.
        """
        if kinds:
            self._custom[name] = kinds
        else:
            self._custom.pop(name, None)
        self.generation += 1
        self._index()

    def is_custom_group(self, group: str) -> bool:
        """Return whether a group has custom resources only."""
        return group not in self._builtin_groups

    def _index(self) -> None:
        custom = (kind for name in sorted(self._custom) for kind in self._custom[name])
        self.kinds: tuple[Kind, ...] = (*self.builtin, *custom)
        self.by_place: dict[tuple[str, str, str], Kind] = {
            (k.type.group, k.type.version, k.type.plural): k for k in self.kinds
        }
        current = {k.type.group for k in self.kinds if k.conversion is None or not k.conversion.warning}
        # Groups that hold nothing but deprecated versions come last.
        self.groups: Mapping[str, tuple[str, ...]] = {
            group: self._versions(group)
            for group in sorted(
                {k.type.group for k in self.kinds},
                key=lambda name: (name not in current, _GROUPS.get(name, len(_GROUPS)), name),
            )
        }

    def _versions(self, group: str) -> tuple[str, ...]:
        found = dict.fromkeys(kind.type.version for kind in self.kinds if kind.type.group == group)
        return tuple(sorted(found, key=version_priority)) if self.is_custom_group(group) else tuple(found)


def kind_named(api_version: str, name: str) -> Kind:
    """Return a built-in kind that has no name of its own here, such as StorageClass of `storage.k8s.io/v1`."""
    return next(kind for kind in KINDS if (kind.type.api_version, kind.type.kind) == (api_version, name))
