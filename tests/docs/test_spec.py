"""Every rule that code, tests and documents cite stands in docs/spec."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "docs" / "spec"
DOCUMENTS = sorted(path.stem for path in SPEC.glob("*.md") if path.stem != "README")
RULE = re.compile(r"\b(?!UTF-)[A-Z]{2}-\d+\b")
# A document or nothing, then one section or several: `job-controller §18`, `§§2.5, 10 and 11`.
SECTIONS = re.compile(rf"(?:({'|'.join(DOCUMENTS)})(?:\.md)? )?§§?(\d+(?:\.\d+)*(?:(?:, | and )\d+(?:\.\d+)*)*)")


def citing() -> Iterator[tuple[Path, str]]:
    """Every file that cites something, with its text."""
    sources = ("kcr", "controllers", "devcluster/kcr_devcluster", "tests", "examples", "bench")
    yield from (
        (path, text)
        for path in (
            *(path for folder in sources for path in (ROOT / folder).rglob("*.py")),
            *ROOT.glob("*.md"),
            *(path for path in (ROOT / "docs").rglob("*.md") if SPEC not in path.parents),
        )
        if re.search(r"§|\b[A-Z]{2}-\d", text := path.read_text())
    )


@cache
def rules() -> frozenset[str]:
    return frozenset(rule for name in DOCUMENTS for rule in re.findall(r"\*\*([A-Z]{2}-\d+)\*\*", text_of(name)))


@cache
def text_of(document: str) -> str:
    return (SPEC / f"{document}.md").read_text()


@cache
def sections_of(document: str) -> dict[str, str]:
    """The text of each section by its number, those of its subsections included."""
    headings = list(re.finditer(r"^(#+) (\d+(?:\.\d+)*)\.? ", text_of(document), re.MULTILINE))
    found = {}
    for place, heading in enumerate(headings):
        later = (other.start() for other in headings[place + 1 :] if len(other[1]) <= len(heading[1]))
        found[heading[2]] = text_of(document)[heading.start() : next(later, None)]
    return found


def stands(document: str, number: str) -> bool:
    """Whether a section, or a numbered row or paragraph of one, is there."""
    if number in sections_of(document):
        return True
    parent, _, last = number.rpartition(".")
    row = rf"(^\| ?{last} ?\||^{last}\. |\*\*{re.escape(number)}\*\*|^- {re.escape(number)} |\b{re.escape(number)}\b)"
    return parent in sections_of(document) and re.search(row, sections_of(document)[parent], re.MULTILINE) is not None


def cited(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every section that is cited, with its document, or where it names none with all that the text names."""
    named = tuple(name for name in DOCUMENTS if name in text)
    for match in SECTIONS.finditer(text):
        for number in re.split(r", | and ", match[2]):
            yield (match[1],) if match[1] else named, number


def test_every_citation_resolves() -> None:
    files = list(citing())
    assert len(files) > 100
    for path, text in files:
        assert set(RULE.findall(text)) <= rules(), path
        for documents, number in cited(text):
            assert documents, f"{path} §{number}: name its document, here or at the top of the file"
            assert any(stands(document, number) for document in documents), f"{path}: {documents} §{number}"


def test_citation_of_nothing_is_found_out() -> None:
    assert list(cited("api-server §18, §§2.5 and 7; runtime")) == [
        (("api-server",), "18"),
        (("api-server", "runtime"), "2.5"),
        (("api-server", "runtime"), "7"),
    ]
    assert stands("job-controller", "37.10")
    assert not stands("job-controller", "99.1")
    assert "WQ-1" in rules()
