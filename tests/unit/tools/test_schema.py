import hashlib
import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from tools.schema import TABLE, VERSION, table

TEXT = TABLE.read_text()
PARSED = msgspec.json.decode(TEXT)
EXTRAS = tomllib.loads(Path("pyproject.toml").read_text())["project"]["optional-dependencies"]


def test_table_comes_from_the_package_that_the_extra_names() -> None:
    pinned = [one.replace("==", " ") for one in EXTRAS["schema"]]
    assert [PARSED["source"]["package"]] == pinned
    assert PARSED["source"]["kubernetes"] == VERSION
    assert re.fullmatch(r"[0-9a-f]{64}", PARSED["source"]["sha256"])


def test_table_was_not_changed_by_hand() -> None:
    # The digest is of all that stands behind it.
    digest = f'"{PARSED["sha256"]}"'
    assert hashlib.sha256(TEXT.partition(digest)[2].encode()).hexdigest() == PARSED["sha256"]


def test_table_holds_no_prose() -> None:
    words = {text for fields in PARSED["types"].values() for facts in fields.values() for text in _texts(facts)}
    assert not [text for text in words if " " in text]


def _texts(facts: object) -> list[str]:
    if isinstance(facts, str):
        return [facts]
    assert isinstance(facts, dict)
    return [text for text in facts.values() if isinstance(text, str)]


@pytest.mark.soak
def test_same_source_gives_the_same_table() -> None:
    assert table() == TEXT
