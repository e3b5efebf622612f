"""Defects of sharding that the laws must find; tests/chaos/planting.py says how they are written."""

from tests.chaos.planting import Edit, defect

DEFECTS = (
    defect(
        "no-fence-of-shards", Edit("check", "A is None or A.phase is ShardPhase.CLOSED or A.fence.is_closed", "False")
    ),
    defect(
        "hand-over-without-settling",
        Edit("_drain", "A = B._is_drained(C)", "A = True"),
        Edit("check", "A is None or A.phase is ShardPhase.CLOSED or A.fence.is_closed", "A is None"),
    ),
    # A new holder does not know either that its stores may be behind.
    defect(
        "caches-are-not-waited-for",
        Edit("_open", "await A.wait_filled(B)"),
        Edit("take", "HeldShard(A, B, C)", "HeldShard(A, 0, C)"),
    ),
    defect("lost-labels-are-deletions", Edit("_exists", "bool(A) and B is None", "False")),
    # A replica without sharding leads at the same time.
    defect(
        "group-is-not-waited-for",
        Edit("run", "await A._group.elected.wait()"),
        Edit("_move", "A and (B or await C.renew_now())", "A"),
        Edit("check", "A._group.check()"),
    ),
    defect("group-is-left-while-others-live", Edit("_is_last", "not any(...)", "True")),
    defect("moved-owners-are-not-gathered", Edit("_is_gathering", "not is_relabelled(A)", "True")),
)
