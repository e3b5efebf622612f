"""The card as one table, and docs/reliability.md, which is made from it."""

import os
import platform
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from kcr.clock import SystemClock
from tests.chaos.card import planted, rows
from tests.chaos.card.fence_gap import measure
from tests.chaos.card.results import Card
from tests.chaos.card.upstream import DEFECTS

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "reliability.md"
TEMPLATE = Path(__file__).with_name("reliability.md")


def text(card: Card) -> str:
    """Return the table, in Markdown."""
    lines = ["| part | entry | times | violations |", "|---|---|---:|---:|"]
    lines += (f"| {part} | {entry} | {times} | {violations} |" for part, entry, times, violations in _entries(card))
    return "\n".join(lines)


def _entries(card: Card) -> Iterator[tuple[str, str, str, str]]:
    yield "total", "stories", f"{card.stories:,}", f"{len(card.broken):,}"
    yield "total", "faults met", f"{card.faults.total():,}", ""
    yield "total", "checks of laws", f"{card.laws.total():,}", f"{card.violations.total():,}"
    yield "total", "informer events compared with a model", f"{card.compared['events']:,}", _of_informers(card)
    for name, count in card.violations_by_name().items():
        yield "violation", name, "", f"{count:,}"
    for name, row in rows.ROWS.items():
        times = f"{card.by_row[name]:,}" + (f" of {card.whole[name]:,}" if row.all is not None else "")
        yield "story", f"{row.title} (`{name}`)", times, f"{card.broken_rows[name]:,}"
    for fault, count in sorted(card.faults.items()):
        if count:
            yield "fault", fault, f"{count:,}", ""
    for law in sorted({*card.laws, *card.violations}):
        yield "law", f"`{law}`", f"{card.laws[law]:,}", f"{card.violations[law]:,}"
    broken = {one.defect.name: one.broken for one in planted.PLANTED}
    for found in card.found:
        where = f"found by `{found.law}` in `{found.story}`" if found.story else f"NOT FOUND by `{found.law}`"
        yield "planted defect", f"`{found.name}`: {broken[found.name]}; {where}", "1", "" if found.story else "1"
    for known in DEFECTS:
        yield "defect of upstream", f"{known.what}; {known.here}", "", "absent"


def _of_informers(card: Card) -> str:
    return f"{card.violations_by_name()['lost events of informers']:,}"


def write(card: Card) -> None:
    """Write the page with the figures of a run."""
    page = TEMPLATE.read_text(encoding="utf-8")
    found = sum(bool(one.story) for one in card.found)
    facts = {
        "VERSION": version("kcr"),
        "CORES": str(os.cpu_count()),
        "WORKERS": str(card.workers),
        "PYTHON": platform.python_version(),
        "SYSTEM": f"{platform.system()} on {platform.machine()}",
        "DATE": SystemClock().now().strftime("%Y-%m-%d"),
        "MINUTES": f"{card.seconds / 60:.0f}",
        "STORIES": f"{card.stories:,}",
        "EVENTS": f"{card.compared['events']:,}",
        "VIOLATIONS": f"{len(card.broken):,}",
        "FOUND": f"{found} of {len(card.found)}",
        "GAP": str(measure()),
        "TABLE": text(card),
    }
    for name, value in facts.items():
        page = page.replace(f"{{{name}}}", value)
    PAGE.write_text(page, encoding="utf-8")
