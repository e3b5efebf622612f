"""Validation of writes to the status of a Job.

All writers are held to it. Most rules apply only to writes that change the part they are about, so that an object that
was stored under older rules can still be written.

Source: kubernetes/pkg/registry/batch/job/strategy.go, getStatusValidationOptions;
pkg/apis/batch/validation/validation.go, validateJobStatus and ValidateJobStatusUpdate.
"""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple

from kcr_devcluster.apiserver.kinds.batch.job_policies import Interval, parse_indexes, read_intervals
from kcr_devcluster.apiserver.protocol.field_errors import (
    IMMUTABLE,
    FieldError,
    duplicate,
    invalid,
    invalid_whole,
    non_negative,
    required,
)
from kcr_devcluster.apiserver.protocol.manifests import Manifest


class _JobState:
    """A stored or new Job; an absent field equals a zero or empty one where upstream treats them as equal."""

    def __init__(self, job: Manifest) -> None:
        self.spec: Manifest = job.get("spec") or {}
        self.status: Manifest = job.get("status") or {}
        # Types may repeat; a condition is True when one of its kind is.
        self._conditions = {
            (condition.get("type"), condition.get("status")) for condition in self.status.get("conditions") or ()
        }

    def holds(self, condition: str, status: str = "True") -> bool:
        """Return whether a condition is True, or has the status that is given."""
        return (condition, status) in self._conditions

    @property
    def finished(self) -> bool:
        """Whether the Job has ended."""
        return self.holds("Complete") or self.holds("Failed")

    @property
    def indexed(self) -> bool:
        """Whether each completion has an index."""
        return self.spec.get("completionMode") == "Indexed"

    def count(self, name: str) -> int:
        """Return a counter of pods."""
        return self.status.get(name) or 0

    @cached_property
    def uncounted(self) -> tuple[list[str], list[str]]:
        """The uids of pods that ended and are not in the counters yet: succeeded, failed."""
        pods = self.status.get("uncountedTerminatedPods") or {}
        return pods.get("succeeded") or [], pods.get("failed") or []

    def part(self, name: str) -> object:
        """Return the value by which a change of a part of the status is detected."""
        match name:
            case "finished":
                return self.finished
            case "Complete" | "Failed" | "FailureTarget" | "SuccessCriteriaMet":
                return self.holds(name)
            case "active":
                return self.count("active")
            case "uncountedTerminatedPods":
                return self.uncounted
            case "completedIndexes":
                return self.status.get(name) or ""
            case _:
                return self.status.get(name)


_CONDITIONS = "status.conditions"


Check = Callable[[_JobState, _JobState], Iterator[FieldError]]


class StatusRule(NamedTuple):
    """A check and the parts whose change calls for it; none means always."""

    check: Check
    parts: tuple[str, ...] = ()


