"""Fits an explanation on one screen: 24 lines of 100 columns, however long the messages of servers and pods."""

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from kcr.api.core import Event
from kcr.log.lines import printable

# A terminal's lines, and columns that fit beside another window.
LINES, COLUMNS = 24, 100
_TITLE = 12
# So many lines of one text; `-o json` has the whole.
_MOST_LINES = 4
# The parts that are cut to one line, and those that are left out, in this order, when there are too many lines.
_EVIDENCE = ("events", "conditions")
_EXPENDABLE = (*_EVIDENCE, "why", "controller", "next", "remedy")
# A command to be copied, at the end of a text.
_COMMAND = re.compile(r"(?<=: )(?:kubectl|kcr) .*$")
# The end that the server gives to a generated name.
_GENERATED = re.compile(r"-[a-z0-9]{5}\b")


def fitted(headline: str, rows: Sequence[tuple[str, Iterable[str]]]) -> Iterator[str]:
    """Yield a headline and rows of texts with titles, as lines that fit one screen.

    Commands are never broken, so that they can be copied; those that are longer than a line are lines of their own.
    Control characters are escaped, for others write the messages and a terminal would obey them.
    When there are too many lines, the oldest events are left out first, then conditions and the last reasons.

    Args:
        headline: The first line.
        rows: Titles, each with its texts.
    """
    texts = {title: [_wrapped(printable(text), title) for text in found] for title, found in rows}
    first = textwrap.wrap(printable(headline), COLUMNS, subsequent_indent="  ", max_lines=_MOST_LINES, placeholder=" …")
    while len(first) + sum(len(_flat(found)) for found in texts.values()) > LINES:
        title = next((title for title in _EXPENDABLE if len(texts.get(title, ())) > 1), None)
        if title is None:
            break
        texts[title].pop(0 if title in _EVIDENCE else -1)
    yield from first
    for title, found in texts.items():
        for number, line in enumerate(_flat(found)):
            yield f"  {'' if number else title:<{_TITLE}}{line}"


def is_part_of(text: str, texts: Iterable[str]) -> bool:
    """Return whether a text is a part of one of these, apart from white space and the ends of generated names."""
    part = _GENERATED.sub("", " ".join(text.split()))
    return bool(part) and any(part in _GENERATED.sub("", " ".join(one.split())) for one in texts)


def condensed(events: Sequence[Event]) -> tuple[Event, ...]:
    """Return events in their order, of warnings that differ in a generated name alone only the last, which counts all.

    Args:
        events: Those about one object, the latest last.
    """
    found: dict[object, Event] = {}
    for event in events:
        same = (event.type, event.reason, _GENERATED.sub("", event.message))
        key = same if event.type == "Warning" else event.metadata.name
        before = found.pop(key, None)
        if before is not None:
            count = event.times + before.times
            series = None if event.series is None else msgspec.structs.replace(event.series, count=count)
            event = msgspec.structs.replace(event, count=count, series=series)  # noqa: PLW2901  # with the count of both
        found[key] = event
    return tuple(found.values())


def _flat(texts: Iterable[Iterable[str]]) -> list[str]:
    return [line for text in texts for line in text]


def _wrapped(text: str, title: str) -> list[str]:
    """Return the lines of a text, those after the first indented."""
    width = COLUMNS - 2 - _TITLE
    if title in _EVIDENCE:
        return [text if len(text) <= width else f"{text[: width - 1].rstrip()}…"]
    text = " ".join(text.split())
    command = _COMMAND.search(text) if title == "remedy" else None
    if len(text) <= width or command is None:
        return textwrap.wrap(
            text, width, subsequent_indent="  ", max_lines=_MOST_LINES, placeholder=" …", break_on_hyphens=False
        )
    before = textwrap.wrap(text[: command.start()], width, subsequent_indent="  ", break_on_hyphens=False)
    # A shell continues with the next line after `&&` and `|`.
    parts = command[0].replace(" && ", " &&\n").replace(" | ", " |\n")
    return [*before, *(f"  {part}" for part in parts.split("\n"))]
