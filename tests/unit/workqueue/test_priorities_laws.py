import asyncio
from collections.abc import Callable
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kcr.testing import VirtualClock
from kcr.workqueue import WorkQueue
from kcr_devcluster.testing.loop import VirtualLoop

KEYS = st.integers(0, 5)
PRIORITIES = st.sampled_from((-100, -30, 0, 40))


class Waiting(NamedTuple):
    """A key that the model hands out some time."""

    key: int
    priority: int
    since: int

    def has_caught_up(self, top: int, now: int) -> bool:
        return self.priority + (now - self.since) // 30 * 25 >= top


class Model(RuleBasedStateMachine):
    """WQ-5, 25, 26, 27, 31, 32: the queue hands out exactly what a plain list of keys says."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=VirtualLoop)
        self.queue = WorkQueue[int]()
        self.waiting: list[Waiting] = []  # in the order of arrival at their priority
        self.again: dict[int, int] = {}  # added while processed, and their priorities
        self.processing: dict[int, int] = {}
        self.delayed: dict[int, tuple[int, int, int]] = {}
        self.order = 0
        self.now = 0
        self.served_aged = False
        self.aging_of_normal_keys_began: int | None = None

    def teardown(self) -> None:
        self.runner.close()

    def do(self, act: Callable[[], object]) -> None:
        async def main() -> None:
            act()

        self.runner.run(main())

    def append(self, key: int, priority: int) -> None:
        self.waiting.append(Waiting(key, priority, self.now))
        if priority > 0 and self.aging_of_normal_keys_began is None:
            # Before, nothing was above them.
            self.aging_of_normal_keys_began = self.now

    def model_add(self, key: int, priority: int) -> None:
        if key in self.processing:
            self.again[key] = max(priority, self.again.get(key, priority))
            return
        known = next((one for one in self.waiting if one.key == key), None)
        if known is not None and known.priority < priority:
            self.waiting.remove(known)
        if known is None or known.priority < priority:
            self.append(key, priority)

    def since(self, one: Waiting) -> int:
        began = self.aging_of_normal_keys_began
        return max(one.since, began or 0) if one.priority == 0 else one.since

    def expected(self) -> Waiting:
        """Return the key to be handed out, and remember whose turn it was."""
        top = max(one.priority for one in self.waiting)
        heads = {one.priority: one for one in reversed(self.waiting)}
        if len(heads) == 1:
            return heads[top]
        below = [heads[priority]._replace(since=self.since(heads[priority])) for priority in heads if priority < top]
        aged = sorted(
            (one for one in below if one.has_caught_up(top, self.now)), key=lambda one: (one.since, -one.priority)
        )
        self.served_aged = bool(aged) and not self.served_aged
        return heads[aged[0].priority if self.served_aged else top]

    @initialize(seconds=st.sampled_from((0, 1000)))
    def begin(self, seconds: int) -> None:
        self.pass_time(seconds)

    @rule(key=KEYS, priority=PRIORITIES)
    def add(self, key: int, priority: int) -> None:
        self.do(lambda: self.queue.add(key, priority=priority))
        self.model_add(key, priority)

    @rule(key=KEYS, seconds=st.integers(1, 90), priority=PRIORITIES)
    def add_after(self, key: int, seconds: int, priority: int) -> None:
        self.do(lambda: self.queue.add_after(key, seconds, priority=priority))
        deadline, highest = self.now + seconds, priority
        known = self.delayed.get(key)
        if known is not None and known[0] <= deadline and highest <= known[2]:
            return
        if known is not None:
            deadline, highest = min(deadline, known[0]), max(highest, known[2])
        self.order += 1
        self.delayed[key] = (deadline, self.order, highest)

    @rule(key=KEYS)
    def cancel_after(self, key: int) -> None:
        self.do(lambda: self.queue.cancel_after(key))
        self.delayed.pop(key, None)

    @rule(seconds=st.integers(1, 70))
    def pass_time(self, seconds: int) -> None:
        self.runner.run(VirtualClock().advance(seconds))
        end = self.now + seconds
        due = sorted((delay, key) for key, delay in self.delayed.items() if delay[0] <= end)
        for (deadline, _, priority), key in due:
            self.now = deadline
            del self.delayed[key]
            self.model_add(key, priority)
        self.now = end

    @precondition(lambda self: self.waiting)
    @rule()
    def get(self) -> None:
        expected = self.expected()
        key = self.runner.run(self.queue.get())
        assert (key, self.queue.priority(key)) == (expected.key, expected.priority)
        assert key not in self.processing
        self.waiting = [one for one in self.waiting if one.key != key]
        if not self.waiting:
            # Nothing is left whose age counts; those that come age once something is above them again.
            self.aging_of_normal_keys_began = None
        self.processing[key] = expected.priority

    @precondition(lambda self: self.processing)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.processing)))
        self.do(lambda: self.queue.done(key))
        del self.processing[key]
        if key in self.again:
            self.append(key, self.again.pop(key))

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        assert len(self.queue) == len(self.waiting)

    @invariant()
    def state_tells_of_every_key(self) -> None:
        queued = {one.key: one.priority for one in self.waiting} | self.again

        def check() -> None:
            for key in range(6):
                state = self.queue.state(key)
                assert (state.queued, state.processing) == (queued.get(key), self.processing.get(key))
                delay = self.delayed.get(key)
                assert state.delay == (None if delay is None else delay[0] - self.now)

        self.do(check)


TestLaws = Model.TestCase
TestLaws.settings = settings(stateful_step_count=40)
