"""What a rehearsal shows: tables, one JSON object, or a page."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Any, NamedTuple

from kcr.cli.output import table
from kcr_devcluster.rehearsal.comparison import BREAKING, Condition, Difference
from kcr_devcluster.rehearsal.snapshot_file import Head
from kcr_devcluster.rehearsal.versions import Outcome

# How many objects of a group are named in tables; JSON has all.
_NAMED = 3
_MOST_FAILING = 10
_LONGEST = 60
_WITH_DATA = ("configmaps", "secrets")
_REFUSED = ("verb", "resource", "code", "old", "new")
_MINUTE, _HOUR = 60.0, 3600.0
_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; color-scheme: light dark }
table { border-collapse: collapse; margin-bottom: 2em } th, td { text-align: left; padding: .2em 1em .2em 0; border-bottom: 1px solid #8884 }
td.number { text-align: right } tr.bad td { color: #c33 } td { overflow-wrap: anywhere }
""".strip()  # noqa: E501  # a style sheet


class Rate(NamedTuple):
    """The requests of one verb and resource.

    Attributes:
        verb: The verb.
        resource: The resource, such as `jobs.batch/status`.
        old_start: How many the old version sends in its first minute.
        new_start: How many the new one does.
        old_per_hour: How many the old version sends in an hour after that.
        new_per_hour: How many the new one does.
    """

    verb: str
    resource: str
    old_start: int
    new_start: int
    old_per_hour: float
    new_per_hour: float


class Report(NamedTuple):
    """The result of a rehearsal.

    Attributes:
        head: The snapshot's first line.
        seconds: How long the versions ran, in virtual time.
        paths: Their environments, the old one first.
        outcomes: What came of them.
        differences: What the new one does otherwise.
        conditions: The conditions of the objects at the end.
    """

    head: Head
    seconds: float
    paths: tuple[str, str]
    outcomes: tuple[Outcome, Outcome]
    differences: Sequence[Difference]
    conditions: Sequence[Condition]

    @property
    def breaks(self) -> int:
        """How many objects the new version deletes or replaces that the old one keeps."""
        return sum(one.what in BREAKING for one in self.differences)

    @property
    def rates(self) -> list[Rate]:
        """The requests, by verb and resource."""
        rows: dict[tuple[str, str], list[int]] = {}
        for side, outcome in enumerate(self.outcomes):
            for phase, verb, resource, count in outcome.requests:
                rows.setdefault((resource, verb), [0, 0, 0, 0])[side + (2 if phase == "after" else 0)] += count
        hours = max(0.0, self.seconds - _MINUTE) / _HOUR
        return [
            Rate(verb, resource, *counts[:2], *((count / hours if hours else 0.0) for count in counts[2:]))
            for (resource, verb), counts in sorted(rows.items())
        ]

    @property
    def refused(self) -> list[tuple[str, str, int, int, int]]:
        """Verb, resource and code of requests that were refused, and how many of the old and of the new version."""
        both = [{one[:3]: one[3] for one in outcome.refused} for outcome in self.outcomes]
        return [(*key, both[0].get(key, 0), both[1].get(key, 0)) for key in sorted(both[0].keys() | both[1].keys())]

    @property
    def failing(self) -> list[tuple[str, str, str, str]]:
        """The controllers, keys and errors of reconciles that still fail at the end, old and new."""
        both = [
            {(name, key): text for name, failed in outcome.failing.items() for key, text in failed.items()}
            for outcome in self.outcomes
        ]
        return [(*key, both[0].get(key, ""), both[1].get(key, "")) for key in sorted(both[0].keys() | both[1].keys())]

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        if self.breaks:
            deleted = sum(one.what == "deletes" for one in self.differences)
            replaced = self.breaks - deleted
            replaces = f"{replaced:,} object{'' if replaced == 1 else 's'}"
            return f"the new version deletes {deleted:,} and replaces {replaces} that the old one keeps"
        rest = len({(one.kind, one.object) for one in self.differences})
        differ = "1 object differs" if rest == 1 else f"{rest:,} objects differ"
        return f"the new version deletes and replaces nothing that the old one keeps; {differ}"


class _Table(NamedTuple):
    title: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    bad: frozenset[int] = frozenset()


