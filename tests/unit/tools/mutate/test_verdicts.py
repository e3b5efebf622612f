"""The table of verdicts, and the share that counts."""

from pathlib import Path

from tools.mutate import verdicts
from tools.mutate.__main__ import sample, text_of
from tools.mutate.mutations import Mutant, mutants
from tools.mutate.verdicts import Report, Verdict

ROOT = Path(__file__).parents[4]
PATH = "kcr/workqueue/queue.py"


def found(path: str) -> list[Mutant]:
    return mutants(path, (ROOT / path).read_bytes())


def test_each_verdict_is_about_code_that_is_there() -> None:
    # One whose code has changed has to be judged again.
    judged = verdicts.read()
    paths = {identity.partition(" ")[0] for identity in judged}
    present = {one.identity for path in paths if (ROOT / path).is_file() for one in found(path)}
    assert judged.keys() - present == set()


def test_each_verdict_is_a_known_one_and_has_a_reason() -> None:
    for one in verdicts.read().values():
        assert one.verdict in verdicts.VERDICTS
        assert len(one.reason) > 20


def test_verdicts_do_not_change_the_share() -> None:
    first, second = found(PATH)[:2]
    judged = {first.identity: Verdict(first.identity, "equivalent", "it is the same")}
    report = Report(8, [first, second], judged)
    assert report.share == 0.8
    assert report.open == [second]


def test_report_shows_open_survivors_first_with_their_change() -> None:
    first, second = found(PATH)[:2]
    judged = {first.identity: Verdict(first.identity, "harmless", "nothing reads it")}
    text = text_of(Report(8, [first, second], judged))
    assert text.index(second.identity) < text.index(first.identity)
    assert f"{PATH}:" in text
    assert "harmless: nothing reads it" in text
    assert "\n-" in text
    assert "8 of 10 mutants are killed: 80.0%; 92% are asked" in text
    assert "2 survive, of which 1 have no verdict" in text


def test_sample_is_drawn_again_and_has_all_kinds() -> None:
    paths = sorted((ROOT / "kcr/workqueue").glob("*.py"))
    drawn = sample(16, "7", paths)
    assert drawn == sample(16, "7", paths) != sample(16, "8", paths)
    assert len({one.kind for one in drawn}) == 8
    assert len({one.identity for one in drawn}) == 16
    assert {one.identity for one in drawn} <= {one.identity for one in sample(24, "7", paths)}
