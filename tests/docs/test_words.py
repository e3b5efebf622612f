"""Words that hide who acts: code, documents and manifests name the actor, as the API's own documents do.

A user, a client, another field manager, a controller, the kubelet, a replica without the lease, `system:anonymous`:
each of them can be looked up. "Nobody" and "somebody" cannot.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACES = ("kcr", "controllers", "devcluster/kcr_devcluster", "tests", "docs", "examples", "charts", "bench", "tools",
          "README.md", "CHANGELOG.md", "CONTRIBUTING.md")  # fmt: skip
ENDINGS = {".py", ".md", ".yaml", ".yml", ".tpl", ".txt", ".toml"}
# The specification quotes upstream, and this file names the words.
LEFT_OUT = (Path("docs/spec"), Path(__file__).relative_to(ROOT))

# What would be said, and what to look for in its place.
ACTORLESS = re.compile(r"\b(nobody|somebody|everybody|anybody)\b", re.IGNORECASE)


def texts(place: str) -> Iterator[Path]:
    """Yield the files of a place that people write."""
    start = ROOT / place
    for path in [start] if start.is_file() else sorted(start.rglob("*")):
        own = path.relative_to(ROOT)
        if path.suffix in ENDINGS and path.is_file() and not any(own.is_relative_to(left) for left in LEFT_OUT):
            yield path


def actorless(text: str) -> list[str]:
    """Return the lines of a text that name no actor, with their numbers."""
    return [f"{number}: {line.strip()}" for number, line in enumerate(text.splitlines(), 1) if ACTORLESS.search(line)]


@pytest.mark.parametrize("place", PLACES)
def test_every_sentence_names_its_actor(place: str) -> None:
    found = {str(path.relative_to(ROOT)): lines for path in texts(place) if (lines := actorless(path.read_text()))}
    assert found == {}, "say who acts: a user, a client, another controller, the kubelet"


def test_sentence_without_an_actor_is_found() -> None:
    assert actorless("A condition.\nNobody writes it.") == ["2: Nobody writes it."]


def test_places_hold_what_is_written() -> None:
    assert all(any(texts(place)) for place in PLACES)
