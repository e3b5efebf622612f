"""The public API of the last release, as one line a name, and what has changed since: `python -m tools.public_api`.

The lines come from the pages of docs/reference: names of the library with their signatures, options of the command
line, metrics with their labels. A release writes them into `docs/reference/public-api.txt`, with `--commit` from the
pages of a commit. A name that is gone since then, or has an incompatible signature, needs an entry in CHANGELOG.md.
"""

import argparse
import ast
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "reference"
RELEASED = FOLDER / "public-api.txt"
_CLASS = re.compile(r"class [\w.]+(?:\(.*?\))?$", re.MULTILINE)
_ENTRY = re.compile(r"^#{2,3} ([\w.]+)\n\n(?:```text\n(.*?)\n```)?", re.MULTILINE | re.DOTALL)
_METRIC = re.compile(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \|", re.MULTILINE)
_COMMAND = re.compile(r"^## `(kcr [^`]+)`\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_SHARED = re.compile(r"\[`(\w+)`\]\(kcr\.md#")
_SECTION = re.compile(r"^## (\w+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_ATTRIBUTES = re.compile(r"^\*\*Attributes\*\*:\n\n((?:- |  ).*\n)+", re.MULTILINE)
_NAME = re.compile(r"^(?:async |metric )?(kcr .*|[\w.]+)")


def current_pages() -> dict[str, str]:
    """Return the text of each page of the reference."""
    return {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}


def pages_of(commit: str) -> dict[str, str]:
    """Return the text of each page of the reference in a commit.

    Raises:
        subprocess.CalledProcessError: The repository does not have the commit.
    """

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    names = git("ls-tree", "--name-only", commit, "docs/reference/").split()
    return {Path(name).name: git("show", f"{commit}:{name}") for name in names if name.endswith(".md")}


def lines_of(pages: Mapping[str, str]) -> list[str]:
    """Return the lines of the public API, sorted by name."""
    found: list[str] = []
    for page, text in pages.items():
        if page.startswith("kcr"):
            package = page.removesuffix(".md")
            found += _names(package, text)
            for shared in _SHARED.findall(text):
                found += (line.replace("kcr.", f"{package}.", 1) for line in _names("kcr", pages["kcr.md"], shared))
        elif page == "metrics.md":
            found += (f"metric {name}: {kind}({labels})" for name, kind, labels in _METRIC.findall(text))
        elif page == "command-line.md":
            found += _options(text)
    return sorted(set(found), key=lambda line: (name_in(line), line))


def _names(package: str, text: str, below: str = "") -> list[str]:
    """Return the lines of a page; with a name only those of this name and of its members."""
    lines = [_line(package, *entry) for entry in _ENTRY.findall(text)]
    known = set(map(name_in, lines))
    lines += (name for name in _attributes(package, text) if name not in known)
    prefix = f"{package}.{below}"
    return [line for line in lines if not below or f"{name_in(line)}.".startswith(f"{prefix}.")]


def name_in(line: str) -> str:
    """Return the name that a line is about."""
    match = _NAME.match(line)
    assert match, line
    return match[1]


def breaks(old: str, new: str | None) -> bool:
    """Return whether a use that fits the old line may fail with the new one.

    Parameters and fields with a default may be added behind those that exist.

    Args:
        old: A line of the last release.
        new: The line of the same name; None when the name is gone.
    """
    if new is None:
        return True
    if name_in(old) in (old, new) and "(" not in old + new:
        return False  # an attribute is a property now, or the reverse
    before, after = _shape(old), _shape(new)
    if before is None or after is None:
        return old != new
    (kind, plain, keywords), (new_kind, new_plain, new_keywords) = before, after
    added = [*new_plain[len(plain) :], *(new_keywords - keywords)]
    is_same = kind == new_kind and plain == new_plain[: len(plain)] and keywords <= new_keywords
    return not is_same or any(" = " not in parameter for parameter in added)


def unexplained(old: list[str], new: list[str], notes: str) -> list[str]:
    """Return the old lines that break, and that no code span of the release notes names.

    Args:
        old: The lines of the last release.
        new: The lines of today.
        notes: The text of the changelog since the last release.
    """
    today, before = {name_in(line): line for line in new}, {name_in(line) for line in old}
    named = set(re.findall(r"[\w-]+", " ".join(re.findall(r"`([^`]*)`", notes.replace("\n", " ")))))
    broken = (line for line in old if breaks(line, today.get(name_in(line))))

    def is_named(name: str) -> bool:
        # A class that is gone takes its members along.
        owner = name.rpartition(".")[0]
        return re.split(r"[. ]", name)[-1] in named or (owner in before and owner not in today and is_named(owner))

    return [line for line in broken if not is_named(name_in(line))]


def _line(package: str, name: str, code: str) -> str:
    """Return the entry of a page as one line; a class has the signature of its constructor, or its fields."""
    text = _CLASS.sub("", code).strip()
    if text != code.strip() and not text.startswith(f"{name}("):
        fields = ", ".join(" ".join(field.split()) for field in text.splitlines())
        return f"{package}.{name}({fields})"
    text = " ".join(text.split()).replace("( ", "(").replace(", )", ")").replace("'", "")
    prefix, call, rest = text.partition(name)
    return f"{prefix}{package}.{name}{rest}" if call else f"{package}.{name}"


def _attributes(package: str, text: str) -> Iterator[str]:
    """Yield the names of attributes: those in the list of the class itself, before its first method."""
    for name, section in _SECTION.findall(text):
        if listed := _ATTRIBUTES.search(section.partition("\n### ")[0]):
            yield from (f"{package}.{name}.{one}" for one in re.findall(r"^- `(\w+)`", listed[0], re.MULTILINE))


def _options(text: str) -> Iterator[str]:
    for command, section in _COMMAND.findall(text):
        for row in re.findall(r"^\| (`-[^|]*`) \|", section.replace("\\|", "/"), re.MULTILINE):
            yield from (f"{command} {option}" for option in re.findall(r"--[\w-]+", row))


def _shape(line: str) -> tuple[list[str], list[str], set[str]] | None:
    """Return the kind and the result of a signature, its parameters and its keywords; None if the line has none."""
    prefix = "async " if line.startswith("async ") else ""
    _, call, rest = line.partition("(")
    try:
        (node,) = ast.parse(f"{prefix}def f({rest}: ..." if call else line).body
    except SyntaxError:
        return None
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    result = ast.unparse(node.returns) if node.returns else ""
    arguments = node.args
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + [*arguments.defaults]
    rest_of = [ast.unparse(one) for one in (arguments.vararg, arguments.kwarg) if one]
    keywords = set(map(_parameter, arguments.kwonlyargs, arguments.kw_defaults))
    return [prefix, result, *rest_of], [*map(_parameter, plain, defaults)], keywords


def _parameter(argument: ast.arg, default: ast.expr | None) -> str:
    return ast.unparse(argument) + (f" = {ast.unparse(default)}" if default is not None else "")


def written(version: str, lines: list[str]) -> str:
    """Return the text of the file for a version."""
    return "\n".join((f"# Public API of kcr {version}. Made by `python -m tools.public_api`.", *lines)) + "\n"


def main() -> None:
    """Write the lines of a release."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", help="the version that is released")
    parser.add_argument("--commit", help="take the pages of this commit instead of those of the checkout")
    given = parser.parse_args()
    lines = lines_of(pages_of(given.commit) if given.commit else current_pages())
    RELEASED.write_text(written(given.version, lines), encoding="utf-8")


if __name__ == "__main__":
    main()
