"""Names of fields as expressions write them."""

import pytest

from kcr_devcluster.apiserver.cel.escaping import escape

# Source: cel-spec/doc/langdef.md, "RESERVED" and the keywords of the grammar.
RESERVED = [
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
    "loop", "package", "namespace", "return", "var", "void", "while",
]  # fmt: skip


@pytest.mark.parametrize("name", RESERVED)
def test_reserved_name_of_a_field_is_escaped(name: str) -> None:
    assert escape(name) == f"__{name}__"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a", "a"), ("a.b", "a__dot__b"), ("a-b", "a__dash__b"), ("a/b", "a__slash__b"), ("a__b", "a__underscores__b")],
)
def test_letters_that_no_name_may_have_are_escaped(name: str, expected: str) -> None:
    assert escape(name) == expected


@pytest.mark.parametrize("name", ["", "1a", "a b", "ä", "a:b"])
def test_field_whose_name_cannot_be_written_has_none(name: str) -> None:
    assert not escape(name)
