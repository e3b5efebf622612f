"""Sharding: every replica reconciles its share of the objects, and no key is reconciled by two.

There are 64 slots (`kcr.api.slots`). A shard is a range of slots with a Lease of its own; a replica reconciles the keys
of the shards whose Leases it holds, and watches their objects only. One more Lease per replica is its sign of life.
Guarantees:

- *One holder.* A Lease is written on the version that was read (optimistic concurrency), and a holder writes nothing
  in the name of a shard whose Lease may have expired: each shard has a fence, as leader election has one (`Shards`).
- *One reconciler per key.* A key belongs to the shard of its object. The gate of each controller admits keys of active
  shards only (`ShardGate`).
- *Fair shares.* Replicas differ by one shard at most, and only the shards that must move do (`assignment`).
- *Hand-over without loss.* A shard is released once its reconciles have ended and its unanswered creates are settled;
  the next holder reconciles once its caches, which are newer than the Lease, are filled (`ShardKeeper`). Of a replica
  that was killed or is frozen the Leases expire.
- *A tree in one place.* Created objects carry the slot of their owner as a label (`with_slot`).

A replica that loses a Lease without having released it ends, as a leader does: `Manager.run` raises
`LeadershipLostError`.

Source: KEP-5866 for the hash and the selectors; client-go/tools/leaderelection for the Leases.
"""

from kcr.scopes.sharding.replica import OnFirstShard, ShardedReplica, Sharding
from kcr.scopes.sharding.shards import Shards

__all__ = ["OnFirstShard", "ShardedReplica", "Sharding", "Shards"]
