"""A Job's life from its creation to its end: the scenarios of job-controller §37.1."""

import pytest

from kcr.api.batch import UncountedTerminatedPods
from tests.kit.scenario import Simulation, scenario


@scenario()
async def test_job_runs_one_pod_unless_told_otherwise(sim: Simulation) -> None:
    # Rows 1 to 3.
    await sim.create()
    job = await sim.until("A1")
    (pod,) = sim.pods_of()
    assert pod.metadata.generate_name == "pi-"
    assert pod.metadata.finalizers == ("batch.kubernetes.io/job-tracking",)
    assert pod.metadata.labels == {
        "batch.kubernetes.io/job-name": "pi",
        "job-name": "pi",
        "batch.kubernetes.io/controller-uid": job.metadata.uid,
        "controller-uid": job.metadata.uid,
    }
    assert job.status.start_time is not None
    assert job.status.uncounted_terminated_pods == UncountedTerminatedPods()
    await sim.ready(pod)
    await sim.until("A1 R1")
    await sim.succeed(pod)
    job = await sim.ends("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
    await sim.until("S1", there=1, tracked=0, made=1)
    assert job.status.completion_time is not None
    if sim.undisturbed:
        assert await sim.events() == [
            ("SuccessfulCreate", f"Created pod: {pod.metadata.name}"),
            ("Completed", "Job completed"),
        ]


@scenario()
async def test_next_pod_comes_when_one_has_succeeded(sim: Simulation) -> None:
    # Row 4.
    await sim.create(parallelism=2, completions=4)
    for succeeded, active in enumerate((2, 2, 2, 1)):
        await sim.until(f"A{active} S{succeeded}")
        await sim.succeed(sim.active()[0])
    await sim.ends("Complete", "CompletionsReached")
    await sim.until("S4", there=4, made=4)
    assert sim.pods.most_active == 2


@scenario()
async def test_no_more_pods_than_completions(sim: Simulation) -> None:
    # Row 5.
    await sim.create(parallelism=5, completions=3)
    await sim.until("A3")
    await sim.stays("A3")
    await sim.until("A3", made=3)


@scenario()
async def test_parallelism_zero_waits_for_a_wish(sim: Simulation) -> None:
    # Row 6.
    await sim.create(parallelism=0)
    await sim.until("", ready=0)
    await sim.stays("")
    await sim.patch(parallelism=2)
    await sim.until("A2", made=2, seconds=0.1 if sim.undisturbed else 60)


@scenario()
async def test_nothing_to_do_is_done_at_once(sim: Simulation) -> None:
    # Row 7.
    await sim.create(completions=0)
    await sim.ends("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
    await sim.until("", made=0)


@scenario()
async def test_nothing_to_do_is_done_though_suspended(sim: Simulation) -> None:
    # Row 8.
    await sim.create(completions=0, suspend=True)
    job = await sim.ends("Complete", "CompletionsReached")
    assert job.status.start_time is None
    await sim.until("", made=0)


@scenario()
async def test_scaled_down_pods_are_no_failures(sim: Simulation) -> None:
    # Row 11.
    await sim.create(parallelism=5, backoffLimit=2)
    await sim.until("A5")
    await sim.patch(parallelism=2)
    await sim.until("A2", there=2)
    await sim.patch(parallelism=4)
    await sim.until("A4", there=4, made=7)
    await sim.stays("A4")


@scenario()
async def test_restarts_change_nothing(sim: Simulation) -> None:
    # Row 13.
    await sim.create(parallelism=2, completions=3, backoffLimit=3)
    await sim.restart()
    await sim.until("A2")
    await sim.crash()
    first, second = sim.active()
    await sim.fail(first)
    await sim.start()
    await sim.until("A2 F1")
    await sim.crash()
    await sim.succeed(second)
    await sim.delete_pods([second])
    await sim.start()
    await sim.until("A2 S1 F1", there=3)
    await sim.restart()
    await sim.succeed(*sim.active())
    await sim.ends("Complete", "CompletionsReached")
    await sim.until("S3 F1", made=4)


@scenario()
async def test_finished_job_is_left_as_it_is(sim: Simulation) -> None:
    # Row 14.
    await sim.create(completions=1)
    await sim.until("A1")
    await sim.succeed(*sim.active())
    await sim.ends("Complete", "CompletionsReached")
    await sim.restart()
    await sim.delete_pods(sim.pods_of())
    await sim.clock.advance(60)
    await sim.until("S1", there=0, made=1)


@pytest.mark.parametrize("fails", [False, True], ids=["succeeds", "fails"])
@scenario(late={"jobs": 3.0})
async def test_late_job_events_make_no_second_pod(sim: Simulation, fails: bool) -> None:
    # Row 15.
    await sim.create(backoffLimit=0)
    await sim.wait(lambda: bool(sim.pods.all))
    (pod,) = sim.pods.there
    await (sim.fail(pod) if fails else sim.succeed(pod))
    kind, reason = ("Failed", "BackoffLimitExceeded") if fails else ("Complete", "CompletionsReached")
    await sim.ends(kind, reason)
    await sim.until("F1" if fails else "S1", made=1)


@scenario()
async def test_pods_that_have_come_least_far_go_first(sim: Simulation) -> None:
    # Row 16.
    await sim.create(parallelism=4, completions=4)
    await sim.until("A4")
    ready, running, pending, unscheduled = sim.active()
    await sim.bind(ready, running, pending)
    await sim.ready(ready)
    await sim.restarted(running, 0)
    await sim.until("A4 R1")
    for left, pod in ((3, unscheduled), (2, pending), (1, running)):
        await sim.patch(parallelism=left)
        await sim.until(active=left)
        assert pod.metadata.uid not in {other.metadata.uid for other in sim.active()}
    await sim.kill((running, pending))
    await sim.until("A1 R1", there=1)


@scenario()
async def test_pod_that_was_ready_for_longer_stays(sim: Simulation) -> None:
    # Row 17.
    await sim.create(parallelism=2, completions=2)
    await sim.until("A2")
    later, earlier = sim.active()
    await sim.ready(earlier)
    await sim.clock.advance(5)
    await sim.ready(later)
    await sim.until("A2 R2")
    await sim.patch(parallelism=1)
    await sim.until("A1 R1")
    assert [pod.metadata.uid for pod in sim.active()] == [earlier.metadata.uid]


@scenario()
async def test_pod_too_many_is_let_go_before_it_is_deleted(sim: Simulation) -> None:
    # Row 9.
    await sim.create(parallelism=2, completions=5)
    await sim.until("A2")
    await sim.crash()
    extra = await sim.copy(sim.active()[0])
    await sim.bind(*sim.active())
    await sim.ready(*(pod for pod in sim.active() if pod.metadata.uid != extra.metadata.uid))
    await sim.start()
    await sim.until("A2 R2 T1", there=3, tracked=2)
    if sim.undisturbed:
        calls = [call.verb for call in sim.faults.calls if call.name == extra.metadata.name]
        assert calls == ["patch", "delete"]
    await sim.kill([extra])
    await sim.until("A2 R2", there=2, made=3)


@scenario(options={"max_uncounted_pods": 10, "max_pod_create_delete_per_sync": 10}, soak=True)
async def test_large_job_comes_to_its_end_in_small_steps(sim: Simulation) -> None:
    # Row 12.
    await sim.create(parallelism=54, completions=56)
    await sim.until("A54")
    await sim.ready(*sim.active()[:52])
    await sim.until("A54 R52")
    await sim.fail(*sim.active()[:2])
    await sim.until("A54 R50 F2")
    await sim.succeed(*sim.active()[:53])
    await sim.until("A3 S53 F2", ready=0)
    await sim.succeed(*sim.active())
    await sim.ends("Complete", "CompletionsReached")
    await sim.until("S56 F2", made=58, tracked=0)
