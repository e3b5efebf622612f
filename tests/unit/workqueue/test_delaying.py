import asyncio
from random import Random

from kcr.clock import TIMER_SLACK_SECONDS
from kcr.workqueue import WorkQueue
from tests.kit.loops import LoopFactory, on_all_loops, run_on, timers_set


@on_all_loops
def test_delayed_keys_come_once_in_time_and_in_order(loop: LoopFactory) -> None:  # WQ-12, WQ-15
    async def main() -> None:
        now = asyncio.get_running_loop().time
        queue: WorkQueue[int] = WorkQueue()
        random, deadlines = Random(1), {}
        for key in range(60):
            seconds = random.choice((0.00001, 0.0004, 0.0005, 0.001, 0.02)) * (1 + random.random())
            queue.add_after(key, seconds)
            deadlines[key] = queue.snapshot().delays[key].deadline
            if random.random() < 0.1:
                await asyncio.sleep(random.random() / 500)
        order = []
        for _ in deadlines:
            order.append(key := await queue.get())
            assert now() >= deadlines[key] - TIMER_SLACK_SECONDS
            queue.done(key)
        assert sorted(order) == sorted(deadlines)
        assert order == sorted(order, key=deadlines.__getitem__)
        assert timers_set() < 150

    run_on(loop, main())
