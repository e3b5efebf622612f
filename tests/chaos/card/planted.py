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

from tests.chaos.card import rows
from tests.chaos.card.results import Found, law_of
from tests.chaos.card.running import Writes
from tests.chaos.card.scenarios import SCENARIOS
from tests.chaos.job_defects import DEFECTS as JOB_DEFECTS
from tests.chaos.job_defects import TESTED as JOB_TESTED
from tests.chaos.planting import Defect, Edit, defect
from tests.chaos.shard_defects import DEFECTS as SHARD_DEFECTS
from tests.chaos.shard_defects import WAITS as SHARD_WAITS

ROOT = Path(__file__).parents[3]
# How many seeds of a row are tried, and the wall clock of a hunt in seconds.
_SEEDS, _LONGEST = 1000, 600


class Planted(NamedTuple):
    """A defect, and the law that must find it.

    Attributes:
        defect: The change, with its name.
        law: The name of the law.
        broken: What is broken, in words.
        stories: Where it is looked for: first a story that shows it, if it is not the first of its row; then names of
            rows, whose stories are tried in turn, because a change of the code may move it.
    """

    defect: Defect
    law: str
    broken: str
    stories: tuple[str, ...]


_KNOWN = {one.name: one for one in (*JOB_DEFECTS, *(one for one, _ in JOB_TESTED), *SHARD_DEFECTS, *SHARD_WAITS)}
# The API server refuses some wrong statuses, so that no story shows them: such a defect takes its check away as well.
# Servers before Kubernetes 1.31 have none of these checks.
_ANY_FAILED = Edit("_failed_only_rises", "A.count('failed') < B.count('failed')", "False")
_ANY_END = Edit("_finished_has_none", "A.finished and A.count(B) > 0", "False")


def _of(name: str, law: str, broken: str, *stories: str, also: tuple[Edit, ...] = (), renamed: str = "") -> Planted:
    """A defect of another suite, with more edits if its law needs them."""
    known = _KNOWN[name]
    return Planted(defect(renamed or name, *known.edits, *also), law, broken, stories)


def _new(name: str, law: str, broken: str, stories: tuple[str, ...], *edits: Edit) -> Planted:
    return Planted(defect(name, *edits), law, broken, stories)


