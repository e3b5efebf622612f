"""The corpus: rows of all files, by their keys, and what is known to differ.

A row is one line of its file, so that recording its answer changes this line alone.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml

from tests.apiserver.parity import expressions
from tests.apiserver.parity.servers import Send

FOLDER = Path(__file__).parent
KNOWN = FOLDER / "known.yaml"
_ROW = "  - {"


class Entry(NamedTuple):
    """A row of the corpus.

    Attributes:
        area: What it is about: the name of its file.
        case: What is asked.
        answer: What a real server answered.
    """

    area: str
    case: expressions.Case
    answer: Any


def entries() -> dict[str, Entry]:
    """Return the rows by their keys, `area/section/row`."""
    found: dict[str, Entry] = {}
    for file in sorted(FOLDER.glob("expressions/*.yaml")):
        for section in msgspec.yaml.decode(file.read_bytes(), type=list[expressions.Section]):
            for row in section.rows:
                key = f"{file.stem}/{section.name}/{_name(row)}"
                assert key not in found, f"{file}: two rows are named {key}"
                found[key] = Entry(file.stem, expressions.case_of(section, row), row.answer)
    return found


def _name(row: expressions.Row) -> str:
    rule = row.rule["rule"] if isinstance(row.rule, dict) else row.rule
    assert row.name or rule
    return row.name or str(rule)


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
    return await expressions.answers_of(send, {key: entry.case for key, entry in asked.items()})


def record(answers: Mapping[str, Any]) -> None:
    """Write answers into the rows of the files."""
    for file in sorted(FOLDER.glob("expressions/*.yaml")):
        text = file.read_text(encoding="utf-8")
        sections = msgspec.yaml.decode(text.encode(), type=list[expressions.Section])
        keys = (f"{file.stem}/{section.name}/{_name(row)}" for section in sections for row in section.rows)
        lines = [_with(line, answers.get(next(keys))) if line.startswith(_ROW) else line for line in text.split("\n")]
        assert next(keys, None) is None, f"{file}: each row is one line that begins with {_ROW!r}"
        file.write_text("\n".join(lines), encoding="utf-8")


def _with(line: str, answer: Any) -> str:
    if answer is None:
        return line
    row = yaml.load(line.removeprefix("  - "), yaml.CSafeLoader) | {"answer": answer}
    return f"  - {dumped(row)}"


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
