"""The APIServices of this server: they follow the groups and versions that are served.

They are stored when a client first asks for APIServices: a cluster whose clients never do has none.

Source: kube-aggregator/pkg/controllers/autoregister/autoregister_controller.go.
"""

from collections.abc import Mapping

from kcr_devcluster.apiserver.kinds.catalogue import API_SERVICES
from kcr_devcluster.apiserver.kinds.served import ServedIndex
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.registry.deletion import DeleteOptions, delete
from kcr_devcluster.apiserver.registry.registry import Registry

# The priority of a group among all, and of its versions: upstream's, and those of custom resources.
_GROUP_PRIORITIES: Mapping[str, int] = {
    "": 18_000, "apps": 17_800, "events.k8s.io": 17_750, "autoscaling": 17_500, "batch": 17_400,
    "networking.k8s.io": 17_200, "extensions": 17_150, "policy": 17_100, "rbac.authorization.k8s.io": 17_000,
    "storage.k8s.io": 16_800, "apiextensions.k8s.io": 16_700, "scheduling.k8s.io": 16_600,
    "coordination.k8s.io": 16_500, "node.k8s.io": 16_300, "discovery.k8s.io": 16_200,
}  # fmt: skip
_VERSION_PRIORITIES: Mapping[str, int] = {"": 1, "autoscaling/v2": 30, "batch/v1beta1": 9, "extensions/v1beta1": 1}
_BUILTIN_VERSION, _CUSTOM_GROUP, _CUSTOM_VERSION = 15, 1_000, 100
_MANAGED = "kube-aggregator.kubernetes.io/automanaged"


class LocalAPIServices:
    """Keeps one APIService per group and version that is served, once `start` was called.

    One that a user has made for the same group and version is left as it is.
    """

    def __init__(self, registry: Registry, routes: ServedIndex) -> None:
        self._registry = registry
        self._routes = routes
        self._started = False

    def start(self) -> None:
        """Store those that are missing; from now on they follow the served groups and versions."""
        if not self._started:
            self._started = True
            self.sync()

    def sync(self) -> None:
        """Store the missing ones and delete those no longer served; does nothing before `start`."""
        if not self._started:
            return
        storage = self._registry.storage
        wanted = {
            f"{version}.{group}": (group, version)
            for group, versions in self._routes.groups.items()
            for version in versions
            if group != API_SERVICES.type.group
        }
        for record in tuple(storage.cache(API_SERVICES).records.values()):
            if _MANAGED in record.metadata.labels and record.metadata.name not in wanted:
                delete(self._registry, record, DeleteOptions())
        for name, (group, version) in wanted.items():
            if storage.get(API_SERVICES, "", name) is None:
                made = _api_service(group, version, is_custom=self._routes.is_custom_group(group))
                self._registry.create(API_SERVICES, "", made)


def _api_service(group: str, version: str, *, is_custom: bool) -> Manifest:
    """Return the APIService of a group and version that this server answers for.

    Args:
        group: `""` for the core group.
        version: The version.
        is_custom: Whether its kinds are custom resources.
    """
    if is_custom:
        priorities = _CUSTOM_GROUP, _CUSTOM_VERSION
    else:
        version_priority = _VERSION_PRIORITIES.get(f"{group}/{version}" if group else "", _BUILTIN_VERSION)
        priorities = _GROUP_PRIORITIES.get(group, _CUSTOM_GROUP), version_priority
    spec = {"version": version, "groupPriorityMinimum": priorities[0], "versionPriority": priorities[1]}
    return {
        "metadata": {"name": f"{version}.{group}", "labels": {_MANAGED: "true" if is_custom else "onstart"}},
        "spec": {**spec, "group": group} if group else spec,
    }
