"""Defects of scopes, each with the tests that must fail with it; tests/chaos/planting.py says how they are written."""

from tests.chaos.planting import Edit, defect

LATE_CREATES = "tests/runtime/test_late_creates.py"
HAND_OVERS = "tests/runtime/scopes/sharding/test_settling.py"
WAITS = "tests/unit/scopes/sharding/test_assignment.py"
OWNERS = "tests/runtime/scopes/sharding/test_replicas.py"
MEMBERS = "tests/runtime/clusters/test_late_creates.py"

DEFECTS = (
    (defect("scope-forgets-writes", Edit("unsettled_keys", "A.unsettled", "A.unconfirmed_creates")), LATE_CREATES),
    (defect("leader-releases-unsettled", Edit("_lead_and_work", "self.elector.retain()")), LATE_CREATES),
    (defect("scope-is-released-unsettled", Edit("is_settled", "not any(...)", "True")), HAND_OVERS),
    (defect("free-shard-waits-for-each-newcomer-in-turn", Edit("_wait", "min(A, B._ends[C])", "A")), WAITS),
    # A free shard waits for a second at most, so this one leaves none without a holder: shards move to and fro.
    (
        defect(
            "passed-over-replicas-are-given-shards-at-once", Edit("without_passed_over", "A + B._lease_seconds", "A")
        ),
        WAITS,
    ),
    (defect("write-without-an-owner", Edit("check", "raise ConfigError(A)", "return")), OWNERS),
    (defect("unanswered-applies-are-forgotten", Edit("_is_ending", "A[type(B), B.key] = None")), LATE_CREATES),
    (defect("closed-member-forgets-creates", Edit("_place_of", "A.cluster_of(B, C)", "None")), MEMBERS),
    (defect("members-share-own-writes", Edit("reconciled_key", "isinstance(A, C) and A.local == B", "False")), MEMBERS),
)

# Found by tests/chaos/scope_runs.py, each with its scope.
TWICE = (
    (defect("namespace-forgets-writes", Edit("unsettled_keys", "A.unsettled", "A.unconfirmed_creates")), "namespaces"),
    (defect("namespace-is-forgotten-unsettled", Edit("release", "A.difference(B._pending())", "A")), "namespaces"),
    (defect("member-forgets-creates", Edit("_place_of", "A.cluster_of(B, C)", "None")), "clusters"),
    (defect("shard-is-released-unsettled", Edit("is_settled", "not any(...)", "True")), "shards"),
    (defect("leader-is-replaced-unsettled", Edit("_lead_and_work", "self.elector.retain()")), "leader"),
)
