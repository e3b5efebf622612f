"""What is found in the changes of one key's objects."""

from itertools import pairwise

from msgspec.structs import replace

from kcr.api.core import ConfigMap
from kcr.controller.observers.recording import Recording
from kcr.testing import build


def paint(recording: Recording, name: str, *colors: str) -> None:
    """Record the changes of one wall from each color to the next one."""
    walls = [build.config_map(name, {"color": color}) for color in colors]
    for old, new in pairwise(walls):
        recording.add(ConfigMap, old, new)


def shades(first: int, count: int) -> list[str]:
    """Return colors that never come back, for so many changes."""
    return [f"shade {number}" for number in range(first, first + count + 1)]


def test_field_that_returns_to_its_values_has_two_writers() -> None:
    recording = Recording(0.0)
    paint(recording, "a", *["red", "blue"] * 6)
    assert recording.finding is None
    paint(recording, "a", "blue", "red")
    assert recording.finding is not None
    assert (recording.finding.by_turns, recording.finding.fields) == (True, (("data", "color"),))


def test_nothing_is_looked_for_after_sixty_changes() -> None:
    recording = Recording(0.0)
    for number in range(30):
        for name in ("a", "b"):
            paint(recording, name, *shades(number, 1))
    assert recording.finding is None
    paint(recording, "a", *["red", "blue"] * 10)
    assert recording.finding is None


def test_two_writers_are_found_among_the_first_sixty_changes() -> None:
    recording = Recording(0.0)
    for number in range(20):
        for name in ("a", "b"):
            paint(recording, name, *shades(number, 1))
    paint(recording, "a", *["red", "blue"] * 4)
    assert recording.finding is not None
    assert recording.finding.by_turns


def test_later_changes_do_not_alter_a_finding() -> None:
    recording = Recording(0.0)
    paint(recording, "a", *shades(0, 12))
    finding = recording.finding
    assert finding is not None
    assert not finding.by_turns
    paint(recording, "b", *shades(0, 3))
    assert recording.finding is finding


def test_changes_of_the_version_alone_do_not_count() -> None:
    recording = Recording(0.0)
    old = build.config_map("a", {"color": "red"})
    for number in range(60):
        new = replace(old, metadata=replace(old.metadata, resource_version=str(1000 + number)))
        recording.add(ConfigMap, old, new)
        old = new
    paint(recording, "a", *shades(0, 12))
    assert recording.finding is not None