def check_status(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return the field errors of a new status, given the stored Job."""
    after, before = _JobState(new), _JobState(old)
    changed = {part for part in _PARTS if after.part(part) != before.part(part)}
    return [
        error
        for rule in RULES
        if not rule.parts or not changed.isdisjoint(rule.parts)
        for error in rule.check(after, before)
    ]


def _counters(new: _JobState, old: _JobState) -> Iterator[FieldError]:
    for name in ("active", "succeeded", "failed", "ready", "terminating"):
        yield from non_negative(f"status.{name}", new.status.get(name))


def _uncounted_uids(new: _JobState, old: _JobState) -> Iterator[FieldError]:
    seen: set[str] = set()
    for name, uids in zip(("succeeded", "failed"), new.uncounted, strict=True):
        for position, uid in enumerate(uids):
            field = f"status.uncountedTerminatedPods.{name}[{position}]"
            if not uid:
                yield invalid(field, uid, "must not be empty")
            elif uid in seen:
                yield duplicate(field, uid)
            seen.add(uid)


def _never_both(first: str, second: str) -> Check:
    def check(new: _JobState, old: _JobState) -> Iterator[FieldError]:
        if new.holds(first) and new.holds(second):
            yield invalid_whole(_CONDITIONS, f"cannot set {first}=True and {second}=true conditions")

    return check


def _needs(condition: str, other: str) -> Check:
    def check(new: _JobState, old: _JobState) -> Iterator[FieldError]:
        if new.holds(condition) and not new.holds(other):
            yield invalid_whole(
                _CONDITIONS, f"cannot set {condition}=True condition without the {other}=true condition"
            )

    return check


def _completion_time_needs_complete(new: _JobState, old: _JobState) -> Iterator[FieldError]:
    moment = new.status.get("completionTime")
    if moment is not None and not new.holds("Complete"):
        words = "cannot set completionTime when there is no Complete=True condition"
        yield invalid("status.completionTime", moment, words)


def _complete_needs_completion_time(new: _JobState, old: _JobState) -> Iterator[FieldError]:
    if new.holds("Complete") and new.status.get("completionTime") is None:
        yield required("status.completionTime", "completionTime is required for Complete jobs")


def _completion_after_start(new: _JobState, old: _JobState) -> Iterator[FieldError]:
    start, completion = new.status.get("startTime"), new.status.get("completionTime")
    # Both are in the one canonical form, whose order as text is the order in time.
    if start is not None and completion is not None and completion < start:
        yield invalid("status.completionTime", completion, "must be equal to or after `startTime`")


def _finished_has_none(name: str) -> Check:
    def check(new: _JobState, old: _JobState) -> Iterator[FieldError]:
        if new.finished and new.count(name) > 0:
            yield invalid(f"status.{name}", new.count(name), f"{name}>0 is invalid for finished job")

    return check


def _finished_has_started(new: _JobState, old: _JobState) -> Iterator[FieldError]:
    never_ran = new.spec.get("suspend") is True and new.spec.get("completions") == 0
    if new.finished and new.status.get("startTime") is None and not never_ran:
        yield required("status.startTime", "startTime is required for finished job")


def _finished_has_counted(new: _JobState, old: _JobState) -> Iterator[FieldError]:
    if new.finished and any(new.uncounted):
        pods = new.status["uncountedTerminatedPods"]
        yield invalid("status.uncountedTerminatedPods", pods, "must be empty for finished job")


def _completed_indexes_parse(new: _JobState, old: _JobState) -> Iterator[FieldError]:
    text, completions = new.status.get("completedIndexes") or "", new.spec.get("completions")
    if completions is not None:
        yield from _check_indexes("completedIndexes", text, completions)


def _failed_indexes_parse(new: _JobState, old: _JobState) -> Iterator[FieldError]:
    text, completions = new.status.get("failedIndexes"), new.spec.get("completions")
    if text is not None and completions is not None and new.spec.get("backoffLimitPerIndex") is not None:
        yield from _check_indexes("failedIndexes", text, completions)


def _check_indexes(name: str, text: str, completions: int) -> Iterator[FieldError]:
    try:
        parse_indexes(text, completions)
    except ValueError as error:
        yield invalid(f"status.{name}", text, f"error parsing {name}: {error}")


def _completed_indexes_need_mode(new: _JobState, old: _JobState) -> Iterator[FieldError]:
    text = new.status.get("completedIndexes")
    if text and not new.indexed:
        words = "cannot set non-empty completedIndexes when non-indexed completion mode"
        yield invalid("status.completedIndexes", text, words)


def _failed_indexes_need_limit(new: _JobState, old: _JobState) -> Iterator[FieldError]:
    text = new.status.get("failedIndexes")
    if text is not None and new.spec.get("backoffLimitPerIndex") is None:
        words = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        yield invalid("status.failedIndexes", text, words)


def _indexes_apart(new: _JobState, old: _JobState) -> Iterator[FieldError]:
    failed, completions = new.status.get("failedIndexes"), new.spec.get("completions")
    if failed is None or completions is None:
        return
    # Those that cannot be read are passed over here: the rules on the format say so.
    completed = _intervals(new.status.get("completedIndexes") or "", completions)
    common = _first_common(completed, _intervals(failed, completions))
    if common is not None:
        words = f"failedIndexes and completedIndexes overlap at index: {common}"
        yield invalid("status.failedIndexes", failed, words)


def _intervals(text: str, completions: int) -> list[Interval]:
    return [found for found in read_intervals(text, completions) if not isinstance(found, ValueError)]


def _first_common(completed: list[Interval], failed: list[Interval]) -> int | None:
    """Return the index that upstream finds in both; it need not find the one of intervals that do not rise."""
    here = there = 0
    while here < len(completed) and there < len(failed):
        (start, end), (failed_start, failed_end) = completed[here], failed[there]
        if start <= failed_end and failed_start <= end:
            return max(start, failed_start)
        if start <= failed_start:
            here += 1
        else:
            there += 1
    return None


def _ready_within_active(new: _JobState, old: _JobState) -> Iterator[FieldError]:
    if new.count("ready") > new.count("active"):
        yield invalid("status.ready", new.count("ready"), "cannot set more ready pods than active")


def _policy_completes_by_criteria(new: _JobState, old: _JobState) -> Iterator[FieldError]:
    if new.spec.get("successPolicy") is not None and new.holds("Complete") and not new.holds("SuccessCriteriaMet"):
        words = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        yield invalid_whole(_CONDITIONS, words)


def _terminal_stays(new: _JobState, old: _JobState) -> Iterator[FieldError]:
    for condition in ("Failed", "Complete", "FailureTarget"):
        if old.holds(condition) and not new.holds(condition):
            yield invalid_whole(_CONDITIONS, f"cannot disable the terminal {condition}=True condition")


def _failed_only_rises(new: _JobState, old: _JobState) -> Iterator[FieldError]:
    if new.count("failed") < old.count("failed"):
        yield invalid("status.failed", new.count("failed"), "cannot decrease the failed counter")


def _succeeded_only_rises(new: _JobState, old: _JobState) -> Iterator[FieldError]:
    # An elastic Job that shrinks drops successes with their indexes.
    elastic = new.indexed and new.spec.get("completions") == new.spec.get("parallelism")
    if new.count("succeeded") < old.count("succeeded") and not elastic:
        yield invalid("status.succeeded", new.count("succeeded"), "cannot decrease the succeeded counter")


def _completion_time_stays(new: _JobState, old: _JobState) -> Iterator[FieldError]:
    after, before = new.status.get("completionTime"), old.status.get("completionTime")
    if after is not None and before is not None and after != before:
        yield invalid("status.completionTime", after, IMMUTABLE)


def _start_time_stays(new: _JobState, old: _JobState) -> Iterator[FieldError]:
    resumed = old.holds("Suspended") and new.holds("Suspended", "False")
    if old.status.get("startTime") is not None and new.spec.get("suspend") is not True and not resumed:
        moment = new.status.get("startTime")
        yield invalid("status.startTime", moment, "field is immutable for unsuspended job once set")


def _criteria_stay(new: _JobState, old: _JobState) -> Iterator[FieldError]:
    if old.holds("SuccessCriteriaMet") and not new.holds("SuccessCriteriaMet"):
        yield invalid_whole(_CONDITIONS, "cannot disable the SuccessCriteriaMet=True condition")


def _complete_gains_no_criteria(new: _JobState, old: _JobState) -> Iterator[FieldError]:
    if old.holds("Complete") and not old.holds("SuccessCriteriaMet") and new.holds("SuccessCriteriaMet"):
        words = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        yield invalid_whole(_CONDITIONS, words)


# In the order in which field errors are reported.
RULES: tuple[StatusRule, ...] = (
    StatusRule(_counters),
    StatusRule(_uncounted_uids),
    StatusRule(_never_both("Complete", "Failed"), ("Complete", "Failed")),
    StatusRule(_never_both("Complete", "FailureTarget"), ("Complete", "FailureTarget")),
    StatusRule(_completion_time_needs_complete, ("Complete", "completionTime")),
    StatusRule(_complete_needs_completion_time, ("Complete", "completionTime")),
    StatusRule(_completion_after_start, ("startTime", "completionTime")),
    StatusRule(_needs("Failed", "FailureTarget"), ("Failed", "failedIndexes")),
    StatusRule(_needs("Complete", "SuccessCriteriaMet"), ("Complete", "SuccessCriteriaMet")),
    StatusRule(_finished_has_none("active"), ("finished", "active")),
    StatusRule(_finished_has_started, ("finished", "startTime")),
    StatusRule(_finished_has_counted, ("finished", "uncountedTerminatedPods")),
    StatusRule(_completed_indexes_parse, ("completedIndexes",)),
    StatusRule(_failed_indexes_parse, ("failedIndexes",)),
    StatusRule(_completed_indexes_need_mode, ("completedIndexes",)),
    StatusRule(_failed_indexes_need_limit, ("failedIndexes",)),
    StatusRule(_indexes_apart, ("completedIndexes", "failedIndexes")),
    StatusRule(_finished_has_none("terminating"), ("finished", "terminating")),
    StatusRule(_ready_within_active, ("ready", "active")),
    StatusRule(_never_both("SuccessCriteriaMet", "Failed")),
    StatusRule(_never_both("SuccessCriteriaMet", "FailureTarget")),
    StatusRule(_policy_completes_by_criteria),
    StatusRule(_terminal_stays),
    StatusRule(_failed_only_rises),
    StatusRule(_succeeded_only_rises),
    StatusRule(_completion_time_stays),
    StatusRule(_start_time_stays, ("startTime",)),
    StatusRule(_criteria_stay),
    StatusRule(_complete_gains_no_criteria),
)
_PARTS = frozenset(part for rule in RULES for part in rule.parts)
