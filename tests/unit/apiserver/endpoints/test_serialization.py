"""Which form an Accept header asks for."""

import pytest

from kcr.apiserver.endpoints.serialization import negotiate
from kcr.apiserver.responses import StatusError

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


def test_nothing_that_is_there_is_refused() -> None:
    with pytest.raises(StatusError, match="only the following media types are accepted") as caught:
        negotiate("application/cbor, text/xml")
    assert caught.value.code == 406
