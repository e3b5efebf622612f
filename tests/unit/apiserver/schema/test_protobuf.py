"""Protobuf as it is read: fields of every wire type, and messages that end too early."""

import pytest

from kcr_devcluster.apiserver.schema.protobuf import read_fields


def test_fields_of_every_wire_type_are_read_to_their_end() -> None:
    # Numbers 1 to 4: a varint of two bytes, eight bytes, a length and its bytes, four bytes; then a varint again.
    data = b"\x08\xac\x02" + b"\x11" + b"12345678" + b"\x1a\x03abc" + b"\x25" + b"1234" + b"\x28\x07"
    assert [*read_fields(data)] == [(1, 300), (2, b"12345678"), (3, b"abc"), (4, b"1234"), (5, 7)]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(b"\x1a\x04abc", "unexpected EOF", id="length"),
        pytest.param(b"\x11" + b"1234567", "unexpected EOF", id="eight-bytes"),
        pytest.param(b"\x25" + b"123", "unexpected EOF", id="four-bytes"),
        pytest.param(b"\x0b", "illegal wireType 3", id="group"),
    ],
)
def test_message_that_is_cut_or_of_another_form_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        list(read_fields(data))
