from datetime import timedelta

import pytest

from kcr.api.batch import Job, JobStatus, UncountedTerminatedPods
from kcr.api.core import Pod
from kcr.api.indexset import IndexSet
from kcr.controllers.job.decisions.failures import Backoff, time_left
from kcr.controllers.job.decisions.indexed import Indexes, as_backoff, members, sort, surplus
from kcr.controllers.job.decisions.pod_template import IndexedPod
from tests.kit.builders import NOW, ago, exits, has, indexed, job, pod, policy


def at_once(_: Backoff) -> timedelta:
    return timedelta()


def sorted_pods(one: Job, *pods: Pod) -> Indexes:
    found = sort(one, pods, {pod.metadata.uid for pod in pods if pod.metadata.finalizers})
    assert found is not None
    return found


def failed(name: str, index: int, *, before: tuple[int, int] = (0, 0), at: float = 5, **fields: object) -> Pod:
    return pod(name, "Failed", index=index, failures=before, finished=ago(at), **fields)  # type: ignore[arg-type]


def numbers(chosen: tuple[IndexedPod, ...]) -> list[int | None]:
    return [member.index for member in chosen]


def test_job_without_indexes_has_none() -> None:
    assert sort(job(), (), set()) is None


def test_success_counts_with_the_record() -> None:
    # Rows 72 and 76.
    one = indexed(20, status=JobStatus(start_time=ago(60), completed_indexes="2,4"))
    found = sorted_pods(one, pod("a", "Succeeded", index=5), pod("b", "Succeeded", index=7))
    assert str(found.succeeded) == "2,4,5,7"
    assert found.failed is None


@pytest.mark.parametrize("index", [None, "x", -1, 3])
def test_pods_without_a_valid_index_succeed_for_nothing(index: int | str | None) -> None:
    # Row 75.
    assert not len(sorted_pods(indexed(3), pod("a", "Succeeded", index=index)).succeeded)


def test_untracked_success_is_no_news() -> None:
    # job-controller §19.4: it is on record, or was taken from it when the Job shrank.
    assert not len(sorted_pods(indexed(3), pod("a", "Succeeded", index=1, tracked=False)).succeeded)


def test_pod_listed_as_failed_succeeds_no_more() -> None:
    # Row 140.
    listed = UncountedTerminatedPods(failed=("uid-a",))
    one = indexed(3, status=JobStatus(start_time=ago(60), uncounted_terminated_pods=listed))
    assert not len(sorted_pods(one, pod("a", "Succeeded", index=1)).succeeded)


def test_indexes_beyond_the_end_are_dropped() -> None:
    # Row 82.
    one = indexed(2, status=JobStatus(start_time=ago(60), completed_indexes="0,2"))
    assert str(sorted_pods(one).succeeded) == "0"


@pytest.mark.parametrize(
    ("limit", "before", "is_over"),
    [
        pytest.param(0, (0, 0), True, id="row-88-no-retry"),
        pytest.param(1, (0, 0), False, id="row-86-first-of-two"),
        pytest.param(1, (1, 0), True, id="second-of-two"),
        pytest.param(2, (2, 0), True, id="row-87-third"),
        pytest.param(1, (0, 7), False, id="ignored-ones-do-not-count"),
    ],
)
def test_index_fails_after_its_retries(limit: int, before: tuple[int, int], is_over: bool) -> None:
    # Rows 86 to 88 and 96.
    found = sorted_pods(indexed(2, backoff_limit_per_index=limit), failed("a", 0, before=before))
    assert (str(found.failed), set(found.delayed)) == (("0", set()) if is_over else ("", {0}))


def test_garbage_in_the_failure_count_is_nothing() -> None:
    # Row 94.
    one = indexed(2, backoff_limit_per_index=1)
    lost = pod("a", "Failed", index=0, finished=ago(5))
    assert set(sorted_pods(one, lost).delayed) == {0}
    for text in ("many", "-3", str(2**31)):
        lost.metadata.annotations["batch.kubernetes.io/job-index-failure-count"] = text  # type: ignore[index]
        assert set(sorted_pods(one, lost).delayed) == {0}


def test_fail_index_gives_up_at_once() -> None:
    # Row 95.
    rules = policy(exits("FailIndex", 13), has("FailIndex", "DisruptionTarget"))
    one = indexed(3, backoff_limit_per_index=1, pod_failure_policy=rules)
    found = sorted_pods(one, failed("a", 0, exit_code=13), failed("b", 1, conditions=("DisruptionTarget",)))
    assert str(found.failed) == "0,1"


def test_index_is_never_succeeded_and_failed() -> None:
    # job-controller §20.8: what was first on record stays.
    one = indexed(2, backoff_limit_per_index=0)
    both = (failed("a", 0), pod("b", "Succeeded", index=0))
    assert (str(sorted_pods(one, *both).succeeded), str(sorted_pods(one, *both).failed)) == ("0", "")
    given_up = indexed(2, backoff_limit_per_index=0, status=JobStatus(failed_indexes="0"))
    assert (str(sorted_pods(given_up, both[1]).succeeded), str(sorted_pods(given_up, both[1]).failed)) == ("", "0")


