from datetime import UTC, datetime

import pytest

from kcr.api import codec
from kcr.api.coordination import Lease
from kcr.api.core import Event, Secret, Service


def test_secret_holds_bytes_and_sends_base64() -> None:
    secret = codec.decode(Secret, b'{"metadata":{"name":"a"},"data":{"password":"aHVudGVyMg=="},"type":"Opaque"}')
    assert secret.data == {"password": b"hunter2"}
    assert b'"data":{"password":"aHVudGVyMg=="}' in codec.encode(secret)


def test_secret_is_not_told_by_its_own_words() -> None:
    secret = codec.decode(Secret, b'{"metadata":{"name":"a","namespace":"n"},"data":{"password":"aHVudGVyMg=="}}')
    assert repr(secret) == f"{secret}" == "Secret(n/a, data=['password'])"
    assert "hunter2" not in str(secret.__rich_repr__())


def test_target_port_is_a_number_or_a_name() -> None:
    body = b'{"spec":{"clusterIP":"None","ports":[{"port":80,"targetPort":8080},{"port":81,"targetPort":"http"}]}}'
    service = codec.decode(Service, body)
    assert [port.target_port for port in service.spec.ports] == [8080, "http"]
    assert service.spec.cluster_ip == "None"


def test_lease_times_keep_their_six_digits() -> None:
    body = b'{"spec":{"holderIdentity":"me","renewTime":"2026-01-01T00:00:00.123456Z"}}'
    assert b'"renewTime":"2026-01-01T00:00:00.123456Z"' in codec.encode(codec.decode(Lease, body))


# Source: kubectl/pkg/cmd/events/events_printer.go, getInterval.
@pytest.mark.parametrize(
    ("body", "times", "minute"),
    [
        pytest.param(
            '"count":3,"lastTimestamp":"2026-01-01T00:05:00Z","firstTimestamp":"2026-01-01T00:01:00Z"', 3, 5, id="core",
        ),
        pytest.param('"eventTime":"2026-01-01T00:01:00.000000Z"', 1, 1, id="new"),
        pytest.param(
            '"eventTime":"2026-01-01T00:01:00.000000Z",'
            '"series":{"count":7,"lastObservedTime":"2026-01-01T00:09:00.000000Z"}', 7, 9, id="series",
        ),
        pytest.param('"metadata":{"creationTimestamp":"2026-01-01T00:02:00Z"}', 1, 2, id="neither"),
    ],
)  # fmt: skip
def test_event_of_either_group_says_how_often_and_when(body: str, times: int, minute: int) -> None:
    event = codec.decode(Event, f"{{{body}}}".encode())
    assert event.times == times
    assert event.last_seen == datetime(2026, 1, 1, 0, minute, tzinfo=UTC)
