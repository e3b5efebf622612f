"""What fits an annotation, and what the fault of a value says."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple, Protocol, TypeVar

import pytest
from msgspec import Meta

import kcr
from kcr.annotations import check_of, is_misfit
from kcr.api.core import ConfigMap
from kcr.arguments import checked

T = TypeVar("T")


class Painter(Protocol):
    async def paint(self, wall: str) -> None: ...


class Good:
    async def paint(self, wall: str) -> None: ...


class Plain:
    def paint(self, wall: str) -> None: ...


class Delegating:
    def __init__(self, inner: Good) -> None:
        self.paint = inner.paint


class Yielding:
    async def paint(self, wall: str) -> Any:
        yield wall


class Color(NamedTuple):
    name: str


def texts(obj: object) -> str:
    return str(obj)


async def asynchronous(obj: object) -> list[str]:
    return []


FITS = (
    (int, 3), (float, 3), (float, 0.5), (bool, True), (str, ""), (timedelta, timedelta(1)),
    (datetime, datetime(2026, 1, 1, tzinfo=UTC)), (int | None, None), (Any, object()), (T, object()),
    (Literal["a", "b"], "a"), (type[kcr.Resource], ConfigMap), (type[Exception], OSError), (kcr.Resource, ConfigMap()),
    (Sequence[str], ["a"]), (Sequence[str], ()), (tuple[str, ...], ["a"]), (frozenset[str], frozenset({"a"})),
    (Iterable[str], (one for one in "ab")), (Mapping[str, int], {"a": 1}), (Callable[[str], list[str]], str.split),
    (Callable[[Any], Iterable[str]], lambda obj: [obj]), (Callable[[Any], Iterable[str]], list),
    (Callable[[Any], bool], partial(isinstance, 3)), (Callable[..., object], texts), (Painter, Good()),
    (Painter, Delegating(Good())), (Annotated[int, Meta(ge=1)], 1), (Annotated[int, Meta(ge=1)] | None, None),
)  # fmt: skip


@pytest.mark.parametrize(("hint", "value"), FITS)
def test_value_that_fits_its_annotation_has_no_fault(hint: Any, value: object) -> None:
    assert check_of(hint).fault(value) is None


@pytest.mark.parametrize(
    ("hint", "value", "message"),
    [
        (int, True, "wall is True: give it a whole number"),
        (float, float("nan"), "wall is nan: give it a number"),
        (float, timedelta(minutes=1), "wall is datetime.timedelta(seconds=60): give it a number of seconds, 60"),
        (timedelta | float | None, "5s", "wall is '5s': give it a timedelta, a number of seconds or None"),
        (datetime, datetime(2026, 1, 1), "give it a datetime with a time zone"),
        (Literal["a", "b", "c"], "d", "wall is 'd': give it one of 'a', 'b' or 'c'"),
        (Literal[1, 2], True, "wall is True: give it 1 or 2"),
        (type[kcr.Resource], kcr.Resource, "wall is the class Resource: it is not a kind: give the class api_version="),
        (type[kcr.Resource], ConfigMap(), "give it its class, ConfigMap"),
        (kcr.Resource, ConfigMap, "wall is the class ConfigMap: give it an object, ConfigMap(…)"),
        (Sequence[str], "job", "wall is 'job': put it into a list, […]"),
        (Sequence[Color], Color("red"), "wall is Color(name='red'): put it into a list, […]"),
        (Sequence[str], {"a": 1}, "wall is {'a': 1}: give it a list of strings"),
        (Sequence[str], ["a", 1], "wall[1] is 1: give it a string"),
        (Mapping[str, int], {"a": "b"}, "wall['a'] is 'b': give it a whole number"),
        (Mapping[str, int], [1], "wall is [1]: give it a mapping"),
        (
            Callable[[Any], Iterable[str]],
            texts,
            "wall is the function texts: it returns a string: let it return a list",
        ),
        (Callable[[Any], Iterable[str]], asynchronous, "write `def` instead of `async def`: it is not awaited"),
        (Callable[[Any], Iterable[str]], object().__repr__, "give it a function of one argument"),
        (Callable[[Any], Iterable[str]], ConfigMap, "wall is the class ConfigMap: give it a function of one argument"),
        (Painter, Good, "wall is the class Good: give it an object, Good(…)"),
        (Painter, Plain(), "wall is a Plain: define its paint as `async def paint(self, wall)`"),
        (Painter, Yielding(), "wall is a Yielding: define its paint as `async def paint(self, wall)`, without yield"),
        (Painter, texts, "wall is the function texts: give it an object with a method `async def paint(self, wall)`"),
        (Annotated[int, Meta(ge=1, le=3)] | None, 0, "wall is 0: give it a whole number from 1 to 3 or None"),
    ],
)
def test_fault_names_value_and_what_it_takes_instead(hint: Any, value: object, message: str) -> None:
    def paint(wall: object) -> None: ...

    paint.__annotations__["wall"] = hint
    with pytest.raises((TypeError, ValueError)) as raised:
        checked(paint)(value)
    assert message in str(raised.value)


class _Methods:
    def none(self) -> None: ...
    def one(self, a: int) -> None: ...
    def some(self, a: int, b: int = 0) -> None: ...
    def many(self, a: int, *rest: int) -> None: ...
    def named(self, a: int, *, b: int) -> None: ...
    def defaulted(self, a: int, *, b: int = 0) -> None: ...
    def positional(self, a: int, /, b: int = 0, **rest: int) -> None: ...
    @classmethod
    def of_class(cls, a: int) -> None: ...
    @staticmethod
    def free(a: int) -> None: ...


@pytest.mark.parametrize("name", [name for name in vars(_Methods) if not name.startswith("_")])
@pytest.mark.parametrize("count", range(4))
def test_misfit_is_what_cannot_be_bound(name: str, count: int) -> None:
    for function in (getattr(_Methods, name), getattr(_Methods(), name)):
        try:
            inspect.signature(function).bind(*range(count))
        except TypeError:
            assert is_misfit(function, count)
        else:
            assert not is_misfit(function, count)
