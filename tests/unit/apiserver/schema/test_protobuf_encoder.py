"""Protobuf loses nothing of an object, and is written as Go writes it."""

from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
import pytest

from kcr_devcluster.apiserver.schema import protobuf
from kcr_devcluster.apiserver.schema.builtin import ALL, encoded_shape, type_shape
from kcr_devcluster.apiserver.schema.protobuf import UnknownMessageError
from kcr_devcluster.apiserver.schema.protobuf_encoder import encode, encode_event, is_encodable
from kcr_devcluster.apiserver.schema.shape import Shape
from tests.kit.drawn_objects import KIND_TYPES, builtin_object
from tests.kit.protobuf import body, entry, message

KINDS = [(*name.split(" "), type_name) for name, type_name in KIND_TYPES.items() if is_encodable(*name.split(" "))]

# Fields that 1.37.0 publishes, and that its structs did not have when their tags were read: protobuf leaves them out.
UNNUMBERED = ("compatibilityGroups", "derivedAttributes", "runningInUserNamespace")
TIME = message((1, 1_767_225_600), (2, 0))


def drop_type_meta(shape: Shape, value: dict[str, Any]) -> None:
    """Drop kind and apiVersion of the object and of those within it: protobuf carries the outermost in the envelope."""
    for name in [name for name in value if not shape.fields[name].number]:
        assert name in ("apiVersion", "kind", *UNNUMBERED), name
        del value[name]
    for name, given in value.items():
        for inner_shape, inner, _ in shape.fields[name].type.objects(given, ""):
            drop_type_meta(inner_shape, inner)


def drawn_objects(seed: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for api_version, kind, type_name in KINDS:
        drawn = builtin_object(type_name, Random(f"{seed} {type_name}"), version=ALL)
        drop_type_meta(type_shape(type_name), drawn)
        yield api_version, kind, {**drawn, "apiVersion": api_version, "kind": kind}


def stored(api_version: str, kind: str, obj: dict[str, Any]) -> bytes:
    """Return an object as bytes in the form in which it is stored; JSON objects have no order."""
    shape = encoded_shape(api_version, kind)
    assert shape is not None
    return msgspec.json.encode(shape.conform(obj), order="deterministic")


def check_round_trips(seed: int) -> None:
    for api_version, kind, drawn in drawn_objects(seed):
        from_json = stored(api_version, kind, msgspec.json.decode(msgspec.json.encode(drawn)))
        answer = encode({**msgspec.json.decode(from_json), "apiVersion": api_version, "kind": kind})
        again = protobuf.decode(answer)
        assert stored(api_version, kind, again) == from_json, f"{kind}, seed {seed}"
        assert encode({**again, "apiVersion": api_version, "kind": kind}) == answer, f"{kind}, seed {seed}"


@pytest.mark.parametrize("seed", range(3))
def test_drawn_objects_are_stored_alike_from_json_and_protobuf(seed: int) -> None:
    assert len(KINDS) > 60
    check_round_trips(seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3, 36))
def test_two_thousand_drawn_objects_are_stored_alike(seed: int) -> None:
    check_round_trips(seed)


META = {"name": "a", "creationTimestamp": None}


