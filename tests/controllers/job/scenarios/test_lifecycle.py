"""A Job's life from its creation to its end: the scenarios of job-controller §37.1."""

import pytest

from kcr.api.batch import UncountedTerminatedPods
from tests.kit.scenario import World, flow


@flow()
async def test_job_runs_one_pod_unless_told_otherwise(world: World) -> None:
    # Rows 1 to 3.
    await world.create()
    job = await world.until("A1")
    (pod,) = world.pods_of()
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
    await world.ready(pod)
    await world.until("A1 R1")
    await world.succeed(pod)
    job = await world.ends("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
    await world.until("S1", there=1, tracked=0, made=1)
    assert job.status.completion_time is not None
    if world.undisturbed:
        assert await world.events() == [
            ("SuccessfulCreate", f"Created pod: {pod.metadata.name}"),
            ("Completed", "Job completed"),
        ]


@flow()
async def test_next_pod_comes_when_one_has_succeeded(world: World) -> None:
    # Row 4.
    await world.create(parallelism=2, completions=4)
    for succeeded, active in enumerate((2, 2, 2, 1)):
        await world.until(f"A{active} S{succeeded}")
        await world.succeed(world.active()[0])
    await world.ends("Complete", "CompletionsReached")
    await world.until("S4", there=4, made=4)
    assert world.pods.most_active == 2


@flow()
async def test_no_more_pods_than_completions(world: World) -> None:
    # Row 5.
    await world.create(parallelism=5, completions=3)
    await world.until("A3")
    await world.stays("A3")
    await world.until("A3", made=3)


@flow()
async def test_parallelism_zero_waits_for_a_wish(world: World) -> None:
    # Row 6.
    await world.create(parallelism=0)
    await world.until("", ready=0)
    await world.stays("")
    await world.patch(parallelism=2)
    await world.until("A2", made=2, seconds=0.1 if world.undisturbed else 60)


@flow()
async def test_nothing_to_do_is_done_at_once(world: World) -> None:
    # Row 7.
    await world.create(completions=0)
    await world.ends("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
    await world.until("", made=0)


@flow()
async def test_nothing_to_do_is_done_though_suspended(world: World) -> None:
    # Row 8.
    await world.create(completions=0, suspend=True)
    job = await world.ends("Complete", "CompletionsReached")
    assert job.status.start_time is None
    await world.until("", made=0)


@flow()
async def test_scaled_down_pods_are_no_failures(world: World) -> None:
    # Row 11.
    await world.create(parallelism=5, backoffLimit=2)
    await world.until("A5")
    await world.patch(parallelism=2)
    await world.until("A2", there=2)
    await world.patch(parallelism=4)
    await world.until("A4", there=4, made=7)
    await world.stays("A4")


@flow()
async def test_restarts_change_nothing(world: World) -> None:
    # Row 13.
    await world.create(parallelism=2, completions=3, backoffLimit=3)
    await world.restart()
    await world.until("A2")
    await world.crash()
    first, second = world.active()
    await world.fail(first)
    await world.start()
    await world.until("A2 F1")
    await world.crash()
    await world.succeed(second)
    await world.delete_pods([second])
    await world.start()
    await world.until("A2 S1 F1", there=3)
    await world.restart()
    await world.succeed(*world.active())
    await world.ends("Complete", "CompletionsReached")
    await world.until("S3 F1", made=4)


@flow()
async def test_finished_job_is_left_as_it_is(world: World) -> None:
    # Row 14.
    await world.create(completions=1)
    await world.until("A1")
    await world.succeed(*world.active())
    await world.ends("Complete", "CompletionsReached")
    await world.restart()
    await world.delete_pods(world.pods_of())
    await world.clock.advance(60)
    await world.until("S1", there=0, made=1)


@pytest.mark.parametrize("fails", [False, True], ids=["succeeds", "fails"])
@flow(late={"jobs": 3.0})
async def test_late_job_events_make_no_second_pod(world: World, fails: bool) -> None:
    # Row 15.
    await world.create(backoffLimit=0)
    await world.wait(lambda: bool(world.pods.all))
    (pod,) = world.pods.there
    await (world.fail(pod) if fails else world.succeed(pod))
    kind, reason = ("Failed", "BackoffLimitExceeded") if fails else ("Complete", "CompletionsReached")
    await world.ends(kind, reason)
    await world.until("F1" if fails else "S1", made=1)


@flow()
async def test_pods_that_have_come_least_far_go_first(world: World) -> None:
    # Row 16.
    await world.create(parallelism=4, completions=4)
    await world.until("A4")
    ready, running, pending, unscheduled = world.active()
    await world.bind(ready, running, pending)
    await world.ready(ready)
    await world.restarted(running, 0)
    await world.until("A4 R1")
    for left, pod in ((3, unscheduled), (2, pending), (1, running)):
        await world.patch(parallelism=left)
        await world.until(active=left)
        assert pod.metadata.uid not in {other.metadata.uid for other in world.active()}
    await world.kill((running, pending))
    await world.until("A1 R1", there=1)


@flow()
async def test_pod_that_was_ready_for_longer_stays(world: World) -> None:
    # Row 17.
    await world.create(parallelism=2, completions=2)
    await world.until("A2")
    later, earlier = world.active()
    await world.ready(earlier)
    await world.clock.advance(5)
    await world.ready(later)
    await world.until("A2 R2")
    await world.patch(parallelism=1)
    await world.until("A1 R1")
    assert [pod.metadata.uid for pod in world.active()] == [earlier.metadata.uid]


@flow()
async def test_pod_too_many_is_let_go_before_it_is_deleted(world: World) -> None:
    # Row 9.
    await world.create(parallelism=2, completions=5)
    await world.until("A2")
    await world.crash()
    extra = await world.copy(world.active()[0])
    await world.bind(*world.active())
    await world.ready(*(pod for pod in world.active() if pod.metadata.uid != extra.metadata.uid))
    await world.start()
    await world.until("A2 R2 T1", there=3, tracked=2)
    if world.undisturbed:
        calls = [call.verb for call in world.faults.calls if call.name == extra.metadata.name]
        assert calls == ["patch", "delete"]
    await world.kill([extra])
    await world.until("A2 R2", there=2, made=3)


@flow(options={"max_uncounted_pods": 10, "max_pod_create_delete_per_sync": 10}, soak=True)
async def test_large_job_comes_to_its_end_in_small_steps(world: World) -> None:
    # Row 12.
    await world.create(parallelism=54, completions=56)
    await world.until("A54")
    await world.ready(*world.active()[:52])
    await world.until("A54 R52")
    await world.fail(*world.active()[:2])
    await world.until("A54 R50 F2")
    await world.succeed(*world.active()[:53])
    await world.until("A3 S53 F2", ready=0)
    await world.succeed(*world.active())
    await world.ends("Complete", "CompletionsReached")
    await world.until("S56 F2", made=58, tracked=0)
