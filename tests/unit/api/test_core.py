from kcr.api import codec
from kcr.api.coordination import Lease
from kcr.api.core import Secret, Service


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
