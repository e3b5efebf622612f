"""What came of stories: of one, and of all."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_MOMENT = re.compile(r"^\d+\.\d+ s: ")
# Violations by name, each with the laws whose breach it is.
VIOLATIONS: Mapping[str, tuple[str, ...]] = {
    "pods counted twice, or not at all": (
        "counts_add_up", "lists_name_pods_once", "finalizers_go_after_the_count", "pods_go_after_the_count",
        "numbers_only_grow", "indexes_have_witnesses", "indexes_fail_no_more_often", "lists_stay_within_the_cap",
    ),
    "surplus pods": ("no_pod_is_one_too_many", "names_start_clean"),
    "runs of CronJobs started twice, or not at all": ("runs_start_once",),
    "stuck Jobs": ("jobs_end", "nothing_is_overdue", "stories_end"),
    "orphans left": ("nothing_is_left", "no_pod_is_held", "pods_are_released_for_a_reason", "dependents_converge"),
    "wrong ends and reasons": (
        "conditions_stay", "end_comes_last", "end_has_nothing_open", "start_time_follows_suspension",
        "ending_has_a_reason",
    ),
    "refused status writes": ("no_status_is_invalid",),
    "two writers": ("one_writer",),
    "shards without a holder": ("shards_are_held",),
    "lost events of informers": (
        "nothing_is_lost", "handlers_fit", "events_are_committed", "versions_grow", "hostile_objects_harm_no_other",
        "hostile_objects_are_named",
    ),
}  # fmt: skip


class Result(NamedTuple):
    """What came of a story.

    Attributes:
        story: Its name.
        wrongs: The laws that it broke, each with what was seen.
        history: The writes up to the first of them.
        faults: How often it met a fault, by kind.
        laws: How often a law was checked, by name.
        compared: How many events were compared with a model.
        seconds: How long it took.
    """

    story: str
    wrongs: tuple[str, ...]
    history: str
    faults: Mapping[str, int]
    laws: Mapping[str, int]
    compared: Mapping[str, int]
    seconds: float


class Found(NamedTuple):
    """A planted defect, the story that found it, and the history of its writes; both are empty for none."""

    name: str
    law: str
    story: str
    history: str


def law_of(wrong: str) -> str:
    """Return the name of the law that was broken."""
    return _MOMENT.sub("", wrong).partition(":")[0]


class Card:
    """What came of all stories.

    Attributes:
        workers: In how many processes.
        stories: How many there were.
        by_row: How many by row.
        whole: How many are enumerated, by row.
        broken: The stories that broke a law, with what was wrong first.
        violations: How often by law.
        found: The planted defects.
        seconds: How long the stories took.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.by_row: Counter[str] = Counter()
        self.whole: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.laws: Counter[str] = Counter()
        self.compared: Counter[str] = Counter()
        self.violations: Counter[str] = Counter()
        self.broken_rows: Counter[str] = Counter()
        self.broken: dict[str, str] = {}
        self.found: Sequence[Found] = ()
        self.seconds = 0.0

    @property
    def stories(self) -> int:
        return self.by_row.total()

    def enumerated(self, every: Sequence[str]) -> None:
        """Note the names of all stories that are enumerated."""
        self.whole.update(name.partition("/")[0] for name in every)

    def add(self, result: Result) -> None:
        """Count a story."""
        row = result.story.partition("/")[0]
        self.by_row[row] += 1
        self.faults.update(result.faults)
        self.laws.update(result.laws)
        self.compared.update(result.compared)
        self.violations.update({law_of(wrong) for wrong in result.wrongs})
        if result.wrongs:
            self.broken_rows[row] += 1
            self.broken[result.story] = result.wrongs[0]

    def violations_by_name(self) -> Mapping[str, int]:
        """Return how many stories had each violation; those of no name of its own are `others`."""
        named = {name: sum(self.violations[law] for law in laws) for name, laws in VIOLATIONS.items()}
        return {**named, "others": self.violations.total() - sum(named.values())}
