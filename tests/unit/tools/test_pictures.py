"""The pictures of the documents: what is drawn, and when one is stale."""

import re
import shutil
from pathlib import Path

import pytest

from tests.docs.test_links import DOCUMENTS
from tools.pictures.diagrams import DIAGRAMS
from tools.pictures.drawing import DARK, EDGES, LIGHT, Box
from tools.pictures.files import FOLDER, HASHES, MAX_BYTES, drawn, faults, write
from tools.pictures.screens import SCREENS, digest
from tools.pictures.terminals import COLOURS, terminal

SHOWN = re.compile(r"!\[([^]]*)\]\(([^)]*pictures/[^)]*)\)")


def luminance(colour: str) -> float:
    parts = [int(colour[start : start + 2], 16) for start in (1, 3, 5)]
    red, green, blue = (one / 3294.6 if one <= 10 else ((one / 255 + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, pale = sorted(map(luminance, (one, other)))
    return (pale + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_texts_are_readable_and_edges_visible(scheme: int) -> None:
    colours = (LIGHT, DARK)[scheme]
    grounds = [colours[name] for name in ("page", *EDGES)]
    assert min(contrast(colours[ink], ground) for ink in ("text", "note") for ground in grounds) >= 4.5
    assert min(contrast(shades[scheme], colours["plain"]) for shades in COLOURS.values()) >= 4.5
    assert min(contrast(edge[scheme], colours["page"]) for edge in EDGES.values()) >= 3


@pytest.mark.parametrize("name", DIAGRAMS)
def test_texts_of_a_diagram_fit_into_their_boxes(name: str) -> None:
    assert [part.overflow() for part in DIAGRAMS[name].parts if isinstance(part, Box) and part.overflow()] == []
    assert Box(0, 0, 60, 20, "much too long").overflow() == "much too long"


def test_words_of_a_terminal_keep_their_columns_and_colours() -> None:
    svg = terminal("t", "ls", ["A       B", "\x1b[31mbad\x1b[0m     good\x1b[0m <1>"])
    assert '<tspan x="79.2">B</tspan>' in svg
    assert '<tspan x="16.0" class="c31">bad</tspan><tspan x="79.2">good</tspan>' in svg
    assert "&lt;1&gt;" in svg
    assert "\x1b" not in svg


def test_each_picture_is_shown_with_what_it_shows_as_its_text() -> None:
    found = {Path(target).name: text for path in DOCUMENTS for text, target in SHOWN.findall(path.read_text())}
    assert found.keys() == {path.name for path in FOLDER.iterdir()} - {HASHES}
    titles = {name: re.findall("<title>(.*)</title>", text) for name, text in drawn().items()}
    assert {name: [found[name]] for name in titles} == titles
    # Those that two documents show have one text.
    assert len({text for path in DOCUMENTS for text, target in SHOWN.findall(path.read_text())}) == len(found)


def test_pictures_of_the_repository_are_those_of_today() -> None:
    # Those of the browser, which not all who change a page have, are checked by `make docs`.
    assert [fault for fault in faults() if ".webp: older" not in fault] == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the pictures, as if all screenshots were taken just now."""
    copy = tmp_path / "pictures"
    shutil.copytree(FOLDER, copy)
    (copy / HASHES).write_text("".join(f"{digest(name)}  {name}.webp\n" for name in SCREENS))
    return copy


def test_stale_picture_is_found_and_written_again(folder: Path) -> None:
    assert faults(folder) == []
    (folder / "key.svg").write_text("<svg/>")
    (folder / "jobs.svg").unlink()
    (folder / HASHES).write_text(f"{'0' * 64}  page.webp\n{digest('page-dev')}  page-dev.webp\n")
    (folder / "page-metrics.webp").unlink()
    (folder / "old.png").write_bytes(bytes(MAX_BYTES + 1))
    assert faults(folder) == [
        "key.svg: differs from what it shows: run python -m tools.pictures",
        "jobs.svg: differs from what it shows: run python -m tools.pictures",
        "page.webp: older than what it shows: run python -m tools.pictures",
        "page-metrics.webp: older than what it shows: run python -m tools.pictures",
        "old.png: nothing makes it",
        "old.png: more than 60 kB",
    ]
    written = list(write(drawn(), lambda: dict.fromkeys(SCREENS, b"picture"), (), folder))
    assert [path.name for path in written] == ["key.svg", "jobs.svg", "page.webp", "page-metrics.webp"]
    assert [fault.partition(":")[0] for fault in faults(folder)] == ["old.png", "old.png"]
    assert list(write(drawn(), dict, (), folder)) == []