PLANTED: tuple[Planted, ...] = (
    _new(
        "failures-are-dropped", "counts_add_up", "failures leave the list and are not counted",
        ("crash/backoff-limit/1", "jobs"),
        Edit("counted", "A.failed + len(B.failed) - len(C.failed)", "A.failed"),
    ),
    _new(
        "failures-are-counted-from-zero", "numbers_only_grow",
        "the count of failures forgets those before, and the server lets it fall", ("crash/backoff-limit/1", "jobs"),
        Edit("counted", "A.failed + len(B.failed) - len(C.failed)", "len(B.failed) - len(C.failed)"), _ANY_FAILED,
    ),
    _new(
        "index-0-is-complete", "indexes_have_witnesses", "index 0 is recorded as complete without a pod",
        ("crash/indexed/1", "jobs"),
        Edit("_with_indexes", "str(A.succeeded)", "str(A.succeeded | A.succeeded.parse('0', 1))"),
    ),
    _new(
        "ends-are-not-recorded", "jobs_end", "the terminal condition is never written", ("crash/one-pod/1", "jobs"),
        Edit("finalize_status", "A.ending is None or not B", "True"),
    ),
    _new(
        "more-ready-than-active", "no_status_is_invalid", "99 pods are ready", ("crash/one-pod/1", "jobs"),
        Edit("_present", argument="replace.ready", by="99"),
    ),
    _new(
        "own-pods-are-released", "pods_are_released_for_a_reason", "pods that fit the selector are released",
        ("crash/one-pod/1", "jobs"),
        Edit("claim_decision", "'keep' if A else B", "'release'"),
    ),
    _new(
        "orphans-are-not-adopted", "dependents_converge", "objects without an owner are not adopted", ("dependents",),
        Edit("claim_decision", "'adopt' if A else 'ignore'", "'ignore'"),
    ),
    _of(
        "lists-without-cap", "lists_stay_within_the_cap", "the lists of a status have no limit",
        "crash/short-lists/1", "jobs",
    ),
    # Two lines of defence: a Job that does not fail at once keeps the pod unlisted, as the witness.
    _of(
        "fatal-failures-are-overlooked", "lists_name_pods_once",
        "the failure policy FailJob has no effect, and its pods are listed as any others",
        "crash/failure-policy/1", "jobs", also=(Edit("_failure", "A.action == FAIL_JOB and not B._ends", "False"),),
    ),
    _of(
        "finalizers-go-before-the-count", "finalizers_go_after_the_count", "finalizers are removed before the count",
        "crash/one-pod/1", "jobs",
    ),
    _of(
        "finalizers-go-before-the-count", "pods_go_after_the_count", "the same, with two controllers",
        "two/0", "two", renamed="finalizers-go-before-the-count-two",
    ),
    _of(
        "index-is-tried-once-too-often", "indexes_fail_no_more_often", "an index is tried once too often",
        "crash/failed-index/1", "jobs",
    ),
    _of(
        "terminating-pods-are-replaced", "no_pod_is_one_too_many", "terminating pods count as missing",
        "crash/replaced-when-failed/1", "jobs",
    ),
    # Two lines of defence: an interim condition that is there is not written again.
    _of(
        "end-changes-its-reason", "conditions_stay", "another rule decides the end that is on record, and rewrites it",
        "crash/deadline/1", "jobs", also=(Edit("_with_interim", "is_condition_true(A, B)", "False"),),
    ),
    _new(
        "terminating-pods-are-overlooked", "end_comes_last", "a Job ends while its pods terminate",
        ("crash/deadline/1", "jobs"),
        Edit("_present", argument="replace.terminating", by="0"),
    ),
    _of(
        "end-while-pods-are-terminating", "end_has_nothing_open", "the same, and the server takes the status",
        "crash/deadline/1", "jobs", also=(_ANY_END,),
    ),
    _of(
        "suspended-job-keeps-its-start", "start_time_follows_suspension", "a resumed Job keeps its start time",
        "crash/suspended/1", "jobs",
    ),
    _of(
        "failures-may-not-reach-the-limit", "ending_has_a_reason", "a Job fails one failure too early",
        "crash/backoff-limit/1", "jobs",
    ),
    _of(
        "deadline-does-not-wake", "nothing_is_overdue", "no sync comes at the deadline", "crash/deadline/1", "jobs",
    ),
    _of(
        "suspended-pods-keep-their-finalizer", "nothing_is_left", "pods that are not wanted count as failed",
        "crash/suspended/1", "jobs",
    ),
    _of(
        "held-pods-are-let-be", "no_pod_is_held", "finalizers of pods without a Job stay",
        "crash/made-again/1", "jobs",
    ),
    _of(
        "free-shards-wait-for-whoever-has-a-sign-of-life", "shards_are_held",
        "free shards wait for replicas that do not take them", "kills",
    ),
    _of("no-fence-of-shards", "one_writer", "writes are sent when a Lease is lost", "shards/2", "shards"),
    _of(
        "own-writes-by-name-only", "names_start_clean", "own writes are remembered by name", "names/7", "names",
    ),
    _of(
        "held-pods-are-let-be", "names_start_clean", "the same, when the name is used again", "names",
        renamed="held-pods-are-let-be-names",
    ),
    _new(
        "lost-records-are-not-restored", "runs_start_once", "a run whose record was lost is not recorded",
        ("cron/allow/1/crash", "cron"),
        Edit("_restore", "forgotten(A, B, C)", "()"),
    ),
    _new(
        "deletions-are-not-dispatched", "nothing_is_lost", "handlers are not called with deletions", ("informer",),
        Edit("remove", "A.deleted(B, C)"),
    ),
    _new(
        "new-object-is-an-update", "handlers_fit", "an object made again under its name is an update", ("informer",),
        Edit("replace", "A.metadata.uid != B.metadata.uid", "False"),
    ),
    _new(
        "same-version-is-an-update", "versions_grow", "an event that comes twice is an update", ("informer",),
        Edit("put", "if A is B: return"),
    ),
    _new(
        "shared-parts-are-wrong", "events_are_committed", "the store has data that no object had", ("informer",),
        Edit("share", "A._latest = B", also="B = __import__('msgspec').structs.replace(B, data={'a': 'wrong'})"),
    ),
    _new(
        "bad-object-costs-others", "hostile_objects_harm_no_other", "objects listed before it are lost", ("hostile",),
        Edit("add", "A._undecodable[B.key] = B.why", also="A._objects.clear()"),
    ),
    _new(
        "bad-objects-are-skipped", "hostile_objects_are_named", "undecodable objects are dropped", ("hostile",),
        Edit("add", "A._undecodable[B.key] = B.why"),
    ),
)  # fmt: skip


