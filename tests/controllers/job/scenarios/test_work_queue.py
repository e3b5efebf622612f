"""Jobs whose pods find out themselves when the work is done: the scenarios of job-controller §37.2."""

from tests.kit.scenario import Simulation, scenario


@scenario()
async def test_first_success_ends_the_making_of_pods(sim: Simulation) -> None:
    # Rows 19 to 23.
    await sim.create(parallelism=5)
    await sim.until("A5")
    await sim.fail(*sim.active()[:2])
    await sim.until("A5 F2")
    await sim.succeed(sim.active()[0])
    await sim.until("A4 S1 F2")
    await sim.fail(*sim.active()[:2])
    await sim.until("A2 S1 F4")
    await sim.stays("A2 S1 F4")
    await sim.succeed(*sim.active())
    await sim.ends("Complete", "CompletionsReached")
    await sim.until("S3 F4", made=7, there=7, tracked=0)


@scenario()
async def test_failure_beside_a_success_does_no_harm(sim: Simulation) -> None:
    # Row 24.
    await sim.create(parallelism=2)
    await sim.until("A2")
    await sim.crash()
    first, second = sim.active()
    await sim.succeed(first)
    await sim.fail(second)
    await sim.start()
    await sim.ends("Complete", "CompletionsReached")
    await sim.until("S1 F1", made=2)


@scenario()
async def test_less_parallelism_after_a_success_deletes_nothing(sim: Simulation) -> None:
    # Row 25.
    await sim.create(parallelism=3)
    await sim.until("A3")
    await sim.succeed(sim.active()[0])
    await sim.until("A2 S1")
    await sim.patch(parallelism=1)
    await sim.stays("A2 S1")
    await sim.succeed(*sim.active())
    await sim.ends("Complete", "CompletionsReached")
    await sim.until("S3", made=3)


@scenario()
async def test_suspension_after_a_success_completes_the_job(sim: Simulation) -> None:
    # Row 26.
    await sim.create(parallelism=3)
    await sim.until("A3")
    await sim.bind(*sim.active()[1:])
    await sim.succeed(sim.active()[0])
    await sim.until("A2 S1")
    going = sim.active()
    await sim.patch(suspend=True)
    await sim.interim("SuccessCriteriaMet", "CompletionsReached")
    await sim.until("S1 T2")
    await sim.kill(going)
    await sim.ends("Complete", "CompletionsReached")
    await sim.until("S1", made=3, there=1)
