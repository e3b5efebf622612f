"""Which media type an Accept header asks for."""

import pytest

from kcr_devcluster.apiserver.http.serialization import negotiate
from kcr_devcluster.apiserver.protocol.responses import JSON, StatusError

TABLE = "application/json;as=Table;v={};g=meta.k8s.io"


@pytest.mark.parametrize(
    ("accept", "form", "version"),
    [
        pytest.param("", "", "v1", id="absent"),
        pytest.param("*/*", "", "v1", id="anything"),
        pytest.param("text/html, */*;q=0.8", "", "v1", id="browser"),
        pytest.param("application/vnd.kubernetes.protobuf, */*", "", "v1", id="protobuf-or-anything"),
        pytest.param(TABLE.format("v1"), "Table", "v1", id="table"),
        pytest.param(TABLE.format("v1beta1") + ",application/json", "Table", "v1beta1", id="older-table"),
        pytest.param(TABLE.format("v9") + ",application/json", "", "v1", id="table-of-the-future"),
        pytest.param("application/json;q=0.5," + TABLE.format("v1") + ";q=0.9", "Table", "v1", id="by-quality"),
        pytest.param("application/json;as=Table;g=other;v=v1,application/json", "", "v1", id="other-group"),
    ],
)
def test_first_form_that_is_there_is_given(accept: str, form: str, version: str) -> None:
    assert negotiate(accept)[:2] == (form, version)


PROTOBUF, PARTIAL = "application/vnd.kubernetes.protobuf", ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


@pytest.mark.parametrize(
    ("accept", "transformation", "name"),
    [
        pytest.param(PROTOBUF, "", PROTOBUF, id="alone"),
        pytest.param(f"{PROTOBUF};stream=watch", "", PROTOBUF, id="stream"),
        pytest.param(f"{PROTOBUF},application/json", "", JSON, id="or-json"),
        pytest.param(f"{PROTOBUF}, */*", "", JSON, id="or-anything"),
        pytest.param(f"{PROTOBUF},application/yaml", "", PROTOBUF, id="or-yaml"),
        pytest.param(f"application/yaml,{PROTOBUF}", "", "application/yaml", id="yaml-first"),
        pytest.param(f"{PROTOBUF};q=0.1,application/yaml;q=0.9", "", "application/yaml", id="by-quality"),
        pytest.param(f"{PROTOBUF}{PARTIAL}", "PartialObjectMetadata", PROTOBUF, id="metadata"),
        pytest.param(f"{PROTOBUF}{PARTIAL},application/json", "PartialObjectMetadata", PROTOBUF, id="metadata-or-json"),
        pytest.param(
            f"{PROTOBUF}{PARTIAL},application/json{PARTIAL},application/json", "PartialObjectMetadata", JSON,
            id="metadata-either-way",
        ),
        pytest.param(f"{PROTOBUF};as=Table;g=meta.k8s.io;v=v1,{PROTOBUF}", "", PROTOBUF, id="no-table"),
    ],
)  # fmt: skip
def test_protobuf_is_the_answer_where_the_same_is_not_accepted_as_json(
    accept: str, transformation: str, name: str
) -> None:
    assert negotiate(accept) == (transformation, "v1", name)


def test_objects_without_protobuf_have_metadata_in_it() -> None:
    assert negotiate(f"{PROTOBUF}{PARTIAL}", has_protobuf=False).name == PROTOBUF
    assert negotiate(f"{PROTOBUF},application/yaml", has_protobuf=False).name == "application/yaml"
    with pytest.raises(StatusError, match="media types are accepted: application/json, application/yaml"):
        negotiate(PROTOBUF, has_protobuf=False)


def test_nothing_that_is_there_is_refused() -> None:
    with pytest.raises(StatusError, match="only the following media types are accepted") as caught:
        negotiate("application/cbor, text/xml")
    assert caught.value.code == 406
