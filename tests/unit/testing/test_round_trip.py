"""Objects drawn from a schema, and conversions that lose some of them."""

import enum
from collections.abc import Mapping
from datetime import date, datetime
from random import Random
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
import pytest

import kcr
from kcr.api import codec
from kcr.api.structural import object_schema
from kcr.testing import check_round_trip
from kcr_devcluster.testing import round_trip


class Port(kcr.Object):
    name: str
    number: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 80


class Mode(enum.Enum):
    DRAFT = "Draft"
    PUBLIC = "Public"


class Everything(kcr.Object):
    text: Annotated[str, msgspec.Meta(min_length=2, max_length=5)]
    host: Annotated[str, msgspec.Meta(pattern=r"^[a-z]+\.dev$")] | None = None
    even: Annotated[int, msgspec.Meta(multiple_of=2, gt=3, lt=9)]
    share: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    nullable: str | None
    mode: Mode
    level: Literal[1, 2]
    moment: datetime
    day: date
    uid: UUID
    data: Annotated[bytes, msgspec.Meta(min_length=3)]
    port: kcr.IntOrString
    size: kcr.Quantity = "1Gi"
    flag: bool = True
    ports: Annotated[tuple[Port, ...], kcr.ListType("map", keys=("name",)), msgspec.Meta(min_length=1)]
    hosts: Annotated[tuple[str, ...], kcr.ListType("set")] = ()
    labels: Mapping[str, Port] = {}
    raw: msgspec.Raw
    conditions: tuple[kcr.Condition, ...] = ()


def test_every_drawn_value_fits_its_class() -> None:
    schema, values = object_schema(Everything), {"host": ("a.dev",)}
    drawn = [round_trip._Draw(Random(seed), values).object(schema, "") for seed in range(300)]
    for one in drawn:
        codec.decode(Everything, msgspec.json.encode(one))
    assert {one.get("host") for one in drawn} == {None, "a.dev"}
    assert {one["even"] for one in drawn} == {4, 6, 8}
    assert {one["mode"] for one in drawn} == {"Draft", "Public"}
    assert {type(one["port"]) for one in drawn} == {int, str}
    assert {len(one["ports"]) for one in drawn} >= {1, 2}
    assert all(len({port["name"] for port in one["ports"]}) == len(one["ports"]) for one in drawn)
    assert any(one["nullable"] is None for one in drawn)
    assert any(one.get("labels") for one in drawn)


def test_pattern_without_a_match_asks_for_values() -> None:
    draw = round_trip._Draw(Random(0), {})
    with pytest.raises(TypeError, match=r'found no text for the pattern \^x\{9\}\$: name some with values=\{"a.b": '):
        draw.string({"type": "string", "pattern": "^x{9}$"}, "a.b")


class ShopSpec(kcr.Object):
    host: str
    tags: tuple[str, ...] = ()


class ShopV1Beta1(kcr.Resource, kind="Shop", api_version="example.dev/v1beta1", plural="shops"):
    spec: ShopSpec


class ManyHosts(kcr.Object):
    hosts: tuple[str, ...]
    tags: Annotated[tuple[str, ...], msgspec.Meta(max_length=2)] = ()


class Shop(kcr.Resource, api_version="example.dev/v1", plural="shops", storage=True):
    spec: ManyHosts


@kcr.converts(ShopV1Beta1, Shop)
def to_v1(old: ShopV1Beta1) -> Shop:
    return Shop(metadata=old.metadata, spec=ManyHosts(hosts=(old.spec.host,), tags=old.spec.tags))


@kcr.converts(Shop, ShopV1Beta1)
def to_v1beta1(new: Shop) -> ShopV1Beta1:
    return ShopV1Beta1(metadata=new.metadata, spec=ShopSpec(host=new.spec.hosts[0], tags=new.spec.tags))


def fits(site: ShopV1Beta1) -> bool:
    return len(site.spec.tags) <= 2


@pytest.fixture(params=["hypothesis", "seeds"])
def generator(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of drawing: with hypothesis, and where it is not installed."""
    if request.param == "seeds":
        monkeypatch.setattr(round_trip, "find_spec", lambda _: None)
    return str(request.param)


@pytest.mark.usefixtures("generator")
def test_conversion_without_loss_passes() -> None:
    check_round_trip(ShopV1Beta1, Shop, valid=fits)


@pytest.mark.usefixtures("generator")
def test_result_that_does_not_fit_the_other_version_is_found() -> None:
    with pytest.raises(AssertionError, match=r"Expected `array` of length <= 2 - at `\$.spec.tags`"):
        check_round_trip(ShopV1Beta1, Shop)


def test_loss_is_told_with_a_small_object(generator: str) -> None:
    with pytest.raises(AssertionError) as error:
        check_round_trip(Shop, ShopV1Beta1, valid=lambda site: len(site.spec.hosts) > 0)
    first, second = str(error.value).splitlines()[:2]
    assert first.startswith('Shop → ShopV1Beta1 → Shop: changed by the round trip: {"spec":{"hosts":[')
    obj: dict[str, Any] = msgspec.json.decode(second.removeprefix("object: "))
    assert len(obj["spec"]["hosts"]) > 1
    if generator == "hypothesis":
        assert obj["spec"] == {"hosts": ["", ""]}, "shrunk"


def test_function_that_fails_is_told_with_the_object() -> None:
    with pytest.raises(
        AssertionError, match=r"v1 Shop default/a, to_v1beta1: IndexError: tuple index out of range\nobj"
    ):
        check_round_trip(Shop, ShopV1Beta1, values={"spec.hosts": ([],)})


def test_kind_without_conversions_is_an_error() -> None:
    class Gadget(kcr.Resource, api_version="example.dev/v1", plural="gadgets"):
        pass

    with pytest.raises(TypeError, match=r"Gadget: no function is registered with @kcr\.converts"):
        check_round_trip(Gadget, Gadget)
