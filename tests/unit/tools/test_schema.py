import hashlib
import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from tools.schema import NEXT, TABLE, VERSION, table

TEXT = TABLE.read_text()
PARSED = msgspec.json.decode(TEXT)
EXTRAS = tomllib.loads(Path("pyproject.toml").read_text())["project"]["optional-dependencies"]


def test_table_comes_from_the_package_that_the_extra_names() -> None:
    pinned = [one.replace("==", " ") for one in EXTRAS["schema"]]
    assert [PARSED["source"]["package"]] == pinned
    sources = PARSED["source"], PARSED["later"]["source"]
    assert [one["kubernetes"] for one in sources] == [VERSION, NEXT]
    assert sources[0]["package"] == sources[1]["package"]
    assert re.fullmatch(r"[0-9a-f]{64}", PARSED["source"]["sha256"])


def test_table_was_not_changed_by_hand() -> None:
    # The digest is of all that stands behind it.
    digest = f'"{PARSED["sha256"]}"'
    assert hashlib.sha256(TEXT.partition(digest)[2].encode()).hexdigest() == PARSED["sha256"]


def test_table_holds_no_prose() -> None:
    types = [*PARSED["types"].values(), *PARSED["later"]["types"].values()]
    words = {text for fields in types for facts in fields.values() if facts for text in _texts(facts)}
    assert not [text for text in words if " " in text]


def _texts(facts: object) -> list[str]:
    if isinstance(facts, str):
        return [facts]
    assert isinstance(facts, dict)
    return [text for text in facts.values() if isinstance(text, str)]


@pytest.mark.soak
def test_same_source_gives_the_same_table() -> None:
    assert table() == TEXT
