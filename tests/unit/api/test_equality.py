"""Values that Python calls equal and JSON does not."""

from datetime import UTC, datetime, timedelta, timezone
from enum import IntEnum, StrEnum
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcr.api import codec
from kcr.api.equality import difference, exact_fields, same_json
from kcr.api.meta import Object
from kcr_devcluster.apiserver.patch import merge_patch

SCALARS = (
    st.none() | st.booleans() | st.integers(-1, 1) | st.sampled_from([-1.0, 0.0, 1.0, 1.5]) | st.text("ab", max_size=1)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=1), inner, max_size=3)
)
MAPS = st.dictionaries(st.text("ab", max_size=1), VALUES, max_size=3)

encode = msgspec.json.Encoder(order="deterministic").encode


class Level(IntEnum):
    LOW = 1


class Color(StrEnum):
    RED = "red"


class Inner(Object):
    open: Any = None


class Outer(Object):
    ratio: float = 0.0
    ratios: tuple[float, ...] = ()
    count: int | None = None
    number: int | float | None = None
    is_on: bool = False
    when: datetime | None = None
    level: Annotated[Literal[1, 2], msgspec.Meta(description="how much")] = 1
    inner: Inner = Inner()
    again: "tuple[Outer, ...]" = ()
    labels: dict[str, str] = {}
    config: dict[str, Any] = {}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(1, True, id="number-and-boolean"),
        pytest.param(0, False, id="zero-and-false"),
        pytest.param(1, 1.0, id="integer-and-float"),
        pytest.param([0], [False], id="in-a-list"),
        pytest.param([{"a": ({"b": [1]},)}], [{"a": ({"b": [True]},)}], id="deep"),
        pytest.param({1: "a"}, {1.0: "a"}, id="key"),
        pytest.param({1: "a"}, {True: "a"}, id="key-that-json-cannot-have"),
        pytest.param(Inner(open={"a": 1}), Inner(open={"a": True}), id="in-any"),
        pytest.param(Outer(inner=Inner(open=0)), Outer(inner=Inner(open=False)), id="in-any-of-an-inner-struct"),
        pytest.param(Outer(count=1), Outer(count=True), id="boolean-where-a-number-is-declared"),
        pytest.param(Outer(number=1), Outer(number=1.0), id="union-of-numbers"),
        pytest.param(Outer(again=(Outer(config={"x": 1}),)), Outer(again=(Outer(config={"x": 1.0}),)), id="in-items"),
    ],
)
def test_equal_values_of_other_types_are_not_the_same(one: Any, other: Any) -> None:
    assert one == other
    assert not same_json(one, other)
    assert not same_json(other, one)
    assert same_json(one, one)
    assert difference({"x": one}, {"x": other}) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param({"a": [1, {"b": 2.5}], "c": True}, {"c": True, "a": [1, {"b": 2.5}]}, id="order-of-names"),
        pytest.param(Outer(ratio=1), Outer(ratio=1.0), id="declared-float"),
        pytest.param(Outer(ratios=(1, 2)), Outer(ratios=(1.0, 2.0)), id="declared-floats"),
        pytest.param(Level.LOW, 1, id="enumeration-of-numbers"),
        pytest.param({"a": Color.RED}, {"a": "red"}, id="enumeration-of-texts"),
        pytest.param(
            Outer(when=datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))),
            Outer(when=datetime(2026, 1, 1, tzinfo=UTC)),
            id="moment",
        ),
    ],
)
def test_values_that_are_read_back_as_one_are_the_same(one: Any, other: Any) -> None:
    assert same_json(one, other)
    assert difference({"x": one}, {"x": other}) is None


@given(VALUES, VALUES)
def test_two_plain_values_are_the_same_when_their_json_is(one: Any, other: Any) -> None:
    assert same_json(one, other) == (encode(one) == encode(other))


def settable(value: Any) -> Any:
    """Return a value as a merge patch can set it: without members that are null, in items of lists as well."""
    if isinstance(value, list):
        return [settable(one) for one in value]
    return {name: settable(one) for name, one in value.items() if one is not None} if isinstance(value, dict) else value


@given(MAPS, MAPS)
def test_difference_leads_from_any_json_to_any_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    patch = difference(old, new)
    wanted = settable(new)
    assert encode(settable(merge_patch(old, patch or {}))) == encode(wanted)
    # Once it is written nothing is left to write.
    assert difference(merge_patch(old, patch or {}), new) is None
    assert (patch is None) == (encode(settable(old)) == encode(wanted) and lacks_no_null_of(old, new))


def lacks_no_null_of(old: Any, new: Any) -> bool:
    """Return whether each null in an old value is in the new one: one that is not has to be removed."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return True
    return all(name in new and lacks_no_null_of(value, new[name]) for name, value in old.items())


def test_sequences_of_another_python_type_are_no_difference() -> None:
    decoded: dict[str, Any] = {"hosts": ["a", {"ports": [1]}]}
    assert difference(decoded, {"hosts": ("a", {"ports": (1,)})}) is None
    assert difference(decoded, {"hosts": ("a", {"ports": (True,)})}) == {"hosts": ("a", {"ports": (True,)})}


def test_keys_are_compared_as_json_has_them() -> None:
    assert difference({"1": "a"}, {1: "a"}) is None
    assert codec.encode(difference({1: "a"}, {1.0: "a"})) == b'{"1":null,"1.0":"a"}'


def test_deep_values_are_compared_without_recursion() -> None:
    one: Any = 1
    for _ in range(600):
        one = {"a": one}
    other = msgspec.json.decode(msgspec.json.encode(one))
    assert same_json(one, other)


def test_types_that_leave_nothing_open_are_exact() -> None:
    assert exact_fields(Outer) == {"ratio", "ratios", "count", "is_on", "when", "level", "labels"}
