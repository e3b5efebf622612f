"""Leader election: of several replicas of a program one leads, and the others stand by with warm caches.

The replicas compete for a Lease (`coordination.k8s.io/v1`). The leader writes its name and the time into it every
`retry_period`; the others read it, and take it over once it has not changed for `lease_duration`. A write carries the
resourceVersion that was read (optimistic concurrency), so of two candidates one meets a conflict.

What it guarantees, and to whom:

- *At most one leader by the clock of its own machine.* A candidate counts from the change that it has seen last, on
  its own monotonic clock; clocks of machines are never compared. The leader counts from the moment at which it sent its
  last successful renewal, which is earlier, and stops at the `renew_deadline`, which is shorter.
- *A leader that has lost writes nothing more.* `LeaderElector.check` is called before every write of the manager's
  client, and again once there is a connection for it (fencing): a process that was stopped, or whose machine was
  suspended, and that wakes up after its lease has ended raises `LeadershipLostError`. `fence` says by which clocks.
- *Release on stop.* The manager ends its controllers first and releases the Lease after that, so that the next leader
  begins at once, and never beside them.
- *A standby's caches may lag.* Whoever leads next may not see yet what the leader before it wrote: its watches may have
  been broken at that moment. What that one wrote is older than `LeaderElector.leading_since`. A controller that creates
  objects under names that it draws asks the server, once for each of its objects, until its stores have passed that
  version: `OwnWrites.must_verify` and `verify`, which the Job and CronJob controllers call. A name that follows from
  its owner needs that only once the child is deleted.
- *Renewal does not depend on the program's event loop.* `ElectorThread` runs on a thread, a loop and connections of its
  own. One that stays blocked, which its missing heartbeat tells, loses its lease all the same.

A leader that loses ends: `Manager.run` raises `LeadershipLostError`, and the process is started again as a candidate.
Between the loss of the Lease and the end of a request that is on its way, the server's own optimistic concurrency and
the names of what is created protect the objects, as ever: reconciling stays idempotent.

Source: client-go/tools/leaderelection; controller-runtime/pkg/leaderelection, pkg/manager/internal.go.
"""

from kcr.leaderelection.config import LeaderElectionConfig
from kcr.leaderelection.elector import LeaderElector
from kcr.leaderelection.leadership import Leadership
from kcr.leaderelection.thread import ElectorThread

__all__ = ["ElectorThread", "LeaderElectionConfig", "LeaderElector", "Leadership"]