def test_latest_failure_of_an_index_is_kept() -> None:
    # job-controller §20.3.
    one = indexed(2, backoff_limit_per_index=5)
    first, second = failed("a", 0, before=(0, 0), at=20), failed("b", 0, before=(0, 1), at=10)
    assert sorted_pods(one, second, first).delayed == {0: second}
    earlier, later = failed("c", 0, before=(1, 0), at=9), failed("d", 0, before=(1, 0), at=8)
    assert sorted_pods(one, later, earlier).delayed == {0: later}


def test_replaced_failure_is_kept_no_longer() -> None:
    # Row 86.
    one = indexed(2, backoff_limit_per_index=1)
    assert sorted_pods(one, failed("a", 0), pod("b", index=0, failures=(1, 0))).delayed == {}


def test_lowest_missing_indexes_come_first() -> None:
    # Rows 68 and 76.
    one = indexed(20, status=JobStatus(start_time=ago(60), completed_indexes="2,4,5,7-9"))
    active = (pod("a", index=0), pod("b", index=3))
    chosen, left = members(one, sorted_pods(one, *active), active, 6, at_once)
    assert (numbers(chosen), left) == ([1, 6, 10, 11, 12, 13], None)
    assert chosen[0] == IndexedPod(1)


def test_failed_indexes_are_not_tried_again() -> None:
    # job-controller §20.6.
    one = indexed(4, backoff_limit_per_index=0, status=JobStatus(failed_indexes="1", completed_indexes="0"))
    assert numbers(members(one, sorted_pods(one), (), 4, at_once)[0]) == [2, 3]


def test_replacement_carries_the_failures_of_its_index() -> None:
    # Rows 86, 87 and 96.
    rules = policy(exits("Ignore", 42))
    one = indexed(2, backoff_limit_per_index=3, pod_failure_policy=rules)
    pods = (failed("a", 0, before=(1, 1), exit_code=1), failed("b", 1, before=(0, 0), exit_code=42))
    chosen, _ = members(one, sorted_pods(one, *pods), (), 2, at_once)
    assert chosen == (IndexedPod(0, 2, 1), IndexedPod(1, 0, 1))


def test_first_pod_of_an_index_says_that_none_failed() -> None:
    # job-controller §20.5.
    one = indexed(2, backoff_limit_per_index=3)
    assert members(one, sorted_pods(one), (), 1, at_once)[0] == (IndexedPod(0, 0, 0),)


def test_waiting_index_holds_up_no_other() -> None:
    # job-controller §34.7, where upstream leaves the place empty.
    one = indexed(4, parallelism=2, backoff_limit_per_index=6)
    pods = (failed("a", 0, at=4), failed("b", 1, before=(1, 0), at=4))

    def wait(record: Backoff) -> timedelta:
        return time_left(record, NOW, 10, 600)

    found = sorted_pods(one, *pods)
    assert members(one, found, (), 2, wait) == ((IndexedPod(2, 0), IndexedPod(3, 0)), None)
    # With more room than that, the next one comes when the first of them has waited.
    assert members(one, found, (), 3, wait)[1] == timedelta(seconds=6)


def test_each_index_waits_twice_as_long_as_before() -> None:
    # Row 93.
    waits = [time_left(as_backoff(failed("a", 0, before=(n, 0), at=0)), NOW, 10, 600).seconds for n in range(3)]
    assert waits == [10, 20, 40]
    # Row 96: ignored failures delay as well.
    assert as_backoff(failed("a", 0, before=(1, 2), at=0)).failures == 4


def test_one_pod_of_each_index_stays() -> None:
    # Row 73: the one that has got furthest.
    one = indexed(4)
    pods = (pod("a", index=2), pod("b", "Pending", index=2), pod("c", index=0))
    assert [gone.metadata.name for gone in surplus(one, pods, 0)] == ["b"]


def test_pods_without_a_place_go() -> None:
    # Rows 75 and 81.
    one = indexed(2)
    pods = (pod("a", index=2), pod("b"), pod("c", index="x"), pod("d", index=0))
    assert {gone.metadata.name for gone in surplus(one, pods, 0)} == {"a", "b", "c"}


def test_fewer_places_are_left_by_rank_and_not_by_index() -> None:
    # job-controller §14.3.
    one = indexed(4, parallelism=1)
    pods = (pod("a", "Pending", index=0), pod("b", index=1), pod("c", "Pending", index=1))
    assert [gone.metadata.name for gone in surplus(one, pods, 2)] == ["c", "a"]


def test_nobody_goes_when_all_have_a_place() -> None:
    assert surplus(indexed(4), (pod("a", index=0), pod("b", index=1)), -2) == ()


def test_what_is_over_needs_no_pod() -> None:
    one = Indexes(IndexSet.of([0, 2]), IndexSet.of([1]), {})
    assert str(one.over) == "0-2"
    assert str(one._replace(failed=None).over) == "0,2"
