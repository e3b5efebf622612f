"""Descriptions, from Google-style docstrings: of a class the first paragraph, of a field its entry in `Attributes:`."""

import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cache

_SECTION = re.compile(r"^(Args|Attributes|Example|Examples|Note|Notes|Raises|Returns|Source|Yields):", re.MULTILINE)
_ENTRY = re.compile(r"^ {4}(\w+)(?: \([^)]*\))?: (.*(?:\n(?: {5,}.*| *$))*)", re.MULTILINE)


def summary(kind: type) -> str:
    """Return the first paragraph of a class's own docstring, on one line; empty without one."""
    text = _docstring(kind)
    section = _SECTION.search(text)
    return _line(text[: section.start()] if section else text)


@cache
def attributes(kind: type) -> Mapping[str, str]:
    """Return the descriptions of fields in the docstrings of a class and its bases, by Python name."""
    return {name: _line(text) for base in reversed(kind.__mro__) for name, text in _entries(_docstring(base))}


def _docstring(kind: type) -> str:
    return inspect.cleandoc(kind.__dict__.get("__doc__") or "")


def _entries(text: str) -> Iterator[tuple[str, str]]:
    found = re.search(r"^Attributes:\n", text, re.MULTILINE)
    if found:
        section = text[found.end() :]
        end = _SECTION.search(section)
        yield from _ENTRY.findall(section[: end.start()] if end else section)


def _line(text: str) -> str:
    """Return the first paragraph of a text, on one line."""
    return " ".join(text.strip().partition("\n\n")[0].split())
