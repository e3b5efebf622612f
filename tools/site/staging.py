"""The documents of the repository, copied to a folder in which Sphinx builds a site of them.

The layout stays that of the repository, so that relative links lead to the same documents. README.md is the first page:
it is called `index.md`, and has the menu of all others.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
_GUIDE = "docs/guide/README.md"
# Captions of the menu beside the groups of the guide, each with its documents. A README.md has the other documents of
# its folder below it.
_MORE: Mapping[str, tuple[str, ...]] = {
    "Operate": ("docs/runbooks/README.md",),
    "Development cluster": ("devcluster/README.md",),
    "Reference": ("docs/reference/README.md", "examples/README.md", "docs/glossary.md"),
    "Decisions": ("docs/architecture.md", "docs/devcluster.md", "docs/decisions/README.md", "docs/reliability.md"),
    "Project": ("CHANGELOG.md", "CONTRIBUTING.md", "AGENTS.md", "SECURITY.md", "findings/README.md"),
}
# These stay in the repository: who reads them has its code beside them.
_LEFT_OUT = "docs/spec/"
_LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
_NAMED = re.compile(r"\[([^]]*)\]\(([^)\s#]+)(?:#[^)\s]*)?\)")
_CODE = re.compile(r"(```.*?```|`[^`]*`)", re.DOTALL)


def menu() -> dict[str, list[str]]:
    """Return the captions of the menu, each with its documents by their paths in the repository.

    The guide's README.md has the first of them: what is above its headings, and what is below each.
    """
    start, *groups = (ROOT / _GUIDE).read_text(encoding="utf-8").split("\n## ")
    tutorial, *others = _targets(_GUIDE, start)
    found = {"Start": [tutorial, _GUIDE, *others]}
    for group in groups:
        found[group.partition("\n")[0]] = list(_targets(_GUIDE, group))
    for caption, names in _MORE.items():
        found[caption] = [*found.get(caption, ()), *names]
    return found


def below(name: str) -> list[str]:
    """Return the documents that are below one in the menu, in the order in which it names them."""
    folder = (ROOT / name).parent
    if not name.endswith("/README.md") or name == _GUIDE:
        return []
    text = (ROOT / name).read_text(encoding="utf-8")
    order = {target: place for place, target in enumerate(_targets(name, text))}
    found = {str(path.relative_to(ROOT)) for path in folder.rglob("*.md")} - {name}
    return sorted(found, key=lambda one: (order.get(one, len(order)), one))


def pages() -> dict[str, list[str]]:
    """Return all documents by caption, in the order of the menu."""
    return {
        caption: [one for name in names for one in (name, *below(name))] for caption, names in menu().items()
    }  # fmt: skip


def stage(target: Path) -> None:
    """Copy all documents, and the files that they link to or show, into a folder."""
    documents = {name for names in pages().values() for name in names} | {"README.md"}
    for name in sorted(documents):
        text = (ROOT / name).read_text(encoding="utf-8")
        placed = target / ("index.md" if name == "README.md" else name)
        placed.parent.mkdir(parents=True, exist_ok=True)
        for link in _targets(name, text):
            if link not in documents and (ROOT / link).is_file() and not link.startswith(_LEFT_OUT):
                (target / link).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / link, target / link)
        children = [os.path.relpath(one, Path(name).parent) for one in below(name)]
        contents = _contents(menu()) if name == "README.md" else _contents({"": children}) if children else ""
        placed.write_text(_relinked(name, text) + contents, encoding="utf-8")


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


def _relinked(name: str, text: str) -> str:
    """Return a document whose links lead to the pages of the site: README.md is the first, and some are left out."""

    def to(match: re.Match[str]) -> str:
        return os.path.normpath(Path(name).parent / match[2])

    def renamed(match: re.Match[str]) -> str:
        is_first = to(match) == "README.md"
        return match[1] + (match[2].replace("README.md", "index.md") if is_first else match[2]) + match[3]

    def unlinked(match: re.Match[str]) -> str:
        return match[1] if to(match).startswith(_LEFT_OUT) else match[0]

    parts = _CODE.split(text)
    parts[::2] = [_LINK.sub(renamed, _NAMED.sub(unlinked, part)) for part in parts[::2]]
    return "".join(parts)


def _contents(menu: Mapping[str, Iterable[str]]) -> str:
    blocks = (
        "\n".join(("```{toctree}", ":hidden:", *([f":caption: {caption}"] if caption else []), "", *names, "```"))
        for caption, names in menu.items()
    )
    return "\n\n" + "\n\n".join(blocks) + "\n"
