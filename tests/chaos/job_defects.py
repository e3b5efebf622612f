"""Defects of the Job controller that the laws must find: each is planted by a replacement of text."""

from pathlib import Path
from typing import NamedTuple


class Edit(NamedTuple):
    """A text that stands exactly once in a module below controllers/job, and what it becomes."""

    file: str
    old: str
    new: str


class Defect(NamedTuple):
    """What is wrong, in a word, and what makes it so."""

    name: str
    edits: tuple[Edit, ...]

    def plant(self, tree: Path) -> None:
        """Change a copy of the project.

        Raises:
            ValueError: A text is not there exactly once: the code has changed, and the defect has to follow.
        """
        for file, old, new in self.edits:
            path = tree / "controllers" / "job" / file
            text = path.read_text()
            if text.count(old) != 1:
                raise ValueError(f"{self.name}: {text.count(old)} times in {file}: {old!r}")
            path.write_text(text.replace(old, new))


def _defect(name: str, file: str, old: str, new: str) -> Defect:
    return Defect(name, (Edit(file, old, new),))


DEFECTS = (
    _defect(
        "restarts-may-exceed-the-limit",
        "backoff.py",
        "return restarts > 0 if limit == 0 else restarts >= limit",
        "return restarts > limit",
    ),
    _defect(
        "failures-may-not-reach-the-limit", "backoff.py", "return failed > _limit(job)", "return failed >= _limit(job)"
    ),
    _defect(
        "failed-creation-stays-expected",
        "actions.py",
        "        self._expectations.creation_observed(identity(job), count - there)\n",
        "",
    ),
    _defect(
        "failed-deletion-stays-expected",
        "actions.py",
        "        self._expectations.deletion_observed(identity(job), len(pods) - len(outcome.deleted))\n",
        "",
    ),
    _defect(
        "unconfirmed_creates-creation-is-forgotten",
        "memory.py",
        "        self.unconfirmed_creates.extend(outcome.unconfirmed_creates)\n",
        "",
    ),
    _defect(
        "end-while-pods-are-terminating",
        "status_update.py",
        " and not status.terminating and not status.active",
        " and not status.active",
    ),
    _defect(
        "failures-of-an-index-do-not-add-up",
        "indexed.py",
        "return IndexedPod(index, failures_before(last) + counts,",
        "return IndexedPod(index, failures_before(last),",
    ),
    _defect(
        "ignored-failures-count", "failure_policy.py", "        return self.action != IGNORE\n", "        return True\n"
    ),
    _defect("no-parking", "controller.py", "        parking=parking,\n        workers", "        workers"),
    _defect(
        "lists-without-cap",
        "tracking.py",
        "        self.capped |= len(self._known) + len(self.completed) >= self._limit\n",
        "",
    ),
    _defect(
        "delayed-pods-are-let-go",
        "status_update.py",
        "held={pod.metadata.uid for pod in indexes.delayed.values()} if indexes is not None else frozenset(),",
        "held=frozenset(),",
    ),
    _defect(
        "end-changes-its-reason",
        "decide.py",
        "already_succeeding, already_failing, failed_by_policy, past_backoff_limit,",
        "already_succeeding, failed_by_policy, past_backoff_limit, already_failing,",
    ),
    _defect(
        "terminating-pods-are-replaced",
        "decide.py",
        "counts.terminating if replaces_only_failed(job) else 0",
        "0",
    ),
    _defect(
        "terminating-pods-free-their-index",
        "decide.py",
        "filter(is_terminating, seen.pods) if replaces_only_failed(job) else ()",
        "()",
    ),
    _defect(
        "terminating-pods-fail-under-failed",
        "pods.py",
        "return is_terminating(pod) and not replaces_only_failed(job) and not is_ending(job)",
        "return is_terminating(pod) and not is_ending(job)",
    ),
    _defect(
        "fatal-failures-are-overlooked",
        "decide.py",
        "    already_succeeding, already_failing, failed_by_policy, past_backoff_limit,",
        "    already_succeeding, already_failing, past_backoff_limit,",
    ),
    _defect("index-does-not-fail-at-once", "indexed.py", "    if found.action == FAIL_INDEX:\n", "    if False:\n"),
    _defect(
        "index-is-tried-once-too-often",
        "indexed.py",
        "return found.counts and failures_before(pod) >= (",
        "return found.counts and failures_before(pod) > (",
    ),
    _defect("failed-indexes-may-exceed", "decide.py", "or len(failed) <= most:", "or len(failed) <= most + 1:"),
    _defect("complete-while-pods-are-active", "completion.py", "    if active:\n        return False\n", ""),
    _defect(
        "pods-that-ended-unseen-are-spared",
        "actions.py",
        "await self._untrack_one(pod, require_version=True) if",
        "await self._untrack_one(pod, require_version=False) if",
    ),
    _defect(
        "suspended-pods-keep-their-finalizer",
        "reconciler.py",
        "return await self._deps.actions.remove(job, pods)",
        "return await self._deps.actions.delete(job, pods)",
    ),
    _defect(
        "end-before-every-finalizer-has-gone",
        "status_update.py",
        "done = nothing_listed and all_gone and not",
        "done = nothing_listed and not",
    ),
    _defect(
        "full-lists-are-not-taken-up-again",
        "status_update.py",
        "requeue=listing.capped or _put_off(seen, plan.work),",
        "again=False,",
    ),
    _defect(
        "surplus-indexes-stay",
        "indexed.py",
        "return (*needless, *more)",
        "return tuple(more)",
    ),
    _defect(
        "finalizers-go-before-the-count",
        "reconciler.py",
        """        recorded = await self._write_status(job, update.status, state)
        self._deps.metrics.handled(update.handled)
        self._record_events(recorded, update)
        released = await self._untrack(job, update, state)
""",
        """        released = await self._untrack(job, update, state)
        recorded = await self._write_status(job, update.status, state)
        self._deps.metrics.handled(update.handled)
        self._record_events(recorded, update)
""",
    ),
    _defect(
        "creation-seen-is-not-noted",
        "handlers.py",
        "            self._keys.expectations.creation_observed(identity(job))\n",
        "            pass\n",
    ),
    Defect(
        "memory-by-name-only",
        (
            Edit("memory.py", "if state is None or state.uid != job.metadata.uid:", "if state is None:"),
            Edit("memory.py", "state = self._jobs.pop(key, None)", "state = self._jobs.get(key)"),
        ),
    ),
    _defect("held-pods-are-let-be", "handlers.py", "            self._orphans.add(pod.key)\n", "            pass\n"),
    _defect("deadline-does-not-wake", "decide.py", "for moment in (wait, left) if", "for moment in (wait,) if"),
    _defect("backoff-does-not-wake", "decide.py", "for moment in (wait, left) if", "for moment in (left,) if"),
    _defect(
        "suspended-job-keeps-its-start",
        "suspend.py",
        "        start = None\n",
        "        start = status.start_time\n",
    ),
)
