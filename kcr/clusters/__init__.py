"""Member clusters: one program reconciles the objects of several clusters.

A program runs in its *home cluster*, which has its Lease, its events and its Secrets. `Clusters` is the set of *member
clusters* beside it, which come and go at run time:

- **Keys.** A key of a member cluster has the field `cluster`. `Clusters.watch` enqueues such keys for changes in the
  members, `Clusters.watch_home` one for each member for changes at home, and all of them for a member that joins.
- **Informers.** Each member has informers of its own, which begin when it is opened and end when it is closed. A member
  joins a controller once all its stores for that controller are synced: no key of it is enqueued before.
- **Isolation.** A member that does not answer delays its own keys alone. Its watches are retried with backoff, its keys
  are deferred while they fail, and readiness does not depend on it.
- **Closing** takes effect at once: its stores raise `NotSyncedError`, its client writes no more, and its keys are
  dropped. A change of its kubeconfig closes it and opens it again.

Source: sigs.k8s.io/multicluster-runtime, pkg/manager, pkg/clusters, providers/kubeconfig.
"""

from kcr.clusters.clusters import Clusters
from kcr.clusters.member import MemberCluster

__all__ = ["Clusters", "MemberCluster"]
