"""Leader election: one replica of a program leads, and the others stand by with synced caches.

The replicas compete for a Lease (`coordination.k8s.io/v1`). The leader writes its name and the time into it every
`retry_period`; the others read it, and take it over after it has not changed for `lease_duration`. A write carries
the resourceVersion that was read (optimistic concurrency), so of two candidates one gets a conflict. Guarantees:

- *At most one leader, by each machine's own clock.* A candidate counts from the last change that it observed, on its
  own monotonic clock; clocks of different machines are never compared. The leader counts from the time at which it
  sent its last successful renewal, which is earlier, and stops at the shorter `renew_deadline`.
- *A former leader writes nothing.* `LeaderElector.check` precedes every write of the manager's client, and is called
  again once a connection is available (fencing): a process that was stopped or suspended, and wakes up after the end
  of its lease, raises `LeadershipLostError`. `leadership` describes the clocks.
- *Release on stop.* The manager ends its controllers, then releases the Lease, so that the next leader starts at once,
  and never beside them. While a write of this process has no answer it may still be executed: the Lease expires then.
- *Synced caches may lag.* The next leader may not see its predecessor's last writes, because its watches may have
  been broken. These writes are older than `LeaderElector.leading_since`. A controller that creates objects under
  generated names therefore asks the server, once per object, until its stores have passed that version:
  `OwnWrites.must_verify` and `verify`, as the Job and CronJob controllers do. For a name that follows from its owner,
  this is necessary only after a deletion of the child.
- *Renewal is independent of the program's event loop.* `ElectorThread` has its own thread, loop and connections. A
  program whose heartbeat is missing for too long loses its lease.

A leader that loses its Lease ends: `Manager.run` raises `LeadershipLostError`, and the supervisor restarts the process
as a candidate. Requests in flight at that time are covered by optimistic concurrency and by stable names: reconciles
are idempotent.

Source: client-go/tools/leaderelection; controller-runtime/pkg/leaderelection, pkg/manager/internal.go.
"""

from kcr.scopes.leaderelection.config import LeaderElectionConfig
from kcr.scopes.leaderelection.elector import ElectorThread, LeaderElector
from kcr.scopes.leaderelection.leadership import Leadership

__all__ = ["ElectorThread", "LeaderElectionConfig", "LeaderElector", "Leadership"]
