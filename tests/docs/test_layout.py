"""Names that stand for one thing, explanations that are data, and helpers of tests that are written once."""

import ast
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# The plugins' folders are links in kcr/controllers.
# What is made by a script has the size that its source has, and the names of that: its first line says so.
GENERATED = "# Made by `"
PACKAGES = ("kcr", "controllers", "devcluster/kcr_devcluster")
MODULES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))
           if not path.relative_to(ROOT).is_relative_to("kcr/controllers")
           and not path.read_text().startswith(GENERATED)]  # fmt: skip
TESTS = sorted((ROOT / "tests").rglob("*.py"))

# A function or class of a module that is no test: its name, and the lines below the one that names it.
HELPER = re.compile(r"^(?:async def|def|class) (?!test_|Test)(\w+)[^\n]*\n((?:[ \t)][^\n]*\n|\n)+)", re.MULTILINE)
DOCSTRING = re.compile(r'^ +""".*?"""\n', re.MULTILINE | re.DOTALL)

# Names of two or more classes.
SHARED_NAMES: Mapping[str, str] = {
    **dict.fromkeys(
        ("Options", "Plan", "Outcome", "Memory", "Actions"),
        "the same role in both plugins, which know nothing of each other",
    ),
    "KeyState": "that of the debug port is a view of the queue's",
}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def shared_names() -> dict[str, list[str]]:
    homes: dict[str, list[str]] = defaultdict(list)
    for path in MODULES:
        for name in re.findall(r"^class ([A-Z]\w*)", path.read_text(), re.MULTILINE):
            homes[name].append(name_of(path))
    return {name: paths for name, paths in homes.items() if len(paths) > 1}


def test_public_class_name_stands_for_one_thing() -> None:
    assert not {name: paths for name, paths in shared_names().items() if name not in SHARED_NAMES}


def test_no_exception_has_become_needless() -> None:
    assert SHARED_NAMES.keys() <= shared_names().keys()


EXPLAINED = {"headline", "reasons", "remedies"}
# What takes a text apart, called on a text, on a pattern, or on the module `re`.
PARSERS = {
    "endswith", "findall", "finditer", "fullmatch", "match", "partition", "removeprefix", "removesuffix", "replace",
    "rpartition", "search", "split", "startswith", "sub",
}  # fmt: skip


def parses_explanations(code: str) -> bool:
    """Return whether a module takes the headline, the reasons or the remedies of an explanation apart."""
    # Most modules name none of them, and need not be parsed.
    if not any(f".{name}" in code for name in EXPLAINED):
        return False
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Call(func=ast.Attribute(value=text, attr=name), args=arguments) if name in PARSERS:
                operands = [text, *arguments]
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[right]):
                operands = [left, right]
            case ast.GeneratorExp(generators=[one, *_]) | ast.ListComp(generators=[one, *_]):
                calls = [part.func for part in ast.walk(node) if isinstance(part, ast.Call)]
                takes_apart = any(isinstance(call, ast.Attribute) and call.attr in PARSERS for call in calls)
                operands = [one.iter] if takes_apart else []
            case _:
                continue
        read = {part.attr for one in operands for part in ast.walk(one) if isinstance(part, ast.Attribute)}
        if read & EXPLAINED:
            return True
    return False


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("re.search('waits (.*)', explanation.headline)", True),
        ("PATTERN.match(found.headline)", True),
        ("own.headline.startswith('waits')", True),
        ("[one for one in own.reasons if one.startswith('pod ')]", True),
        ("[one for one in own.reasons if one not in others]", False),
        ("'waits' in explanation.headline", True),
        ("replace(explanation, reasons=(*explanation.reasons, fact))", False),
        ("f'it {explanation.headline}'", False),
    ],
)
def test_parsing_of_explanations_is_found(line: str, *, expected: bool) -> None:
    assert parses_explanations(line) is expected


def test_no_module_parses_explanations() -> None:
    # Most modules read none of these fields, and parsing all of them takes seconds.
    texts = {path: path.read_text() for path in MODULES}
    reading = {path: text for path, text in texts.items() if re.search(r"\.(headline|reasons|remedies)\b", text)}
    assert not [name_of(path) for path, text in reading.items() if parses_explanations(text)]


def test_helpers_are_in_the_kit_only() -> None:
    # The chaos suite and the end-to-end tests have some that nothing else uses.
    beside = [
        name_of(path)
        for path in TESTS
        if not path.name.startswith("test_")
        and path.name not in ("conftest.py", "__init__.py")
        and path.relative_to(ROOT / "tests").parts[0] not in ("kit", "chaos", "e2e")
    ]
    assert beside == []


def test_no_helper_is_written_twice() -> None:
    homes: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in TESTS:
        for name, code in HELPER.findall(path.read_text()):
            homes[name, DOCSTRING.sub("", code)].append(name_of(path))
    # The end-to-end tests start the same command with options of their own.
    assert not {key: paths for key, paths in homes.items() if len(paths) > 1 and "tests/e2e" not in paths[0]}
