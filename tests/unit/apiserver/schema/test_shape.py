from collections.abc import Mapping
from typing import Any

import pytest

from kcr_devcluster.apiserver.schema.scalars import SCALARS
from kcr_devcluster.apiserver.schema.shape import Field, Shape, Type, TypeMismatchError, list_of, map_of
from kcr_devcluster.go_numbers import WrittenNumber


def by_value(type_: Type) -> Field:
    return Field(type_, keeps_zero=False)


def inner() -> Mapping[str, Field]:
    return {
        "flag": by_value(SCALARS["bool"]),
        "size": Field(SCALARS["quantity"]),
        "again": Field(INNER.type),
    }


INNER = Shape("v1.Inner", inner)
THING = Shape(
    "v1.Thing",
    lambda: {
        "name": by_value(SCALARS["string"]),
        "count": by_value(SCALARS["int32"]),
        "limit": Field(SCALARS["int64"]),
        "ratio": Field(SCALARS["float64"]),
        "when": Field(SCALARS["time"], keeps_null=True),
        "inner": Field(INNER.type),
        "items": by_value(list_of(INNER.type)),
        "words": by_value(list_of(SCALARS["string"])),
        "kept": Field(list_of(SCALARS["string"])),
        "sizes": by_value(map_of(SCALARS["quantity"])),
        "named": by_value(map_of(INNER.type)),
        "lists": by_value(map_of(list_of(SCALARS["string"]))),
        "port": Field(SCALARS["int-or-string"]),
        "rest": Field(SCALARS["any"]),
    },
)


def shaped(**members: Any) -> Any:
    return THING.conform(members)


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        pytest.param({"name": None, "inner": None, "words": None}, {}, id="nulls"),
        pytest.param({"name": "", "count": 0, "words": [], "sizes": {}}, {}, id="zeros-of-values"),
        pytest.param(
            {"limit": 0, "kept": [], "inner": {}}, {"limit": 0, "kept": [], "inner": {}}, id="zeros-of-pointers"
        ),
        pytest.param({"when": None}, {"when": None}, id="null-that-is-shown"),
        pytest.param({"inner": {"flag": False, "size": "0"}}, {"inner": {"size": "0"}}, id="inside"),
        pytest.param({"items": [{"flag": True}, None]}, {"items": [{"flag": True}, {}]}, id="null-items"),
        pytest.param(
            {"sizes": {"cpu": 0.5, "memory": "1024Mi"}}, {"sizes": {"cpu": "500m", "memory": "1Gi"}}, id="amounts"
        ),
        pytest.param({"when": "2026-01-01T01:00:00.5+01:00"}, {"when": "2026-01-01T00:00:00Z"}, id="moments"),
        pytest.param(
            {"named": {"a": None, "b": {"flag": False}}, "lists": {"a": None, "b": [None]}},
            {"named": {"a": {}, "b": {}}, "lists": {"a": [], "b": [""]}},
            id="maps",
        ),
        pytest.param({"port": 80, "rest": [None]}, {"port": 80, "rest": [None]}, id="as-it-is"),
        pytest.param({"other": 0, "inner": {"x": 1}}, {"inner": {}}, id="unknown"),
    ],
)
def test_value_is_brought_into_its_form(sent: Any, kept: Any) -> None:
    assert shaped(**sent) == kept


