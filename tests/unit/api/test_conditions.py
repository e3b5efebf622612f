from datetime import UTC, datetime

from kcr.api.conditions import ensure, find, is_true, made

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
    assert is_true(ensure((), made("A", "True", "R", "m", NOW)), "A")
    assert find((), "A") is None
