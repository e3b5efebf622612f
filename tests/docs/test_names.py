"""Names in the documents exist: of Python, commands, options, variables, metrics, and terms of the glossary."""

import importlib
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import click
import pytest

from kcr.cli.main import cli
from tests.docs.test_links import DOCUMENTS
from tests.kit.documents import ROOT

# The changelog and the upgrade guide name what is gone; the rules that were implemented from name upstream's.
LEFT_OUT = ("CHANGELOG.md", "docs/guide/upgrade.md", "docs/spec")
CHECKED = [path for path in DOCUMENTS if not str(path.relative_to(ROOT)).startswith(LEFT_OUT)]
PYTHON = re.compile(r"(?<![\w./@-])kcr(?:_devcluster)?(?:\.[A-Za-z_]\w*)+")
HERE = Path(__file__)
# The domain of annotations, and files.
NO_NAMES = ("kcr.dev", ".md", ".kubeconfig", ".profile")
VARIABLE = re.compile(r"\bKCR_[A-Z_]+[A-Z]\b")
METRIC = re.compile(
    r"\b(?:kcr|workqueue|controller_runtime|rest_client|job_controller|cronjob_controller|leader_election|apiserver|"
    r"informer|certwatcher|process)_[a-z_]+[a-z]\b"
)
COMMAND = re.compile(r"^(?:[A-Z_]+=\S+ )*(?:\S*/|kubectl )?kcr ([a-z][a-z-]*(?: .*)?)$")
# `*home cluster*`: a term where it is introduced.
TERM = re.compile(r"(?<![*\w])\*([a-z][a-z ]*)\*(?![*\w])")
_FENCED = re.compile(r"^```\w*\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@cache
def words() -> frozenset[str]:
    """Return the words of the code of kcr, those of texts among them, and the variables of tests."""
    folders, kinds = ("kcr", "controllers", "devcluster", "tools", "bench", "charts"), (".py", ".txt", ".yaml", ".tpl")
    found = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in kinds]
    text = "\n".join(path.read_text(encoding="utf-8") for path in (*found, ROOT / "Makefile", ROOT / "pyproject.toml"))
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py") if path != HERE)
    return frozenset([*re.findall(r"[A-Za-z_][\w.]*", text), *VARIABLE.findall(tests)])


def exists(name: str) -> bool:
    """Return whether a dotted name is a module, or a name in one; or a text of the code, such as `kcr.commands`."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for part in parts[end:]:
            if not hasattr(found, part) and part not in getattr(found, "__annotations__", {}):
                return name in words()
            found = getattr(found, part, None)
        return True
    return False


def commands(text: str) -> Iterator[str]:
    """Yield the words of each command `kcr …` in blocks and in the text."""
    lines = [line for block in _FENCED.findall(text) for line in block.splitlines()]
    for line in (*lines, *re.findall(r"`([^`\n]+)`", _FENCED.sub("", text))):
        for part in re.split(r"[|;]|&&| -- ", line.partition(" #")[0]):
            if (found := COMMAND.search(part.strip())) and " import " not in part:
                yield found[1]


def wrong_option(words: Sequence[str]) -> str:
    """Return what a command has not: its name, or an option; empty for neither."""
    command: click.Command = cli
    for number, word in enumerate(words):
        found = command.get_command(click.Context(command), word) if isinstance(command, click.Group) else None
        if found is None:
            if number == 0:
                return word
            break
        command = found
    known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)} | {"--help", "--"}
    given = (word.partition("=")[0].rstrip("…,.") for word in words if word.startswith("--"))
    return next((option for option in given if option not in known), "")


def is_metric(name: str) -> bool:
    """Return whether the code has a metric: whole, as `f"{PREFIX}_end"`, or as the begin of several, as for grep."""
    plain = re.sub(r"_(total|bucket|sum|count)$", "", name)
    ends = {one[place:] for one in (name, plain) for place in range(len(one)) if one[place] == "_"}
    return bool({name, plain, *ends} & words()) or any(word.startswith(f"{name}_") for word in words())


def faults(text: str) -> list[str]:
    """Return the names in a document that there are not."""
    return [
        *(name for name in PYTHON.findall(text) if not name.endswith(NO_NAMES) and not exists(name)),
        *(name for name in VARIABLE.findall(text) if name not in words() and not name.startswith("KCR_MOUNT_")),
        *(name for name in METRIC.findall(text) if not is_metric(name)),
        *(f"kcr {words}: {wrong}" for words in commands(text) if (wrong := wrong_option(words.split()))),
    ]


@pytest.mark.parametrize("document", CHECKED, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_of_a_document_exist(document: Path) -> None:
    assert faults(document.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("`kcr.create_or_patch(obj)` of `kcr.api.core.Pod`", [], id="public"),
        pytest.param("`kcr.crate_or_patch(obj)`", ["kcr.crate_or_patch"], id="python"),
        pytest.param("the group `kcr.commands`; kcr.dev/paused", [], id="text-of-the-code"),
        pytest.param("`KCR_WORKERS` and `KCR_WORKER_COUNT`", ["KCR_WORKER_COUNT"], id="variable"),
        pytest.param("`rate(kcr_parked_keys[1m])`, `kcr_parkd_keys`", ["kcr_parkd_keys"], id="metric"),
        pytest.param("`kcr jobs -A --sort-by age | head`", [], id="command"),
        pytest.param("`kcr jbos -A`", ["kcr jbos -A: jbos"], id="unknown-command"),
        pytest.param("```\nkcr run --worker=3  # --x\n```\n", ["kcr run --worker=3: --worker"], id="option"),
    ],
)
def test_name_that_does_not_exist_is_found(text: str, fault: list[str]) -> None:
    assert faults(text) == fault


def test_terms_of_the_guide_are_in_the_glossary() -> None:
    glossary = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    used = {term: path.name for path in (ROOT / "docs/guide").glob("*.md") for term in TERM.findall(path.read_text())}
    assert used
    assert {term: page for term, page in used.items() if term not in glossary} == {}