@pytest.mark.parametrize(
    ("sent", "found", "place", "wanted"),
    [
        pytest.param({"count": "3"}, "string", "Thing.count", "int32", id="text-for-number"),
        pytest.param({"count": True}, "bool", "Thing.count", "int32", id="flag-for-number"),
        pytest.param({"count": 1.5}, "number 1.5", "Thing.count", "int32", id="fraction"),
        pytest.param({"count": 2**31}, "number 2147483648", "Thing.count", "int32", id="too-large"),
        pytest.param({"ratio": "1"}, "string", "Thing.ratio", "float64", id="text-for-fraction"),
        pytest.param({"port": 1.5}, "number 1.5", "Thing.port", "int32", id="fraction-for-port"),
        pytest.param({"port": True}, "bool", "Thing.port", "int32", id="truth-for-port"),
        pytest.param({"count": WrittenNumber("1e2")}, "number 1e2", "Thing.count", "int32", id="exponent"),
        pytest.param({"ratio": WrittenNumber("1e400")}, "number 1e400", "Thing.ratio", "float64", id="infinite"),
        pytest.param({"named": {"a": []}}, "array", "Thing.named", "v1.Inner", id="list-in-map"),
        pytest.param({"name": 1}, "number", "Thing.name", "string", id="number-for-text"),
        pytest.param({"items": {}}, "object", "Thing.items", "[]v1.Inner", id="object-for-list"),
        pytest.param({"items": [{"flag": []}]}, "array", "Inner.items.flag", "bool", id="deep"),
        pytest.param({"inner": []}, "array", "Thing.inner", "v1.Inner", id="list-for-object"),
        pytest.param({"words": [1]}, "number", "Thing.words", "string", id="item"),
        pytest.param({"when": 5}, "number", "Thing.when", "string", id="number-for-time"),
    ],
)
def test_wrong_type_is_refused_in_words_of_go(sent: Any, found: str, place: str, wanted: str) -> None:
    with pytest.raises(TypeMismatchError) as caught:
        shaped(**sent)
    assert str(caught.value) == f"json: cannot unmarshal {found} into Go struct field {place} of type {wanted}"


def test_numbers_reach_to_the_ends_of_their_type() -> None:
    members = {"count": -(2**31), "limit": 2**63 - 1}
    assert shaped(**members) == members


def test_unknown_members_are_named_with_their_places() -> None:
    sent = {"nmae": 1, "items": [{}, {"flga": 1}], "inner": {"x": {}}, "rest": {"anything": 1}}
    assert list(THING.unknown(sent)) == ["nmae", "items[1].flga", "inner.x"]


def test_names_in_maps_are_no_fields() -> None:
    sent = {"sizes": {"cpu": 1}, "named": {"flag": {"flga": 1}}, "inner": {"again": {"again": {"x": 1}}}}
    assert list(THING.unknown(sent)) == ["named.flag.flga", "inner.again.again.x"]


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"name": "a", "inner": {"again": {"flag": True}}, "rest": {"x": 1}}, id="known"),
        pytest.param({"nmae": "a"}, id="at-the-top"),
        pytest.param({"inner": {"again": {"flga": True}}}, id="in-objects"),
        pytest.param({"items": [{}, {"flga": True}]}, id="in-a-list"),
        pytest.param({"named": {"x": {}, "y": {"flga": True}}}, id="in-a-map"),
        pytest.param({"inner": "x", "items": {"flga": True}, "named": [{"flga": True}]}, id="wrong-types"),
    ],
)
def test_shape_knows_objects_without_unknown_members(sent: dict[str, Any]) -> None:
    assert THING.knows(sent) == (not list(THING.unknown(sent)))


def test_absent_fields_get_their_defaults_at_every_depth() -> None:
    port = Shape("v1.Port", lambda: {"protocol": Field(SCALARS["string"], keeps_zero=False, default="TCP")})
    thing = Shape(
        "v1.Thing",
        lambda: {
            "port": Field(port.type, default={}),
            "ports": Field(list_of(port.type)),
            "seen": Field(SCALARS["time"], keeps_null=True, default=None),
        },
    )
    tcp = {"protocol": "TCP"}
    assert thing.conform({}) == {"port": tcp, "seen": None}
    one, other = thing.conform({}), thing.conform({})
    assert one["port"] is not other["port"]
    # Zero values that count as absent, and null items, get them as well.
    given = {"ports": [{"protocol": ""}, None, {"protocol": "UDP"}], "port": None}
    assert thing.conform(given)["ports"] == [tcp, tcp, {"protocol": "UDP"}]


def test_required_fields_that_are_absent_or_empty_are_missing() -> None:
    inner = Shape("v1.Inner", lambda: {"name": Field(SCALARS["string"], required=True)})
    thing = Shape(
        "v1.Thing",
        lambda: {
            "spec": Field(inner.type, required=True),
            "items": Field(list_of(inner.type)),
            "named": Field(map_of(inner.type)),
        },
    )
    assert [path for path, _ in thing.missing({})] == ["spec"]
    given = {"spec": {"name": "a"}, "items": [{"name": ""}, {"name": "b"}], "named": {"x": {}}}
    assert [path for path, _ in thing.missing(given)] == ["items[0].name", "named.x.name"]
