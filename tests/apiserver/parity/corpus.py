"""The corpus: rows of all files, by their keys, and what is known to differ.

A row is one line of its file, so that recording its answer changes this line alone.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.apiserver.parity import expressions, requests
from tests.apiserver.parity.answers import alike
from tests.apiserver.parity.servers import Send

FOLDER = Path(__file__).parent
KNOWN = FOLDER / "known.yaml"
_ROW = "  - {"


class Entry(NamedTuple):
    """A row of the corpus.

    Attributes:
        area: What it is about.
        case: What is asked.
    """

    area: str
    case: expressions.Case | requests.Case

    @property
    def answer(self) -> Any:
        """What a real server answered, None where that is not recorded yet."""
        return self.case.recorded


def entries(area: str = "") -> dict[str, Entry]:
    """Return the rows by their keys, `area/section/row`: all of them, or those of an area."""
    found: dict[str, Entry] = {}
    for file in chain(expressions.FOLDER.rglob("*.yaml"), requests.FOLDER.rglob("*.yaml")):
        for key, entry in _entries(file) if area in ("", _area_of(file)) else ():
            assert key not in found, f"{file}: two rows are named {key}"
            found[key] = entry
    return dict(sorted(found.items(), key=lambda item: item[1].area))


def _area_of(file: Path) -> str:
    """Return the area of a file; it is named as that, or lies in a folder that is."""
    return file.parent.name if file.parent.parent.parent == FOLDER else file.stem


def _entries(file: Path) -> Iterator[tuple[str, Entry]]:
    """Yield the rows of a file in their order."""
    area = _area_of(file)
    form = expressions if expressions.FOLDER in file.parents else requests
    for section, name, case in form.cases(file):
        yield f"{area}/{section}/{name}", Entry(area, case)


def known() -> dict[str, str]:
    """Return the reasons of rows that are known to differ, by their keys."""
    return dict(yaml.load(KNOWN.read_text(encoding="utf-8"), yaml.CSafeLoader) or ())


def write_known(differing: Iterable[str], asked: Iterable[str]) -> None:
    """Write which rows differ; of those asked, the ones that agree are dropped, and new ones are to be mended.

    Args:
        differing: Keys of the rows that differ.
        asked: Keys of all rows that were asked.
    """
    reasons = known()
    left = {key: reason for key, reason in reasons.items() if key not in set(asked)}
    left |= {key: reasons.get(key, "to be mended") for key in differing}
    lines = [f"- {dumped([key, left[key]])}" for key in entries() if key in left]
    head = [line for line in KNOWN.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    KNOWN.write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")


async def answers_of(send: Send, asked: Mapping[str, Entry]) -> dict[str, Any]:
    """Return how a server answers rows, by their keys."""
    rules = {key: entry.case for key, entry in asked.items() if isinstance(entry.case, expressions.Case)}
    others = {key: entry.case for key, entry in asked.items() if isinstance(entry.case, requests.Case)}
    return await expressions.answers_of(send, rules) | await requests.answers_of(send, others)


def differing(asked: Mapping[str, Entry], answers: Mapping[str, Any]) -> list[str]:
    """Return the keys of rows whose answer is not the recorded one."""
    return [key for key, entry in asked.items() if not alike(entry.answer, answers[key])]


def record(answers: Mapping[str, Any]) -> None:
    """Write answers into the rows of the files."""
    for file in chain(expressions.FOLDER.rglob("*.yaml"), requests.FOLDER.rglob("*.yaml")):
        keys = [key for key, _ in _entries(file)]
        lines = file.read_text(encoding="utf-8").split("\n")
        places = list(_rows(lines))
        assert len(places) == len(keys), f"{file}: each row is one line that begins with {_ROW!r}"
        for place, key in zip(places, keys, strict=True):
            lines[place] = _with(lines[place], answers.get(key))
        file.write_text("\n".join(lines), encoding="utf-8")


def _rows(lines: Iterable[str]) -> Iterator[int]:
    """Yield which lines of a file are rows."""
    inside = False
    for place, line in enumerate(lines):
        if line.startswith(_ROW) and inside:
            yield place
        elif re.match(r"(?:  |- )\w", line):
            inside = line == "  rows:"


def _with(line: str, answer: Any) -> str:
    """Return the line of a row with an answer; what an answer shows, it has itself."""
    if answer is None:
        return line
    row = yaml.load(line.removeprefix("  - "), yaml.CSafeLoader)
    if isinstance(answer, dict) and "code" not in answer:
        row.pop("show", None)
    row.pop("answer", None)
    return f"  - {dumped(row | {'answer': answer})}"


def dumped(value: Any) -> str:
    """Return a value as one line of YAML."""
    text = yaml.dump(
        value, Dumper=_Dumper, default_flow_style=True, allow_unicode=True, sort_keys=False, width=float("inf")
    )
    return text.removesuffix("...\n").strip()


class _Dumper(yaml.SafeDumper):
    """Writes what occurs twice twice, and line breaks as escapes."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_str(self, data: str) -> yaml.ScalarNode:
        style = '"' if len(f"{data}.".splitlines()) > 1 else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Dumper.add_representer(str, _Dumper.represent_str)


def areas(asked: Mapping[str, Entry]) -> list[str]:
    """Return the areas, each once."""
    return list(dict.fromkeys(entry.area for entry in asked.values()))
