"""Copies ConfigMaps of the home cluster to all member clusters, and keeps the copies right.

A ConfigMap asks for it with the label `fleet.example.dev/copy: "true"`. Its copies carry `fleet.example.dev/copied:
"true"`; a copy whose source no longer asks for it is deleted, and a ConfigMap without this label is left alone.

The members are the Secrets of the namespace `fleet` that have the label
`sigs.k8s.io/multicluster-runtime-kubeconfig: "true"` and a kubeconfig in their field `kubeconfig`.

Run it on the cluster of your kubeconfig: `python -m examples.fleet.fleet`
"""

from datetime import timedelta

from msgspec.structs import replace

import kcr
from kcr.api.core import ConfigMap
from kcr.clusters import MemberCluster
from kcr.controller import labels_match

COPY, COPIED = "fleet.example.dev/copy", "fleet.example.dev/copied"
NAMESPACE = "fleet"
# How soon the namespace of a copy is tried again.
PATIENCE = timedelta(seconds=30)


class FleetReconciler:
    """Makes one ConfigMap in one member cluster equal to its source."""

    def __init__(self, manager: kcr.Manager, clusters: kcr.Clusters) -> None:
        self._sources = manager.store(ConfigMap)
        self._clusters = clusters
        self._recorder = manager.recorder("fleet")

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        """Create, change or delete the copy that a key names: `key.cluster` is the member."""
        member = self._clusters[key.cluster]
        source, copy = self._sources.get(key.local), member.store(ConfigMap).get(key)
        is_ours = copy is not None and copy.metadata.labels.get(COPIED) == "true"
        if source is None or not is_wanted(source):
            if copy is not None and is_ours:
                await self._delete(member, copy)
        elif copy is None:
            return await self._create(member, source)
        elif is_ours:
            wanted = replace(copy, data=source.data, binary_data=source.binary_data)
            await member.client.patch(copy, wanted)  # no request when nothing differs
        else:
            message = f"{key.cluster} has a ConfigMap of this name that is no copy"
            self._recorder.event(source, "Warning", "NameTaken", message)
        return kcr.Result()

    async def _create(self, member: MemberCluster, source: ConfigMap) -> kcr.Result:
        try:
            await member.client.create(copy_of(source))
        except (kcr.NotFoundError, kcr.ForbiddenError) as error:
            # The member's namespace does not exist or is terminating; it may be created later.
            if not isinstance(error, kcr.NotFoundError) and not kcr.is_namespace_ending(error):
                raise
            self._recorder.event(source, "Warning", "NotCopied", f"{member.name}: {error}")
            return kcr.Result(requeue_after=PATIENCE)
        return kcr.Result()

    async def _delete(self, member: MemberCluster, copy: ConfigMap) -> None:
        try:
            await member.client.delete(copy)
        except kcr.NotFoundError:
            return


def is_wanted(source: ConfigMap) -> bool:
    """Return whether a ConfigMap of the home cluster asks for copies."""
    return source.metadata.labels.get(COPY) == "true" and source.metadata.deletion_timestamp is None


def copy_of(source: ConfigMap) -> ConfigMap:
    """Return the copy of a ConfigMap as it is created in a member cluster."""
    metadata = kcr.ObjectMeta(name=source.metadata.name, namespace=source.metadata.namespace, labels={COPIED: "true"})
    return ConfigMap(metadata=metadata, data=source.data, binary_data=source.binary_data)


def attach(manager: kcr.Manager, clusters: kcr.Clusters) -> None:
    """Attach the controller to a manager, on the members that there are and will be."""
    controller = manager.add_controller(
        "fleet",
        FleetReconciler(manager, clusters),
        workers=10,
        fair_by=lambda key: key.cluster,  # a member that is slow, or new, delays no other
        rights=kcr.rights(ConfigMap, "list", "watch"),
    )
    # A source that changes, and one that asks no longer, enqueues a key for each member; a copy enqueues its own.
    clusters.watch_home(controller, kcr.watch(ConfigMap, predicate=labels_match({COPY: "true"})))
    clusters.watch(controller, kcr.watch(ConfigMap, predicate=labels_match({COPIED: "true"})))


def setup(manager: kcr.Manager) -> None:
    """Attach the controller, with the members of the Secrets."""
    clusters = kcr.Clusters(manager)
    clusters.add_secrets(NAMESPACE)
    attach(manager, clusters)


if __name__ == "__main__":
    kcr.run(setup)
