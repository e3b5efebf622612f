"""Defects of the Job controller that the laws must find; tests/chaos/planting.py says how they are written."""

from tests.chaos.planting import Edit, defect

DEFECTS = (
    defect("restarts-may-exceed-the-limit", Edit("restarts_exceeded", "A > 0 if B == 0 else A >= B", "A > B")),
    defect("failures-may-not-reach-the-limit", Edit("limit_exceeded", "A > B", "A >= B")),
    defect("failed-deletion-stays-pending", Edit("_delete_one", "NotFoundError", "KcrError")),
    defect("unconfirmed-create-is-forgotten", Edit("_create_one", "creates[A.key] = B")),
    defect("no-read-your-writes", Edit("setup", argument="add_controller.own_writes", by="None")),
    # The order of endings.
    defect(
        "end-changes-its-reason",
        Edit("ENDINGS", "already_failing", "past_backoff_limit"),
        Edit("ENDINGS", "past_backoff_limit", "already_failing"),
    ),
    defect("fatal-failures-are-overlooked", Edit("ENDINGS", "failed_by_policy", "past_backoff_limit")),
    # How many pods there are.
    defect("terminating-pods-are-replaced", Edit("_manage", "A if B else 0", "0")),
    defect("terminating-pods-free-their-index", Edit("_missing", "A if B else ()", "()")),
    defect("terminating-pods-fail-under-failed", Edit("has_failed", "not replaces_only_failed(A)", "True")),
    defect("complete-while-pods-are-active", Edit("is_complete", "if A: return False")),
    defect("surplus-indexes-stay", Edit("surplus", "(*A, *B)", "tuple(B)")),
    defect("suspended-job-keeps-its-start", Edit("with_suspension", "A = None", "A = status.start_time")),
    # When a Job is looked at again.
    defect(
        "deadline-does-not-wake",
        Edit("decide", "[A for A in (B, C, D) if A is not None]", "[A for A in (B, D) if A is not None]"),
    ),
    defect(
        "backoff-does-not-wake",
        Edit("decide", "[A for A in (B, C, D) if A is not None]", "[A for A in (C, D) if A is not None]"),
    ),
    # What counts as failed.
    defect("failures-of-an-index-do-not-add-up", Edit("_member", "failures_before(A) + B", "failures_before(A)")),
    defect("ignored-failures-count", Edit("counts", "A != IGNORE", "True")),
    defect("index-does-not-fail-at-once", Edit("_is_last_failure", "A.action == FAIL_INDEX", "False")),
    defect("index-is-tried-once-too-often", Edit("_is_last_failure", "A >= B", "A > B")),
    defect("failed-indexes-may-exceed", Edit("too_many_failed_indexes", "len(A) <= B", "len(A) <= B + 1")),
    # The order of writes.
    defect("lists-without-cap", Edit("_is_full", "A.capped |= B")),
    defect("delayed-pods-are-let-go", Edit("_listed", argument="UncountedPods.held", by="frozenset()")),
    defect("full-lists-are-not-taken-up-again", Edit("compute_status", argument="StatusUpdate.requeue", by="False")),
    defect(
        "finalizers-go-before-the-count",
        Edit(
            "_sync",
            "recorded = await A._write_status(B, C.status, D)",
            also="await A.actions.untrack(B, C.untrack, require_version=C.require_version)",
        ),
    ),
    defect("end-while-pods-are-terminating", Edit("finalize_status", "not A.terminating", "True")),
    # Finalizers.
    defect("pods-that-ended-unseen-are-spared", Edit("is_free", argument="_untrack_one.require_version", by="False")),
    defect("suspended-pods-keep-their-finalizer", Edit("_act", "A.remove(B, C)", "A.delete(B, C)")),
    defect("held-pods-are-let-be", Edit("enqueue_orphan", "A.add(...)")),
)
# No law sees the first one, for the next reconcile releases what an ended Job leaves; the second one takes a Job made
# again while the server does not answer. The tests beside them find them.
TESTED = (
    (
        defect("end-before-every-finalizer-has-gone", Edit("finalize_status", "A.issuperset(...)", "True")),
        "tests/unit/controllers/job/decisions/test_status.py",
    ),
    (
        # What is pending for a Job of the same name that is gone, such as a create without an answer.
        defect(
            "own-writes-by-name-only",
            Edit("find", "A is None or A.uid != B", "A is None"),
            Edit("forget", "A._objects.pop(B, None)", "A._objects.get(B)"),
        ),
        "tests/chaos/test_recreate_race.py",
    ),
)
