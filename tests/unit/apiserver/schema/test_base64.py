"""Base64 as Go reads and writes it.

Source: Go's encoding/base64/base64_test.go, TestDecodeCorrupt and TestNewLineCharacters.
"""

import pytest

from kcr_devcluster.apiserver.schema.base64 import canonical_base64


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("!!!!", 0), ("====", 0), ("x===", 1), ("=AAA", 0), ("A=AA", 1), ("AA=A", 2), ("AA==A", 4), ("AAA=AAAA", 4),
        ("AAAAA", 4), ("AAAAAA", 4), ("A=", 1), ("A==", 1), ("AA=", 3), ("AA==", None), ("AAA=", None), ("AAAA", None),
        ("AAAAAA=", 7), ("YWJjZA=====", 8), ("A!\n", 1), ("A=\n", 1), ("٣", 0), ("AAAA٣", 4), ("\ud800", 0), ("", None),
    ],
)  # fmt: skip
def test_corrupt_text_is_refused_where_go_refuses_it(text: str, at: int | None) -> None:
    if at is None:
        assert canonical_base64(text) == text
        return
    with pytest.raises(ValueError, match=f"^illegal base64 data at input byte {at}$"):
        canonical_base64(text)


@pytest.mark.parametrize("text", ["c3Vy\r\nZQ==\n", "c\n3VyZQ==", "c3VyZQ\n==", "c3VyZQ=\r=", "c3VyZR=="])
def test_line_ends_and_spare_bits_are_dropped(text: str) -> None:
    assert canonical_base64(text) == "c3VyZQ=="
