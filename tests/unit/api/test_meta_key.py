"""Keys as text."""

import pytest

from kcr import Key


@pytest.mark.parametrize(
    ("text", "key"),
    [
        pytest.param("default/pi", Key("default", "pi"), id="namespaced"),
        pytest.param("node-0", Key("", "node-0"), id="cluster"),
    ],
)
def test_key_is_read_as_it_is_written(text: str, key: Key) -> None:
    assert Key.parse(text) == key
    assert str(key) == text


@pytest.mark.parametrize("text", ["", "default/", "/pi", "a/b/c"])
def test_text_that_is_no_key_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(ValueError, match="write namespace/name, or name for a kind without namespaces"):
        Key.parse(text)
