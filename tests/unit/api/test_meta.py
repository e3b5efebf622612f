import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcr.api import codec
from kcr.api.batch import Job
from kcr.api.core import Event, Pod
from kcr.api.meta import Key, MicroTime, Object, ObjectMeta, Resource, controller_of, copy_raw, whole_seconds


class Spec(Object):
    image: str
    replicas: int = 1
    paused: bool = False
    note: str = ""
    ready: int | None = None


class Status(Object):
    seen: int = 0


class Website(Resource, api_version="example.dev/v1", plural="websites"):
    spec: Spec
    status: Status = Status()


class Realm(Resource, api_version="v1", plural="realms", kind="Kingdom", namespaced=False):
    pass


def every_type(base: type[Object] = Object) -> list[type[Object]]:
    return [base, *(below for child in base.__subclasses__() for below in every_type(child))]


@pytest.mark.parametrize("made", every_type(), ids=lambda made: made.__name__)
def test_every_type_is_frozen_and_invisible_to_the_collector(made: type[Object]) -> None:
    # ST-3: no subclass may lose what the base sets.
    config = made.__struct_config__
    assert (config.frozen, config.gc, config.omit_defaults) == (True, False, True)


def test_default_is_written_unless_it_is_none_or_empty() -> None:
    # The default here need not be the server's.
    assert codec.encode(Spec(image="a")) == b'{"image":"a","replicas":1,"paused":false}'
    assert codec.encode(Spec(image="a", ready=0)) == b'{"image":"a","replicas":1,"paused":false,"ready":0}'


def test_default_of_a_renamed_field_is_written_as_well() -> None:
    class Address(Object):
        cluster_ip: str = msgspec.field(default="None", name="clusterIP")
        external_ip: str = msgspec.field(default="", name="externalIP")

    assert codec.encode(Address()) == b'{"clusterIP":"None"}'


def test_copy_raw_frees_fields_at_any_depth() -> None:
    class Inner(Object):
        raw: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
        items: tuple[msgspec.Raw, ...] = ()
        by_name: Mapping[str, msgspec.Raw] = {}

    class Outer(Object):
        inner: tuple[Inner, ...] = ()

    body = b'{"inner":[{"raw":{"a":1},"items":[2],"byName":{"b":3}},{}],"padding":"' + b"x" * 1000 + b'"}'
    before = sys.getrefcount(body)
    decoded = codec.decode(Outer, body)
    (first, second) = copy_raw(decoded).inner
    assert codec.encode(first) == b'{"raw":{"a":1},"items":[2],"byName":{"b":3}}'
    assert second is decoded.inner[1]
    del decoded
    # The collector does not see what a Raw refers to.
    assert sys.getrefcount(body) == before


def test_class_keywords_say_where_a_kind_lives() -> None:
    assert Website.resource.path("n", "x", "status") == "/apis/example.dev/v1/namespaces/n/websites/x/status"
    assert Realm.resource.path("ignored", "x") == "/api/v1/realms/x"
    assert (Realm.resource.kind, Website.resource.display) == ("Kingdom", "websites.example.dev")


def test_half_named_resource_is_refused_at_its_class() -> None:
    with pytest.raises(TypeError, match="Half: a resource names both api_version and plural"):

        class Half(Resource, api_version="v1"):
            pass


def test_frozen_value_refuses_a_change() -> None:
    website = Website(spec=Spec(image="a"))
    remedy = r"Spec is frozen: make a changed copy, msgspec\.structs\.replace\(…, replicas=…\)"
    with pytest.raises(AttributeError, match=remedy):
        website.spec.replicas = 2  # type: ignore[misc]  # what this is about
    with pytest.raises(AttributeError, match=remedy):
        del website.spec.replicas
    assert website.spec == Spec(image="a")


def test_null_where_the_server_may_send_it_is_no_error() -> None:
    # ST-5.
    pod = codec.decode(Pod, b'{"metadata":{"name":"a","creationTimestamp":null},"status":{"conditions":[]}}')
    assert pod.metadata.creation_timestamp is None


def test_micro_time_has_exactly_six_digits() -> None:
    event = Event(event_time=MicroTime.of(datetime(2026, 1, 1, microsecond=500, tzinfo=UTC)))
    assert b'"eventTime":"2026-01-01T00:00:00.000500Z"' in codec.encode(event)
    assert codec.decode(Event, codec.encode(event)).event_time == event.event_time


@pytest.mark.law
@given(moment=st.datetimes(timezones=st.just(UTC)), is_whole=st.booleans())
def test_micro_time_is_no_whole_second(moment: datetime, is_whole: bool) -> None:
    moment = moment.replace(microsecond=0) if is_whole else moment
    made = MicroTime.of(moment)
    assert not made.wire().endswith(".000000Z")
    assert made == (moment if moment.microsecond else moment + timedelta(microseconds=1))


def test_whole_second_of_another_client_is_kept() -> None:
    body = b'{"eventTime":"2026-01-01T00:00:00.000000Z","involvedObject":{}}'
    assert b"00:00:00.000000Z" in codec.encode(codec.decode(Event, body))


def test_times_are_cut_to_whole_seconds() -> None:
    assert whole_seconds(datetime(2026, 1, 1, 0, 0, 0, 999_999, tzinfo=UTC)) == datetime(2026, 1, 1, tzinfo=UTC)


def test_template_does_not_pin_the_page_it_came_in() -> None:
    # ST-7: an uncopied Raw keeps its whole input.
    body = b'{"spec":{"template":{"spec":{"containers":[{"name":"c"}]}}},"padding":"' + b"x" * 100_000 + b'"}'
    before = sys.getrefcount(body)
    job = codec.decode(Job, body)
    # The collector does not see what a Raw refers to.
    assert sys.getrefcount(body) == before
    assert bytes(job.spec.template) == b'{"spec":{"containers":[{"name":"c"}]}}'


def test_controller_is_the_one_owner_that_says_so() -> None:
    metadata = codec.decode(ObjectMeta, b'{"ownerReferences":[{"uid":"a"},{"uid":"b","controller":true}]}')
    controller = controller_of(metadata)
    assert controller is not None
    assert controller.uid == "b"
    assert controller_of(ObjectMeta()) is None


def test_key_reads_as_people_write_it() -> None:
    assert (str(Key("n", "x")), str(Key("", "x"))) == ("n/x", "x")


def test_wrong_type_names_its_path() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.spec\.replicas"):
        codec.decode(Website, b'{"spec":{"image":"a","replicas":"two"}}')