def _tables(report: Report) -> Iterator[_Table]:
    rows = list(_difference_rows(report.differences))
    bad = frozenset(number for number, row in enumerate(rows) if row[0] in BREAKING)
    yield _Table("Differences", ("THE NEW ONE", "KIND", "OBJECTS", "WHAT"), rows, bad)
    failing = [(name, key, _cut(old) or "-", _cut(new) or "-") for name, key, old, new in report.failing]
    yield _Table("Reconciles that fail", ("CONTROLLER", "KEY", "OLD", "NEW"), failing[:_MOST_FAILING])
    rates = [
        (one.verb, one.resource, f"{one.old_start:,}", f"{one.new_start:,}", _number(one.old_per_hour),
         _number(one.new_per_hour))
        for one in report.rates
        # Servers end watches at random moments.
        if one.verb != "watch"
    ]  # fmt: skip
    header = ("REQUEST", "RESOURCE", "OLD, FIRST MINUTE", "NEW, FIRST MINUTE", "OLD, PER HOUR", "NEW, PER HOUR")
    yield _Table("Requests", header, rates)
    refused = [(verb, resource, str(code), f"{old:,}", f"{new:,}") for verb, resource, code, old, new in report.refused]
    yield _Table("Refused requests", ("REQUEST", "RESOURCE", "REFUSED WITH", "OLD", "NEW"), refused)
    found = [
        (one.kind, f"{one.type}={one.status}", one.reason or "-", f"{one.old:,}", f"{one.new:,}")
        for one in report.conditions
        if one.kind != "pods" or one.old != one.new
    ]
    yield _Table("Conditions", ("KIND", "CONDITION", "REASON", "OLD", "NEW"), found)


def _difference_rows(differences: Sequence[Difference]) -> Iterator[tuple[str, ...]]:
    """Yield the differences by kind and field, with some of the objects."""
    for _, group in groupby(sorted(differences, key=_group), key=_group):
        found = list(group)
        first, names = found[0], [one.object for one in found]
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        objects = f"{len(names):,}: {', '.join(names[:_NAMED])}{more}"
        change = f"{first.field}: {_cut(first.old)} → {_cut(first.new)}" if first.field else _WORDS[first.what]
        yield first.what, first.kind, objects, change


_WORDS: Mapping[str, str] = {
    "deletes": "the old one keeps it", "replaces": "the old one keeps it; another one has the name",
    "keeps": "the old one deletes it", "creates": "the old one does not", "lacks": "the old one creates it",
}  # fmt: skip
_ORDER = (*_WORDS, "changes")


def _group(one: Difference) -> tuple[int, str, str]:
    return _ORDER.index(one.what), one.kind, one.field


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def _introduction(report: Report) -> Iterator[str]:
    for name, path, outcome in zip(("old", "new"), report.paths, report.outcomes, strict=True):
        yield f"{name}: {path}, kcr {outcome.kcr}, Python {outcome.python}"
    head = report.head
    hours = f"{report.seconds / _HOUR:g} h" if report.seconds >= _HOUR else f"{report.seconds:g} s"
    start = f"{head.time:%Y-%m-%dT%H:%M:%SZ}"
    yield from (f"left out of the snapshot: {words}" for words in head.left_out)
    hidden = sorted({kind.plural for kind in head.kinds if kind.whole and kind.plural in _WITH_DATA} - {*head.data})
    if hidden:
        data = " and ".join(hidden)
        yield f"hashes stand for the data of {data}, which controllers may write anew: see --include-data"
    names = ", ".join(head.controllers)
    objects = f"{head.count:,} object{'' if head.count == 1 else 's'}"
    yield f"{names}: {hours} of virtual time from {start}, {objects} of {head.server}"


def as_text(report: Report) -> Iterator[str]:
    """Yield the lines of a report for a terminal."""
    yield from _introduction(report)
    for one in _tables(report):
        if one.rows:
            yield ""
            yield from table(one.header, one.rows)
    yield ""
    yield report.verdict


def as_json(report: Report) -> dict[str, Any]:
    """Return a report as JSON."""
    versions = zip(("old", "new"), report.paths, report.outcomes, strict=True)
    return {
        "version": 1,
        "verdict": "breaks" if report.breaks else "compatible",
        "seconds": report.seconds,
        "snapshot": {"time": report.head.time, "server": report.head.server, "objects": report.head.count},
        "versions": {
            name: {"path": path, "kcr": one.kcr, "python": one.python, "failing": one.failing}
            for name, path, one in versions
        },
        "differences": [one._asdict() for one in report.differences],
        "requests": [one._asdict() for one in report.rates],
        "refused": [dict(zip(_REFUSED, one, strict=True)) for one in report.refused],
        "conditions": [one._asdict() for one in report.conditions],
    }


def as_html(report: Report) -> str:
    """Return a report as one page, without scripts and without requests."""
    parts = [f"<p>{escape(line)}</p>" for line in _introduction(report)]
    parts.append(f"<p><strong>{escape(report.verdict)}</strong></p>")
    for one in _tables(report):
        if one.rows:
            head = "".join(f"<th>{escape(cell.capitalize())}</th>" for cell in one.header)
            parts.append(f"<h2>{one.title}</h2><table><tr>{head}</tr>")
            for number, row in enumerate(one.rows):
                cells = "".join(f"<td>{escape(cell)}</td>" for cell in row)
                parts.append(f"<tr{' class=bad' if number in one.bad else ''}>{cells}</tr>")
            parts.append("</table>")
    body = "\n".join(parts)
    title = "Rehearsal of an upgrade"
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title>\n<style>{_STYLE}</style>\n'
        f"<h1>{title}</h1>\n{body}\n</html>\n"
    )
