"""The rows of the card: stories by name, enumerated or drawn by seed."""

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from kcr_devcluster.testing.losses import LOSSES, Loss
from tests.chaos import (
    job_runs,
    shard_kills,
    shard_runs,
    test_leader_changes,
    test_recreate_race,
    test_two_controllers,
)
from tests.chaos.card import informers, outages
from tests.chaos.card.scenarios import SCENARIOS, Life, live
from tests.chaos.card.wires import EVENT_FAULTS, SingleEvent
from tests.chaos.informer import test_convergence
from tests.chaos.tally import broken, checked, met
from tests.kit import cronjob_stories
from tests.kit.crash import NO_FAULT, WriteFault, in_virtual_time

# The rest of a story's name, such as `indexed/17`, as its parts.
Parts = tuple[str, ...]


class Row(NamedTuple):
    """Stories of one kind.

    Attributes:
        title: What happens in them.
        story: Lives one, and returns the laws that it broke.
        all: Yields the rest of the name of each story; None when they are drawn by seed.
        share: How many seeds come in a round.
    """

    title: str
    story: Callable[[Parts], list[str]]
    all: Callable[[], Iterable[Parts]] | None = None
    share: int = 1


@cache
def counts(name: str) -> Mapping[str, int]:
    """Return how many writes and events a scenario has without a fault."""
    wires: list[SingleEvent] = []

    def wire(inner: object) -> SingleEvent:
        wires.append(SingleEvent(inner))  # type: ignore[arg-type]  # a transport
        return wires[-1]

    lived: Life = in_virtual_time(live(SCENARIOS[name], wire=wire))
    assert not lived.wrongs, lived.wrongs
    return {"writes": lived.writes, **wires[0].events}


@cache
def cron_writes(name: str) -> int:
    """Return how many writes the story of a CronJob has without a fault."""
    return in_virtual_time(cronjob_stories.live(NO_FAULT, cronjob_stories.STORIES[name]))


def _crashes() -> Iterator[Parts]:
    for name in SCENARIOS:
        yield from ((name, str(number)) for number in range(1, counts(name)["writes"] + 1))


def _crash(parts: Parts) -> list[str]:
    met("controller: crashed after a write")
    return in_virtual_time(live(SCENARIOS[parts[0]], WriteFault(crash_after=int(parts[1])))).wrongs


def _replies() -> Iterator[Parts]:
    for name, number in _crashes():
        yield from ((name, number, loss) for loss in LOSSES)


def _reply(parts: Parts) -> list[str]:
    met(f"request or reply: lost {parts[2]}")
    loss: Loss = parts[2]  # type: ignore[assignment]  # one of LOSSES
    return in_virtual_time(live(SCENARIOS[parts[0]], WriteFault(lost_reply=int(parts[1]), loss=loss))).wrongs


def _events() -> Iterator[Parts]:
    for name in SCENARIOS:
        for plural in ("jobs", "pods"):
            for number in range(1, counts(name)[plural] + 1):
                yield from ((name, plural, str(number), how) for how in EVENT_FAULTS)


def _event(parts: Parts) -> list[str]:
    name, plural, number, how = parts
    wire = partial(SingleEvent, plural=plural, number=int(number), how=how)
    return in_virtual_time(live(SCENARIOS[name], wire=wire, loses=how == "lost")).wrongs


def _cron_crashes() -> Iterator[Parts]:
    for name in sorted(cronjob_stories.STORIES):
        for number in range(1, cron_writes(name) + 1):
            # In turn: each way to lose a reply comes for every sixth write.
            yield from ((name, str(number), how) for how in ("crash", LOSSES[number % len(LOSSES)]))


def _cron(parts: Parts) -> list[str]:
    name, number, how = parts
    met("controller: crashed after a write" if how == "crash" else f"request or reply: lost {how}")
    loss: Loss = how  # type: ignore[assignment]  # one of LOSSES
    fault = WriteFault(crash_after=int(number)) if how == "crash" else WriteFault(lost_reply=int(number), loss=loss)
    story = cronjob_stories.STORIES[name]
    return _failing("runs_start_once", lambda: in_virtual_time(cronjob_stories.live(fault, story)))


