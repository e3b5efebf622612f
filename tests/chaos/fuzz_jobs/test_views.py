"""What counts as a difference between two worlds, and which row explains it."""

from typing import Any

import msgspec
import pytest

from kcr.api.batch import Job
from tests.chaos.fuzz_jobs.views import PodLooks, Told, View, is_drawn, known, known_of_events

ACTIVE = PodLooks(0, "Running", False, True, True, True, True, True, False, ())
FAILED = ACTIVE._replace(phase="Failed", is_ready=False, exit_codes=(1,))
PENDING = ACTIVE._replace(phase="Pending", is_ready=False)
GOING = ACTIVE._replace(is_terminating=True)
ENDS = [{"type": "FailureTarget", "status": "True"}]


def view(*pods: PodLooks, refused: str = "", spec: Any = None, status: Any = None) -> View:
    """Return a view; the numbers are those of the status."""
    fields = {"metadata": {"name": "pi", "namespace": "default"}, "spec": {"completions": 3} | (spec or {})}
    job = msgspec.convert(fields | {"status": status or {}}, Job)
    numbers = tuple((name, getattr(job.status, name) or 0) for name in ("active", "ready", "succeeded", "failed"))
    conditions = tuple((one.type, one.status) for one in job.status.conditions)
    names = frozenset(refused.split())
    return View(job, names, names, numbers, conditions, tuple(sorted(pods, key=repr)))


def at(index: int, pod: PodLooks = ACTIVE) -> PodLooks:
    return pod._replace(completion_index=index)


PER_INDEX = {"backoffLimitPerIndex": 1}
CASES = {
    "no pod is active during a backoff": (
        view(at(0, FAILED), at(1, PENDING), status={"failed": 1}),
        view(at(0, FAILED), at(1, PENDING), status={"active": 1, "failed": 1}),
        "backoff-status",
    ),
    "the status stands still during a backoff": (
        view(at(0, FAILED), at(1), status={"active": 2, "ready": 2}),
        view(at(0, FAILED), at(1), status={"active": 1, "ready": 1, "failed": 1}),
        "backoff-status",
    ),
    "too many pods are active though no pod is ready": (
        view(at(0, FAILED), at(1, PENDING), status={"active": 2, "failed": 1}),
        view(at(0, FAILED), at(1, PENDING), status={"active": 1, "failed": 1}),
        "",
    ),
    "pods go during a refusal and a failed pod is there": (
        view(at(0, FAILED), at(1, GOING), refused="status"), view(at(0, FAILED), at(1), refused="status"),
        "deleted-before-outcome",
    ),
    "another pod goes on while an index waits": (
        view(at(0, FAILED), at(1), spec=PER_INDEX), view(at(0, FAILED), at(1), at(2), spec=PER_INDEX),
        "index-in-backoff",
    ),
    "another pod goes on without limits of indexes": (
        view(at(0, FAILED), at(1)), view(at(0, FAILED), at(1), at(2)), "",
    ),
    "a ready pod that stays is not counted": (
        view(ACTIVE, refused="deletes", status={"active": 1}),
        view(ACTIVE, refused="deletes", status={"active": 1, "ready": 1}),
        "ready-after-refused-deletion",
    ),
    "a ready pod is not counted though nothing is refused": (
        view(ACTIVE, status={"active": 1}), view(ACTIVE, status={"active": 1, "ready": 1}), "",
    ),
    "a ready pod is counted that is none": (
        view(ACTIVE._replace(is_ready=False), refused="deletes", status={"active": 1}),
        view(ACTIVE._replace(is_ready=False), refused="deletes", status={"active": 1, "ready": 1}),
        "",
    ),
    "pods go though the outcome is refused": (
        view(GOING, refused="status"), view(ACTIVE, refused="status"), "deleted-before-outcome",
    ),
    "pods go though nothing is refused": (view(GOING), view(ACTIVE), ""),
    "no outcome while deletions are refused": (
        view(ACTIVE, refused="deletes"), view(ACTIVE, refused="deletes", status={"conditions": ENDS}),
        "deleted-before-outcome",
    ),
    "more pods lose their finalizer while deletions are refused": (
        view(ACTIVE._replace(is_tracked=False), refused="deletes"), view(ACTIVE, refused="deletes"),
        "refused-deletion-draws-again",
    ),
    "more pods have lost their finalizer after it": (
        view(ACTIVE._replace(is_tracked=False), refused="deletes")._replace(refused=frozenset()), view(ACTIVE),
        "refused-deletion-draws-again",
    ),
    "pods of a failed Job count again": (
        view(FAILED, refused="untracks", status={"failed": 1, "succeeded": 1, "conditions": ENDS}),
        view(FAILED, refused="untracks", status={"failed": 1, "conditions": ENDS}),
        "double-count",
    ),
    "a failed Job counts pods that kcr does not": (
        view(status={"failed": 3, "conditions": ENDS}), view(ACTIVE), "",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("upstream", "ours", "row"), CASES.values(), ids=CASES)
def test_difference_is_explained_by_its_row_alone(upstream: View, ours: View, row: str) -> None:
    assert known(upstream, ours) == row


def test_choice_among_equal_pods_is_no_difference() -> None:
    assert is_drawn(view(at(0), at(1, GOING)), view(at(0, GOING), at(1)))


@pytest.mark.parametrize("ours", [view(at(0), at(3)), view(at(0), at(0)), view(at(0)), view(at(0), at(1, FAILED))])
def test_indexes_that_no_controller_may_choose_are_a_difference(ours: View) -> None:
    assert not is_drawn(view(at(0), at(1)), ours)


@pytest.mark.parametrize(("recorded", "row"), [(24, ""), (25, "lost-events")])
def test_events_are_lost_only_beyond_the_limit(recorded: int, row: str) -> None:
    kept, all_ = Told(frozenset(), recorded), Told(frozenset({("Normal", "Completed", "Job completed")}), 1)
    assert known_of_events(kept, all_, frozenset()) == row


@pytest.mark.parametrize(
    ("reason", "refused", "row"),
    [
        ("Suspended", "status", "repeated-events"),
        ("Suspended", "deletes", ""),
        ("FailedDelete", "status deletes", "deleted-before-outcome"),
        ("FailedDelete", "deletes", ""),
    ],
)
def test_event_is_told_more_only_under_the_refusals_of_its_row(reason: str, refused: str, row: str) -> None:
    told, silent = Told(frozenset({("Normal", reason, "said")}), 1), Told(frozenset(), 0)
    assert known_of_events(told, silent, frozenset(refused.split())) == row
