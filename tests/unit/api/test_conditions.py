from datetime import UTC, datetime
from typing import Literal

import msgspec
import pytest
from msgspec.structs import replace

import kcr
from kcr.api import codec
from kcr.api.conditions import ensure, find_condition, is_condition_true, made

READY = kcr.Condition(type="Ready", status="False", reason="NoPods", observed_generation=1)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = datetime(2026, 1, 2, tzinfo=UTC)


def test_same_words_are_no_change_and_keep_their_time() -> None:
    conditions = (made("A", "True", "R", "m", NOW),)
    assert ensure(conditions, made("A", "True", "R", "m", LATER)) is conditions


def test_other_words_replace_the_condition_in_its_place() -> None:
    conditions = (made("A", "True", "R", "m", NOW), made("B", "True", "R", "m", NOW))
    changed = ensure(conditions, made("A", "False", "S", "n", LATER))
    assert [(condition.type, condition.status) for condition in changed] == [("A", "False"), ("B", "True")]
    assert changed[0].last_transition_time == LATER


def test_condition_that_does_not_hold_is_not_added() -> None:
    assert ensure((), made("A", "False", "R", "m", NOW)) == ()
    assert is_condition_true(ensure((), made("A", "True", "R", "m", NOW)), "A")
    assert find_condition((), "A") is None


def test_condition_that_does_not_hold_is_recorded_where_none_was() -> None:
    (added,) = kcr.set_condition((), READY, NOW.replace(microsecond=5))
    assert added == replace(READY, last_transition_time=NOW)


def test_set_condition_that_says_the_same_is_no_change() -> None:
    conditions = kcr.set_condition((), READY, NOW)
    assert kcr.set_condition(conditions, READY, LATER) is conditions


@pytest.mark.parametrize(
    ("changes", "moment"),
    [
        pytest.param({"status": "True", "reason": "Up"}, LATER, id="status"),
        pytest.param({"reason": "Other"}, NOW, id="reason"),
        pytest.param({"message": "no pod runs"}, NOW, id="message"),
        pytest.param({"observed_generation": 2}, NOW, id="generation"),
    ],
)
def test_transition_time_changes_with_the_status_only(changes: dict[str, object], moment: datetime) -> None:
    other = made("Synced", "True", "R", "m", NOW)
    conditions = (*kcr.set_condition((), READY, NOW), other)
    wanted = replace(READY, **changes)
    assert kcr.set_condition(conditions, wanted, LATER) == (replace(wanted, last_transition_time=moment), other)


def test_transition_time_of_the_caller_counts_where_the_status_changes() -> None:
    before = NOW.replace(year=2025)
    (added,) = kcr.set_condition((), replace(READY, last_transition_time=before), NOW)
    assert added.last_transition_time == before


def test_condition_counts_as_true_only_with_that_status() -> None:
    conditions = tuple(
        made(kind, status, "R", "", NOW) for kind, status in (("A", "True"), ("B", "False"), ("C", "Unknown"))
    )
    assert [kcr.is_condition_true(conditions, kind) for kind in "ABCD"] == [True, False, False, False]


def test_removed_condition_leaves_the_others_in_their_order() -> None:
    a, b, c = (made(kind, "True", "R", "", NOW) for kind in "ABC")
    assert kcr.remove_condition((a, b, c), "B") == (a, c)
    assert kcr.find_condition(kcr.remove_condition((a, b, c), "B"), "B") is None


def test_removal_of_an_absent_condition_is_no_change() -> None:
    conditions = (made("A", "True", "R", "", NOW),)
    assert kcr.remove_condition(conditions, "B") is conditions


def test_condition_is_written_as_metav1_requires_it() -> None:
    written = msgspec.json.decode(codec.encode(kcr.set_condition((), READY, NOW)[0]))
    assert written == {
        "type": "Ready", "status": "False", "reason": "NoPods", "message": "", "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip


class ForeignCondition(kcr.Object):
    """As `kcr types generate` writes one without `observedGeneration`."""

    last_transition_time: datetime
    status: Literal["True", "False"]
    type: str
    reason: str | None = None
    message: str | None = None


def test_condition_of_a_generated_class_is_set() -> None:
    ready = ForeignCondition(type="Ready", status="False", reason="NoPods", last_transition_time=NOW)
    conditions = kcr.set_condition((), ready, LATER)
    assert conditions == (ready,)
    said = replace(ready, reason="Waits", last_transition_time=LATER)
    assert kcr.set_condition(conditions, said, LATER) == (replace(said, last_transition_time=NOW),)
    assert kcr.set_condition(conditions, replace(said, status="True"), NOW) == (replace(said, status="True"),)
    assert kcr.set_condition(conditions, ready, LATER) is conditions
