from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
import pytest

import kcr
from kcr.serving.webhooks.conversion import decode_partial


class Port(kcr.Object):
    name: str
    number: int
    protocol: Literal["TCP", "UDP"]
    host_port: int | None


class Spec(kcr.Object):
    title: Annotated[str, msgspec.Meta(min_length=1)]
    ratio: float
    since: datetime
    ports: tuple[Port, ...]
    by_name: Mapping[str, Port]
    first: Port | None
    last: Port
    anything: Any
    kept: bool = True


class Site(kcr.Resource, api_version="example.dev/v1", plural="sites"):
    spec: Spec


NO_PORT = Port(name="", number=0, protocol="", host_port=None)  # type: ignore[arg-type]  # as in Go


def test_missing_fields_have_their_zero_values() -> None:
    site = decode_partial(Site, b'{"apiVersion":"example.dev/v1","kind":"Site","metadata":{"name":"a"}}')
    assert site.metadata.name == "a"
    assert site.spec == Spec(
        title="", ratio=0.0, since=datetime(1, 1, 1, tzinfo=UTC), ports=(), by_name={}, first=None, last=NO_PORT,
        anything=None,
    )  # fmt: skip


def test_fields_that_are_there_are_decoded_at_any_depth() -> None:
    port, spec = b'{"name":"a","hostPort":80}', Port(name="a", number=0, protocol="", host_port=80)  # type: ignore[arg-type]  # as in Go
    data = b'{"spec":{"title":"t","kept":false,"ports":[%b],"byName":{"x":%b},"first":%b}}' % (port, port, port)
    found = decode_partial(Site, data).spec
    assert (found.title, found.kept, found.ports, found.by_name, found.first) == (
        "t",
        False,
        (spec,),
        {"x": spec},
        spec,
    )


@pytest.mark.parametrize("data", [b'{"spec":{"title":1}}', b'{"spec":{"title":""}}', b'{"spec":[]}', b"{"])
def test_what_does_not_fit_is_refused(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_partial(Site, data)


class Custom:
    pass


class Odd(kcr.Object):
    custom: Custom


class Checked(kcr.Object):
    title: str

    def __post_init__(self) -> None:
        if not self.title:
            raise RuntimeError("no title")


@pytest.mark.parametrize(("kind", "message"), [(Odd, "required field `custom`"), (Checked, "RuntimeError: no title")])
def test_field_without_a_zero_value_is_missed(kind: type[kcr.Object], message: str) -> None:
    with pytest.raises(msgspec.DecodeError, match=message):
        decode_partial(kind, b"{}")