@pytest.mark.parametrize(
    ("obj", "raw"),
    [
        pytest.param(
            {"apiVersion": "v1", "kind": "ConfigMap", "data": {"b": "", "a": ""}, "metadata": META},
            message((1, message((1, "a"), (8, b""))), (2, entry("a", "")), (2, entry("b", ""))),
            id="fields-and-keys-in-order",
        ),
        pytest.param(
            {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {
                "holderIdentity": "me", "leaseTransitions": 0, "renewTime": "2026-01-01T00:00:00.000007Z"}},
            message((2, message((1, "me"), (4, message((1, 1_767_225_600), (2, 7_000))), (5, 0)))),
            id="microseconds",
        ),
        pytest.param(
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {
                "minAvailable": "50%", "maxUnavailable": -1}},
            message((2, message((1, message((1, 1), (2, 0), (3, "50%"))), (3, message((1, 0), (2, -1), (3, "")))))),
            id="int-or-string",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "Secret", "data": {"p": "cQ=="}, "immutable": False},
            message((2, message((1, "p"), (2, b"q"))), (5, 0)), id="bytes",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"pods": "5"}}},
            message((2, message((1, message((1, "pods"), (2, message((1, "5")))))))), id="quantity",
        ),
        pytest.param(
            {"apiVersion": "apps/v1", "kind": "ControllerRevision", "data": {"a": [1]}, "revision": 3},
            message((2, message((1, b'{"a":[1]}'))), (3, 3)), id="raw-extension",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "PersistentVolume", "spec": {
                "hostPath": {"path": "/"}, "storageClassName": ""}},
            message((2, message((2, message((3, message((1, "/"))))), (6, "")))), id="embedded-message",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "Pod", "spec": {"volumes": [{"emptyDir": {}, "name": "v"}]}},
            message((2, message((1, message((1, "v"), (2, message((2, b"")))))))), id="empty-object",
        ),
        pytest.param(
            {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
                "extra": {"a": ["b", "c"]}}},
            message((2, message((5, message((1, "a"), (2, message((1, "b"), (1, "c")))))))), id="lists-in-a-map",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "Event", "metadata": {}, "involvedObject": {"kind": "Pod", "apiVersion": "v1"},
             "eventTime": None, "firstTimestamp": "2026-01-01T00:00:00Z"},
            message((1, b""), (2, message((1, "Pod"), (5, "v1"))), (6, TIME), (10, b"")), id="references-and-times",
        ),
        pytest.param(
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {
                "audiences": [], "expirationSeconds": 3600, "boundObjectRef": None}},
            message((2, message((4, 3600)))), id="null-and-empty",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "7"},
             "items": [{"metadata": {}}, {}]},
            message((1, message((2, "7"))), (2, message((1, b""))), (2, b"")), id="list",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "code": 404,
             "details": {"causes": [{"field": "a"}]}},
            message((1, b""), (2, "Failure"), (5, message((4, message((3, "a"))))), (6, 404)), id="status",
        ),
        pytest.param(
            {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": {},
             "items": [{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {"name": "a"}}]},
            message((1, b""), (2, message((1, message((1, "a")))))), id="partial-metadata",
        ),
        pytest.param(
            {"apiVersion": "meta.k8s.io/v1beta1", "kind": "PartialObjectMetadataList",
             "metadata": {"resourceVersion": "7"}, "items": [{}]},
            message((1, b""), (2, message((2, "7")))), id="partial-metadata-v1beta1",
        ),
    ],
)  # fmt: skip
def test_object_is_written_as_go_writes_it(obj: dict[str, Any], raw: bytes) -> None:
    assert encode(obj) == body(obj["apiVersion"], obj["kind"], raw)


def test_event_is_framed_by_its_length() -> None:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    frame = encode_event({"type": "ADDED", "object": obj})
    wanted = message((1, "ADDED"), (2, message((1, encode(obj)))))
    assert frame == len(wanted).to_bytes(4, "big") + wanted


@pytest.mark.parametrize(
    ("obj", "why"),
    [
        pytest.param({"apiVersion": "example.com/v1", "kind": "Gadget"}, "kind Gadget", id="custom"),
        pytest.param({"apiVersion": "example.com/v1", "kind": "Status"}, "kind Status", id="custom-status"),
        pytest.param({"apiVersion": "v1", "kind": "List"}, "kind List", id="list-of-nothing"),
        pytest.param({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"}, "kind A", id="api-service"),
        pytest.param({"apiVersion": "v1", "kind": "Pod", "new": 1}, "field new of v1.Pod", id="new-field"),
        pytest.param({}, "kind ", id="document"),
    ],
)  # fmt: skip
def test_what_has_no_number_is_refused(obj: dict[str, Any], why: str) -> None:
    with pytest.raises(UnknownMessageError, match=why):
        encode(obj)


def test_lists_in_a_map_are_messages_of_one_repeated_field() -> None:
    # CertificateSigningRequestSpec.extra has number 6; entries have the key in 1 and the message in 2.
    spec = {"extra": {"team": ["a", "b"]}}
    obj = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "spec": spec}
    assert message((6, message((1, "team"), (2, message((1, "a"), (1, "b")))))) in encode(obj)
