"""Jobs that give up on pods that do not start (`kcr.dev/start-deadline`), whatever happens to the controller."""

from kcr.api.core import Pod
from tests.kit.scenario import Simulation, scenario

WANTED = {"kcr.dev/start-deadline": "1m image, other"}
MESSAGE = (
    "No start within 1m0s (kcr.dev/start-deadline), cause image: pod {}: container c waits: ErrImagePull: no such image"
)


async def pull_fails(sim: Simulation, pod: Pod) -> None:
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}
    state = {"name": "c", "image": "busybox", "imageID": "", "ready": False, "restartCount": 0, "state": waiting}
    await sim.report(pod, {"phase": "Pending", "containerStatuses": [state]})


@scenario()
async def test_job_fails_with_the_cause_and_its_pods_are_deleted(sim: Simulation) -> None:
    await sim.create(parallelism=2, completions=2, annotations=WANTED)
    await sim.until("A2")
    running, late = sim.active()
    await sim.ready(running)
    await pull_fails(sim, late)
    await sim.stays("A2 R1", seconds=50)
    await sim.ends("Failed", "PodsNeverStarted", MESSAGE.format(late.metadata.name))
    await sim.until("F2", there=0, made=2)


@scenario()
async def test_job_whose_pods_start_in_time_completes(sim: Simulation) -> None:
    await sim.create(annotations=WANTED)
    await sim.until("A1")
    await sim.clock.advance(55)
    await sim.ready(*sim.active())
    await sim.stays("A1 R1", seconds=600)
    await sim.succeed(*sim.active())
    await sim.ends("Complete", "CompletionsReached")


@scenario()
async def test_deadline_holds_after_a_crash_of_the_controller(sim: Simulation) -> None:
    await sim.create(annotations=WANTED)
    await sim.until("A1")
    (late,) = sim.active()
    await pull_fails(sim, late)
    await sim.crash()
    await sim.clock.advance(120)
    await sim.start()
    await sim.ends("Failed", "PodsNeverStarted", MESSAGE.format(late.metadata.name))
    await sim.until("F1", there=0, made=1)


@scenario(disturbed=False)
async def test_unreadable_annotation_is_one_event_and_no_deadline(sim: Simulation) -> None:
    await sim.create(parallelism=2, completions=4, annotations={"kcr.dev/start-deadline": "soon"})
    for ended in range(2):
        await sim.until(f"A2 S{ended}" if ended else "A2")
        await sim.stays(f"A2 S{ended}", seconds=120)
        await sim.succeed(sim.active()[0])
    reports = [message for reason, message in await sim.events() if reason == "InvalidAnnotation"]
    (report,) = reports
    assert report.startswith("annotation kcr.dev/start-deadline: 'soon' is ignored: ")


@scenario()
async def test_annotation_may_come_while_the_job_waits(sim: Simulation) -> None:
    await sim.create()
    await sim.until("A1")
    await sim.stays("A1", seconds=300)
    await sim.annotate(WANTED)
    await sim.ends("Failed", "PodsNeverStarted", seconds=30)
