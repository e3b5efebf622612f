"""Jobs whose pods find out themselves when the work is done: the scenarios of job-controller §37.2."""

from tests.kit.scenario import World, flow


@flow()
async def test_first_success_ends_the_making_of_pods(world: World) -> None:
    # Rows 19 to 23.
    await world.create(parallelism=5)
    await world.until("A5")
    await world.fail(*world.active()[:2])
    await world.until("A5 F2")
    await world.succeed(world.active()[0])
    await world.until("A4 S1 F2")
    await world.fail(*world.active()[:2])
    await world.until("A2 S1 F4")
    await world.stays("A2 S1 F4")
    await world.succeed(*world.active())
    await world.ends("Complete", "CompletionsReached")
    await world.until("S3 F4", made=7, there=7, tracked=0)


@flow()
async def test_failure_beside_a_success_does_no_harm(world: World) -> None:
    # Row 24.
    await world.create(parallelism=2)
    await world.until("A2")
    await world.crash()
    first, second = world.active()
    await world.succeed(first)
    await world.fail(second)
    await world.start()
    await world.ends("Complete", "CompletionsReached")
    await world.until("S1 F1", made=2)


@flow()
async def test_less_parallelism_after_a_success_deletes_nothing(world: World) -> None:
    # Row 25.
    await world.create(parallelism=3)
    await world.until("A3")
    await world.succeed(world.active()[0])
    await world.until("A2 S1")
    await world.patch(parallelism=1)
    await world.stays("A2 S1")
    await world.succeed(*world.active())
    await world.ends("Complete", "CompletionsReached")
    await world.until("S3", made=3)


@flow()
async def test_suspension_after_a_success_completes_the_job(world: World) -> None:
    # Row 26.
    await world.create(parallelism=3)
    await world.until("A3")
    await world.bind(*world.active()[1:])
    await world.succeed(world.active()[0])
    await world.until("A2 S1")
    going = world.active()
    await world.patch(suspend=True)
    await world.interim("SuccessCriteriaMet", "CompletionsReached")
    await world.until("S1 T2")
    await world.kill(going)
    await world.ends("Complete", "CompletionsReached")
    await world.until("S1", made=3, there=1)
