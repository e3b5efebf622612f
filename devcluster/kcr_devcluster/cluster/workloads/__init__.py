"""The cluster's workload controllers: Deployments make ReplicaSets; these and ReplicationControllers make pods.

They run on `Manager` like any other controllers, and start with the first object of their kinds: a cluster without
Deployments does not pay for them. Decisions are plain functions over values (`revisions`, `rollout`, `progress`); the
two reconcilers read stores and write.
"""

from kcr.manager import Manager
from kcr_devcluster.cluster.workloads import deployments, replicasets

__all__ = ["setup"]


def setup(manager: Manager) -> None:
    """Add the controllers of Deployments and ReplicaSets to a manager, before it runs or while it does."""
    replicasets.setup(manager)
    deployments.setup(manager)
