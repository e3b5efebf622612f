import pytest

from kcr.api.structural import attributes, summary


class Told:
    """What it is, in
    two lines.

    More of it: not taken.

    Attributes:
        first: Of one line.
        second (int): Of
            two lines.

            And a paragraph.
        third: The last.

    Source: nowhere: at all.
    """


class Derived(Told):
    """Attributes:
    third: Another.
    """


class Silent(Told):
    pass


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        pytest.param(Told, "What it is, in two lines.", id="first-paragraph"),
        pytest.param(Derived, "", id="attributes-only"),
        pytest.param(Silent, "", id="none"),
    ],
)
def test_summary_is_the_first_paragraph_of_the_class_itself(kind: type, text: str) -> None:
    assert summary(kind) == text


def test_attributes_are_told_by_the_class_or_its_bases() -> None:
    told = {"first": "Of one line.", "second": "Of two lines.", "third": "The last."}
    assert attributes(Told) == told
    assert attributes(Silent) == told
