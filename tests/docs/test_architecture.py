"""What no linter checks: code in documents is code, and what documents list is there."""

import ast
import re
import tomllib
from pathlib import Path
from textwrap import indent

import pytest
import yaml

from tests.kit.documents import blocks

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
DOCUMENTS = sorted(path for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")] if path.parent.name != "spec")


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("document", DOCUMENTS, ids=relative)
def test_code_in_documents_is_code(document: Path) -> None:
    for language, _, code in blocks(document):
        if language == "python":
            # Examples in docstrings may stand inside a coroutine.
            compile(f"async def example() -> None:\n{indent(code, ' ' * 4)}", document.name, "exec")
        if language == "yaml":
            assert list(yaml.safe_load_all(code))


# Templates of a chart are not YAML: their own test renders or generates them.
EXAMPLES = [path for path in sorted((ROOT / "examples").rglob("*.yaml")) if "chart" not in path.parts]


def test_every_example_is_mentioned_or_tested() -> None:
    tests = "".join(test.read_text() for test in (ROOT / "tests").rglob("test_*.py"))
    for path in EXAMPLES:
        assert all(one["kind"] for one in yaml.safe_load_all(path.read_text())), path
        beside = "".join(test.read_text() for test in path.parent.glob("test_*.py"))
        name = path.relative_to(ROOT / "examples")
        assert f'"{name.with_suffix("")}"' in tests or str(name) in tests or f'"{path.name}"' in beside, path


def test_files_the_readme_names_are_there() -> None:
    named = set(re.findall(r"(?<![/~.\w])(?:examples|tests|kcr|controllers)/[\w./-]*\w(?=[`\s)])", README))
    assert named
    assert not [name for name in named if not (ROOT / name).exists()]


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md")), ids=relative)
def test_decision_is_listed(page: Path) -> None:
    title = page.read_text().splitlines()[0].removeprefix("# ")
    assert f"- [{title}]({page.name})\n" in (page.with_name("README.md")).read_text()


def floors(contract: str) -> list[set[str]]:
    """The layers of a contract of import-linter, from the highest."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (found,) = [one["layers"] for one in settings if one["name"] == contract]
    return [set(re.split(r"[\s|:]+", layer)) for layer in found]


def test_map_of_the_development_cluster_has_its_floors() -> None:
    picture, *_ = blocks(ROOT / "docs" / "devcluster.md")
    shown: dict[str, list[set[str]]] = {"": []}
    inside = ""
    for line in picture.text.splitlines():
        names = set(re.split(r" \| ", re.split(r"  +", line.strip(), maxsplit=1)[0]))
        if not line.startswith(" "):
            shown[""].append(names)
            inside = min(names)
        else:
            shown.setdefault(inside, []).append(names)
    assert shown[""] == floors("kcr_devcluster is layered")
    assert shown["cluster"] == floors("the cluster is layered")
    assert shown["apiserver"] == floors("the API server is layered")


def test_table_of_layers_names_every_package() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    table = re.findall(r"(?:^\|.*\n)+", text[text.index("## Layers") :], re.MULTILINE)[0]
    named = set(re.findall(r"`(\w+)`", table))
    assert set().union(*floors("kcr has six floors, and plugins")) - named == {"__main__"}


WALK = re.findall(r"`([a-z_/]+\.py)`: ((?:`[A-Za-z_.]+`(?:, )?)+)", (ROOT / "docs" / "architecture.md").read_text())


def test_walk_has_five_tables_of_files_and_functions() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    walk = text[text.index("## A walk through the code") : text.index("## Layers")]
    assert walk.count("|---|---|") == 5
    rows = [line for line in walk.splitlines() if line.startswith("| ") and not line.startswith("| step")]
    assert all(re.search(r"`[a-z_/]+\.py`: `", row) for row in rows)


@pytest.mark.parametrize(("file", "names"), WALK)
def test_function_of_the_walk_is_where_it_is_said_to_be(file: str, names: str) -> None:
    tree = ast.parse((ROOT / file).read_text())
    found = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    for name in re.findall(r"`([^`]+)`", names):
        owner, _, method = name.partition(".")
        assert owner in found, f"{file} has no {owner}"
        body = getattr(found[owner], "body", [])
        methods = {one.name for one in body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert not method or method in methods, f"{file}: {owner} has no {method}"