def _failing(law: str, story: Callable[[], object]) -> list[str]:
    """Return what a story has found that raises when its law is broken."""
    checked(law)
    try:
        story()
    except Exception as error:
        # Where it was asserted; outside pytest an assertion has no words of its own.
        *_, last = traceback.extract_tb(error.__traceback__)
        wrong = f"{law}: {error!r} at {Path(last.filename).name}:{last.lineno}: {last.line}"
        broken(wrong)
        return [wrong]
    return []


def _seeded(story: Callable[[int], list[str]]) -> Callable[[Parts], list[str]]:
    return lambda parts: story(int(parts[0]))


def _raises(law: str, story: Callable[[int], object]) -> Callable[[Parts], list[str]]:
    return lambda parts: _failing(law, lambda: story(int(parts[0])))


def _in_time(story: Callable[[int], object]) -> Callable[[Parts], list[str]]:
    def run(parts: Parts) -> list[str]:
        found: list[str] = in_virtual_time(story(int(parts[0])))  # type: ignore[arg-type]  # a coroutine
        return found

    return run


def leaders_of_one_group(seed: int) -> list[str]:
    """Replicas without sharding; each write is compared with the holder of the Lease."""
    wrongs, _ = in_virtual_time(shard_runs.live(seed, shards=(0,)))
    return wrongs


ROWS: Mapping[str, Row] = {
    "crash": Row("crash after every write of twenty scenarios", _crash, _crashes),
    "reply": Row("reply lost in six ways after every write of twenty scenarios", _reply, _replies),
    "event": Row("each single watch event cut, delayed, doubled, reordered or lost", _event, _events),
    "cron": Row("CronJobs: crash, and reply lost, after every write of twelve stories", _cron, _cron_crashes),
    "hostile": Row("every object of 1,000 replaced by a hostile one", _in_time(informers.hostile), informers.hostiles),
    "informer": Row("informers under faults against a model", _in_time(informers.live), share=2),
    "jobs": Row("Jobs, users, faults of the network, crashes", _seeded(job_runs.wrongs_of), share=4),
    "stale": Row("lists and watches from older replicas of the API server", _in_time(outages.stale)),
    "leaders": Row("leaders stopped, killed, cut off, frozen", _seeded(leaders_of_one_group)),
    "terms": Row("short terms of leaders", _seeded(test_leader_changes.wrongs_of)),
    "two": Row("two controllers at once", _seeded(test_two_controllers.wrongs_of)),
    "shards": Row("shards moving between replicas", _seeded(shard_runs.wrongs_of)),
    "kills": Row("shards beside a replica that is killed again and again", _seeded(shard_kills.wrongs_of)),
    "clocks": Row("clocks that jump and drift", _in_time(outages.clocks)),
    "snapshot": Row("API server restarted from a snapshot of a minute ago", _in_time(outages.snapshot)),
    "rights": Row("quota, rights and webhooks taken away and given back", _in_time(outages.rights)),
    "dependents": Row("dependents under faults, crashes", _raises("dependents_converge", test_convergence.check)),
    "names": Row(
        "Jobs deleted and made again under one name",
        _raises("names_start_clean", partial(test_recreate_race.race, rounds=3, names=5)),
    ),
}  # fmt: skip


def enumerated() -> Iterator[str]:
    """Yield the names of all stories that are enumerated."""
    for name, row in ROWS.items():
        if row.all is not None:
            yield from ("/".join((name, *parts)) for parts in row.all())


def drawn() -> Iterator[str]:
    """Yield the names of stories that are drawn by seed, endlessly, all rows in turn."""
    seed = 0
    while True:
        for name, row in ROWS.items():
            if row.all is None:
                yield from (f"{name}/{seed * row.share + number}" for number in range(row.share))
        seed += 1


def run(story: str) -> list[str]:
    """Live the story of a name, and return the laws that it broke."""
    name, *parts = story.split("/")
    return ROWS[name].story(tuple(parts))