def stories_of(planted: Planted) -> Iterator[str]:
    """Yield the stories in which a defect is looked for: first that which is known to show it.

    Of Jobs the scenarios come next, which are short, and the seeds after them.
    """
    for place in planted.stories:
        row = rows.ROWS[place.partition("/")[0]]
        if place == "jobs":
            yield from (f"crash/{name}/1" for name in SCENARIOS)
        if "/" in place:
            yield place
        elif row.all is None:
            yield from (f"{place}/{seed}" for seed in range(_SEEDS))
        else:
            yield from ("/".join((place, *parts)) for parts in row.all())


def hunt(name: str) -> int:
    """Live stories in this copy of the project until the law of a planted defect is broken; print which, and how."""
    (planted,) = [one for one in PLANTED if one.defect.name == name]

    def compare(story: str, wrong: str, history: str) -> None:
        if law_of(wrong) == planted.law:
            print(f"found {story}\n{history}", flush=True)
            # The story may have no end.
            os._exit(0)
        print(f"{story}: {wrong}", file=sys.stderr, flush=True)

    for story in stories_of(planted):
        writes = Writes(partial(compare, story))
        try:
            with writes.recording():
                wrongs: Sequence[str] = rows.run(story)
        except Exception as error:
            wrongs = (f"stories_end: {error!r}",)
        for wrong in wrongs:
            compare(story, wrong, writes.up_to(wrong))
    return 1


def find(planted: Planted) -> Found:
    """Plant a defect in a copy of the project, and return the story that finds it."""
    with TemporaryDirectory() as folder:
        tree = Path(folder)
        # With what is compiled: it stays valid, since the copies are as old as the originals.
        for package in ("kcr", "controllers", "devcluster", "tests", "examples"):
            shutil.copytree(ROOT / package, tree / package, symlinks=True)
        for path, text in planted.defect.changed(ROOT).items():
            (tree / path.relative_to(ROOT)).write_text(text)
        command = [sys.executable, "-m", "tests.chaos.card", "--hunt", planted.defect.name]
        environment = {**os.environ, "PYTHONPATH": f"{tree}{os.pathsep}{tree / 'devcluster'}"}
        try:
            told = subprocess.run(
                command, cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=_LONGEST
            ).stdout
        except subprocess.TimeoutExpired:
            told = ""
    found, _, history = told.partition("\n")
    story = found.removeprefix("found ").strip() if found.startswith("found ") else ""
    return Found(planted.defect.name, planted.law, story, history if story else "")


def find_all(workers: int) -> Sequence[Found]:
    """Plant all defects, some at a time, and return which stories found them."""
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(find, PLANTED))
