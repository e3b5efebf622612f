"""Defects that the card plants in a copy of the project: for each law at least one, which a story must find.

tests/chaos/planting.py says how they are written; those of other suites are taken by their names.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.chaos import tally
from tests.chaos.card import rows
from tests.chaos.card.results import Found, law_of
from tests.chaos.card.scenarios import SCENARIOS
from tests.chaos.job_defects import DEFECTS as JOB_DEFECTS
from tests.chaos.planting import Defect, Edit, defect
from tests.chaos.shard_defects import DEFECTS as SHARD_DEFECTS

ROOT = Path(__file__).parents[3]
# How many seeds of a row are tried, and the wall clock of a hunt in seconds.
_SEEDS, _LONGEST = 1000, 1800


class Planted(NamedTuple):
    """A defect, and the law that must find it.

    Attributes:
        defect: The change, with its name.
        law: The name of the law.
        broken: What is broken, in words.
        stories: Where it is looked for: names of stories, or of rows whose seeds are tried in turn.
    """

    defect: Defect
    law: str
    broken: str
    stories: tuple[str, ...] = ("jobs",)


_KNOWN = {one.name: one for one in (*JOB_DEFECTS, *SHARD_DEFECTS)}


def _of(name: str, law: str, broken: str, *stories: str) -> Planted:
    return Planted(_KNOWN[name], law, broken, stories or ("jobs",))


def _new(name: str, law: str, broken: str, row: str, *edits: Edit) -> Planted:
    return Planted(defect(name, *edits), law, broken, (row,))


def _beside(name: str, law: str, broken: str, row: str) -> Planted:
    """The same change as another one, for a law of another row."""
    return _new(f"{name}-{row}", law, broken, row, *_KNOWN[name].edits)


PLANTED: tuple[Planted, ...] = (
    _new(
        "failures-are-dropped", "counts_add_up", "failures leave the list and are not counted", "jobs",
        Edit("counted", "A.failed + len(B.failed) - len(C.failed)", "A.failed"),
    ),
    _new(
        "failures-are-counted-from-zero", "numbers_only_grow", "the count of failures forgets those before", "jobs",
        Edit("counted", "A.failed + len(B.failed) - len(C.failed)", "len(B.failed) - len(C.failed)"),
    ),
    _new(
        "index-0-is-complete", "indexes_have_witnesses", "index 0 is recorded as complete without a pod", "jobs",
        Edit("_with_indexes", "IndexSet.of(A.completed)", "IndexSet.of({*A.completed, 0})"),
    ),
    _new(
        "ends-are-not-recorded", "jobs_end", "the terminal condition is never written", "jobs",
        Edit("finalize_status", "A.ending is None or not B", "True"),
    ),
    _new(
        "more-ready-than-active", "no_status_is_invalid", "99 pods are ready", "jobs",
        Edit("_present", argument="replace.ready", by="99"),
    ),
    _new(
        "own-pods-are-released", "pods_are_released_for_a_reason", "pods that fit the selector are released", "jobs",
        Edit("claim_decision", "'keep' if A else B", "'release'"),
    ),
    _new(
        "orphans-are-not-adopted", "dependents_converge", "objects without an owner are not adopted", "dependents",
        Edit("claim_decision", "'adopt' if A else 'ignore'", "'ignore'"),
    ),
    _of("lists-without-cap", "lists_stay_within_the_cap", "the lists of a status have no limit"),
    _of("fatal-failures-are-overlooked", "lists_name_pods_once", "the failure policy FailJob has no effect"),
    _of("finalizers-go-before-the-count", "finalizers_go_after_the_count", "finalizers are removed before the count"),
    _beside("finalizers-go-before-the-count", "pods_go_after_the_count", "the same, with two controllers", "two"),
    _of("index-is-tried-once-too-often", "indexes_fail_no_more_often", "an index is tried once too often"),
    _of("terminating-pods-are-replaced", "no_pod_is_one_too_many", "terminating pods count as missing"),
    _of("end-changes-its-reason", "conditions_stay", "another rule decides the end that is on record"),
    _of("end-while-pods-are-terminating", "end_comes_last", "a Job ends while its pods terminate"),
    _beside("end-while-pods-are-terminating", "end_has_nothing_open", "the same, with two controllers", "two"),
    _of("suspended-job-keeps-its-start", "start_time_follows_suspension", "a resumed Job keeps its start time"),
    _of("failures-may-not-reach-the-limit", "ending_has_a_reason", "a Job fails one failure too early"),
    _of("deadline-does-not-wake", "nothing_is_overdue", "no sync comes at the deadline"),
    _of("suspended-pods-keep-their-finalizer", "nothing_is_left", "pods that are not wanted count as failed"),
    _of("held-pods-are-let-be", "no_pod_is_held", "finalizers of pods without a Job stay"),
    _of("no-fence-of-shards", "one_writer", "writes are sent when a Lease is lost", "shards"),
    _of("own-writes-by-name-only", "names_start_clean", "own writes are remembered by name", "names"),
    _new(
        "lost-records-are-not-restored", "runs_start_once", "a run whose record was lost is not recorded", "cron",
        Edit("_restore", "forgotten(A, B, C)", "()"),
    ),
    _new(
        "deletions-are-not-dispatched", "nothing_is_lost", "handlers are not called with deletions", "informer",
        Edit("remove", "A.deleted(B, C)"),
    ),
    _new(
        "new-object-is-an-update", "handlers_fit", "an object made again under its name is an update", "informer",
        Edit("put", "A.metadata.uid == B.metadata.uid", "True"),
    ),
    _new(
        "same-version-is-an-update", "versions_grow", "an event that comes twice is an update", "informer",
        Edit("put", "if A is B: return"),
    ),
    _new(
        "shared-parts-are-wrong", "events_are_committed", "the store has data that no object had", "informer",
        Edit("share", "A._latest = B", also="B = __import__('msgspec').structs.replace(B, data={'a': 'wrong'})"),
    ),
    _new(
        "first-bad-object-ends-the-list", "hostile_objects_harm_no_other", "objects behind it are lost", "hostile",
        Edit("read_page", "A.append(_undecodable(...))", also="break"),
    ),
    _new(
        "bad-objects-are-skipped", "hostile_objects_are_named", "undecodable objects are dropped", "hostile",
        Edit("read_page", "A.append(_undecodable(...))"),
    ),
)  # fmt: skip


def stories_of(planted: Planted) -> Iterator[str]:
    """Yield the stories in which a defect is looked for: of Jobs, first the scenarios, which are short."""
    if planted.stories == ("jobs",):
        yield from (f"crash/{name}/1" for name in SCENARIOS)
    for place in planted.stories:
        row = rows.ROWS[place.partition("/")[0]]
        if "/" in place:
            yield place
        elif row.all is None:
            yield from (f"{place}/{seed}" for seed in range(_SEEDS))
        else:
            yield from ("/".join((place, *parts)) for parts in row.all())


def hunt(name: str) -> int:
    """Live stories in this copy of the project until the law of a planted defect is broken, and print which one did."""
    (planted,) = [one for one in PLANTED if one.defect.name == name]

    def compare(story: str, wrong: str) -> None:
        if law_of(wrong) == planted.law:
            print(f"found {story}", flush=True)
            # The story may have no end.
            os._exit(0)
        print(f"{story}: {wrong}", file=sys.stderr, flush=True)

    for story in stories_of(planted):
        tally.ON_BROKEN[:] = [partial(compare, story)]
        try:
            wrongs: Sequence[str] = rows.run(story)
        except Exception as error:
            wrongs = (f"stories_end: {error!r}",)
        for wrong in wrongs:
            compare(story, wrong)
    return 1


def find(planted: Planted) -> Found:
    """Plant a defect in a copy of the project, and return the story that finds it."""
    with TemporaryDirectory() as folder:
        tree, ignored = Path(folder), shutil.ignore_patterns("__pycache__")
        for package in ("kcr", "controllers", "devcluster", "tests", "examples"):
            shutil.copytree(ROOT / package, tree / package, symlinks=True, ignore=ignored)
        planted.defect.plant(tree)
        command = [sys.executable, "-m", "tests.chaos.card", "--hunt", planted.defect.name]
        environment = {**os.environ, "PYTHONPATH": f"{tree}{os.pathsep}{tree / 'devcluster'}"}
        try:
            told = subprocess.run(
                command, cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=_LONGEST
            ).stdout
        except subprocess.TimeoutExpired:
            told = ""
    story = told.removeprefix("found ").strip() if told.startswith("found ") else ""
    return Found(planted.defect.name, planted.law, story)


def find_all(workers: int) -> Sequence[Found]:
    """Plant all defects, some at a time, and return which stories found them."""
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(find, PLANTED))
