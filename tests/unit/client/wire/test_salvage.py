import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcr.client.wire.decoding import elements, members

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)
INDENTS = st.sampled_from([None, 1])


@given(st.dictionaries(st.text(), VALUES), INDENTS)
def test_members_are_those_a_json_parser_finds(document: dict[str, Any], indent: int | None) -> None:
    found = members(json.dumps(document, indent=indent).encode())
    assert {json.loads(b'"%s"' % name): json.loads(value) for name, value in found.items()} == document


@given(st.lists(VALUES), INDENTS)
def test_elements_are_those_a_json_parser_finds(document: list[Any], indent: int | None) -> None:
    assert [json.loads(element) for element in elements(json.dumps(document, indent=indent).encode())] == document


def test_no_nesting_is_too_deep() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    assert members(b'{"a": %s, "b": 1}' % deep) == {b"a": deep, b"b": b"1"}


@pytest.mark.parametrize("document", [b"", b"[]", b'{"a": 1', b"{1: 2}", b'"{}"', b'{"a}'])
def test_document_that_is_no_object_is_an_error(document: bytes) -> None:
    with pytest.raises(ValueError, match="no JSON"):
        members(document)
