"""The documents of the repository, copied to a folder in which Sphinx builds a site of them.

The layout stays that of the repository, so that relative links lead to the same documents. README.md is the first page:
it is called `index.md`, and has the tables of contents of all others.
"""

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
# The captions of the table of contents, each with a page, or a folder whose README.md is the first of its pages.
PARTS: Mapping[str, str] = {
    "Start": "docs/tutorial.md",
    "Guide": "docs/guide",
    "Reference": "docs/reference",
    "Runbooks": "docs/runbooks",
    "Examples": "examples",
    "Design": "docs",
    "Decisions": "docs/decisions",
    "Specification": "docs/spec",
}
_PROJECT = ("CHANGELOG.md", "CONTRIBUTING.md", "AGENTS.md", "SECURITY.md", "devcluster/README.md", "findings/README.md")
_LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
_CODE = re.compile(r"(```.*?```|`[^`]*`)", re.DOTALL)


def pages() -> dict[str, list[str]]:
    """Return the documents by caption, each by its path in the repository, in the order of their README.md."""
    found = {caption: list(_pages_in(ROOT / folder)) for caption, folder in PARTS.items()}
    return {**found, "Project": [name for name in _PROJECT if (ROOT / name).exists()]}


def _pages_in(folder: Path) -> Iterator[str]:
    if folder.is_file():
        yield str(folder.relative_to(ROOT))
        return
    first = folder / "README.md"
    paths = sorted(folder.glob("*.md")) if folder.name != "examples" else sorted(folder.rglob("*.md"))
    listed = (
        [folder / target for _, target, _ in _LINK.findall(first.read_text(encoding="utf-8"))] if first.exists() else []
    )
    order = {path: place for place, path in enumerate([first, *listed])}
    for path in sorted(paths, key=lambda path: (order.get(path, len(order)), path)):
        if (name := str(path.relative_to(ROOT))) not in PARTS.values():
            yield name


def stage(target: Path) -> None:
    """Copy all documents, and the files that they link to or show, into a folder."""
    documents = {name for names in pages().values() for name in names} | {"README.md"}
    for name in sorted(documents):
        text = (ROOT / name).read_text(encoding="utf-8")
        placed = target / ("index.md" if name == "README.md" else name)
        placed.parent.mkdir(parents=True, exist_ok=True)
        for link in _targets(name, text):
            if link not in documents and (ROOT / link).is_file():
                (target / link).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / link, target / link)
        placed.write_text(_with_index(name, text) + (_contents() if name == "README.md" else ""), encoding="utf-8")


def overview() -> str:
    """Return `llms.txt`: the documents by caption, each with its first sentence, in the form of llmstxt.org."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = ["# kcr", "", f"> {_sentence(readme)}"]
    for caption, names in pages().items():
        lines += ["", f"## {caption}", ""]
        for name in names:
            text = (ROOT / name).read_text(encoding="utf-8")
            title = text.partition("\n")[0].removeprefix("# ")
            lines.append(f"- [{title}](_sources/{name}.txt): {_sentence(text)}".removesuffix(": "))
    return "\n".join(lines) + "\n"


def _sentence(text: str) -> str:
    """Return the first sentence below the title; empty for a document that begins with a table or a heading."""
    paragraph = next((one for one in text.split("\n\n")[1:] if one.strip()), "").strip()
    if paragraph.startswith("```") or not (paragraph[:1].isalpha() or paragraph.startswith(("`", "**"))):
        return ""
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split())).replace("**", "")
    return re.split(r"(?<=[.:]) ", plain)[0].rstrip(":")


def _targets(name: str, text: str) -> Iterator[str]:
    for prose in _CODE.split(text)[::2]:
        for _, link, _ in _LINK.findall(prose):
            if "://" not in link:
                yield os.path.normpath(Path(name).parent / link)


def _with_index(name: str, text: str) -> str:
    """Return a document whose links to the README of the repository lead to the first page."""

    def renamed(match: re.Match[str]) -> str:
        is_first = os.path.normpath(Path(name).parent / match[2]) == "README.md"
        return match[1] + (match[2].replace("README.md", "index.md") if is_first else match[2]) + match[3]

    parts = _CODE.split(text)
    parts[::2] = [_LINK.sub(renamed, part) for part in parts[::2]]
    return "".join(parts)


def _contents() -> str:
    blocks = (
        "\n".join(("```{toctree}", ":hidden:", f":caption: {caption}", "", *names, "```"))
        for caption, names in pages().items()
    )
    return "\n\n" + "\n\n".join(blocks) + "\n"
