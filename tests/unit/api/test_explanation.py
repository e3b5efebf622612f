"""Explanations of one object as one: the most telling has the headline."""

from kcr.api.explanation import Code, Explanation, Step, merged

SILENT = Explanation(
    headline="is there since 5m", code=Code.FINE, present="a", reasons=("old",), remedies=("wait",), next=(Step("x"),)
)
DELETED = Explanation(headline="is being deleted", code=Code.DELETING, reasons=("held",), remedies=("let go",))
FAILS = Explanation(headline="controller site fails", code=Code.FAILING, reasons=("dns",), remedies=("mend",))


def test_higher_rank_has_the_headline_and_the_other_is_a_reason() -> None:
    found = merged(DELETED, FAILS)
    assert (found.headline, found.code) == ("controller site fails", Code.FAILING)
    assert found.reasons == ("dns", "it is being deleted", "held")
    assert found.remedies == ("mend", "let go")


def test_lower_rank_is_a_reason() -> None:
    found = merged(FAILS, DELETED)
    assert (found.headline, found.code) == ("controller site fails", Code.FAILING)
    assert found.reasons == ("dns", "is being deleted", "held")
    assert found.remedies == ("mend", "let go")


def test_silence_adds_nothing_to_a_trouble() -> None:
    found = merged(SILENT, FAILS)
    assert (found.headline, found.present) == ("controller site fails", "a")
    assert (found.reasons, found.remedies, found.next) == (("dns", "old"), ("mend",), ())


def test_equal_rank_keeps_the_first_headline() -> None:
    other = Explanation(headline="controller dns fails", code=Code.FAILING)
    assert merged(FAILS, other).headline == "controller site fails"


def test_codes_rank_in_their_order() -> None:
    ranks = [code.rank for code in Code]
    assert ranks == sorted(set(ranks))
    assert Code.BLOCKED.rank > Code.FAILING.rank > Code.STATED.rank > Code.FINE.rank
