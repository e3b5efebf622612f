"""Defects of sharding that the laws must find; tests/chaos/planting.py says how they are written."""

from tests.chaos.planting import Edit, defect

_FENCE = "A is None or A.phase is ScopePhase.CLOSED or A.fence.is_closed"

DEFECTS = (
    # The Lease of the group is renewed over the same wire, so its fence closes at the same time.
    defect("no-fence-of-shards", Edit("check", _FENCE, "False"), Edit("check", "A._group.check()")),
    defect(
        "hand-over-without-settling",
        Edit("_drain", "A = await B.drain(C, waits_for_reconciles=False)", "A = True"),
        Edit("check", _FENCE, "A is None or A.fence.is_closed"),
    ),
    # A new holder does not know either that its stores may be behind.
    defect(
        "caches-are-not-waited-for",
        Edit("_open", "await A.wait_filled(B)"),
        Edit("take", "HeldShard(A, B, C)", "HeldShard(A, 0, C)"),
    ),
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

# Found by tests/chaos/shard_kills.py.
WAITS = (
    defect("free-shards-wait-for-whoever-has-a-sign-of-life", Edit("without_passed_over", "A >= B", "False")),
    defect("expiry-is-noticed-with-the-next-renewal", Edit("_move", "min(...) + A", "float('inf')")),
)
