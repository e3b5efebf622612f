"""Fields of a struct as the keywords of a function."""

import inspect
from typing import Annotated

import msgspec
import pytest

from kcr.keywords import Keywords


class Paint(msgspec.Struct, frozen=True, kw_only=True):
    color: Annotated[str, "The color."] = "white"
    coats: int = 1


@Keywords(Paint)
def paint(wall: str, options: Paint) -> str:
    """Paint a wall."""
    return f"{wall}: {options.coats} of {options.color}"


class Painter:
    @Keywords(Paint)
    def __init__(self, options: Paint) -> None:
        self.paint = options


def test_keywords_arrive_as_one_value() -> None:
    assert paint("north", coats=2) == "north: 2 of white"
    assert Painter(color="red").paint == Paint(color="red")


def test_signature_has_the_fields_with_their_defaults() -> None:
    shown = "(wall: str, *, color: str = 'white', coats: int = 1) -> str"
    assert str(inspect.signature(paint)) == shown
    assert (paint.__doc__, paint.__name__) == ("Paint a wall.", "paint")
    assert list(inspect.signature(Painter).parameters) == ["color", "coats"]


def test_keyword_that_no_field_has_is_refused() -> None:
    with pytest.raises(TypeError, match="colour"):
        paint("north", colour="red")  # type: ignore[call-arg]  # as a type checker says
