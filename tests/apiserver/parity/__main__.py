"""`make parity`: asks the embedded server what the corpus asks, and a real one where there is one.

Prints the share of rows by area, and the rows that differ.
"""

import asyncio
import os
import sys
import time
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from kcr.clock import SystemClock
from tests.apiserver.parity import corpus, page, upstream
from tests.apiserver.parity.answers import shortened
from tests.apiserver.parity.corpus import Entry, answers_of, entries
from tests.apiserver.parity.servers import embedded, real
from tests.chaos.fuzz_jobs.control_plane import find_program

# Its answers are written by a controller.
CHECKED = "cel-type-checking"


@click.command()
@click.option("--area", multiple=True, help="Only rows of this area.")
@click.option("--row", multiple=True, help="Only rows whose key, `area/section/row`, has this text.")
@click.option("--record", is_flag=True, help="Write the answers of the real server into the corpus.")
@click.option("--known", is_flag=True, help="Write which rows differ into known.yaml.")
def main(area: tuple[str, ...], row: tuple[str, ...], *, record: bool, known: bool) -> None:
    """Compare the embedded server with a real one, or with its recorded answers."""
    asked = {
        key: entry for key, entry in entries().items()
        if (not area or entry.area in area) and (not row or any(text in key for text in row))
    }  # fmt: skip
    sys.exit(asyncio.run(_run(asked, record=record, known=known)))


async def _run(asked: Mapping[str, Entry], *, record: bool, known: bool) -> int:
    async with real() as send:
        truth = None if send is None else await _timed("kube-apiserver", answers_of(send, _askable(asked)))
        if record and send is not None:
            _, version = await send("GET", "/version", None)
    if record:
        if truth is None:
            print("parity: --record needs a real server; KUBEBUILDER_ASSETS names none", file=sys.stderr)
            return 2
        corpus.record(truth)
        _keep(server=version["gitVersion"].lstrip("v").partition("-")[0], go=version["goVersion"], date=_today())
        asked = {key: entry for key, entry in entries().items() if key in asked}
    changed = [] if truth is None else corpus.differing({key: asked[key] for key in truth}, truth)
    for key in changed:
        assert truth is not None
        print(f"{key}\n    recorded: {shortened(asked[key].answer, 2000)}\n    is now:   {shortened(truth[key], 2000)}")
    async with embedded() as send:
        ours = await _timed("kcr", answers_of(send, asked))
    differing = corpus.differing(asked, ours)
    for key in differing:
        print(f"{key}\n    kube-apiserver: {shortened(asked[key].answer, 2000)}")
        print(f"    kcr:            {shortened(ours[key], 2000)}")
    if known:
        corpus.write_known(differing, asked)
    _tell_upstream()
    page.PAGE.write_text(page.page(corpus.entries()), encoding="utf-8")
    return _tell(asked, differing) or int(bool(changed))


def _askable(asked: Mapping[str, Entry]) -> Mapping[str, Entry]:
    """Return the rows that a real server can be asked: a controller of its own checks the types of policies."""
    if find_program() is not None:
        return asked
    print(
        f"parity: without kube-controller-manager, the area {CHECKED} is not asked on the real server", file=sys.stderr
    )
    return {key: entry for key, entry in asked.items() if entry.area != CHECKED}


def _today() -> str:
    return f"{SystemClock().now():%Y-%m-%d}"


def _keep(**found: Any) -> None:
    page.write_recorded(msgspec.structs.replace(page.recorded(), **found))


def _tell_upstream() -> None:
    """Print how many rules of upstream's own table agree, where there is a checkout with it."""
    source = os.environ.get(upstream.VARIABLE)
    if not source:
        return
    rows = upstream.rows(Path(source))
    differing = [(row, why) for row in rows if (why := upstream.difference(row))]
    for row, why in differing:
        print(f"upstream/{row.name}/{row.rule}\n    {shortened(why, 2000)}")
    print(f"upstream's own table: {len(rows) - len(differing)} of {len(rows)} alike")
    _keep(upstream_rows=len(rows), upstream_alike=len(rows) - len(differing))


def _tell(asked: Mapping[str, Entry], differing: list[str]) -> int:
    """Print the share of each area, and what the list of known differences has not or has wrongly."""
    reasons = corpus.known()
    for area in corpus.areas(asked):
        keys = [key for key, entry in asked.items() if entry.area == area]
        alike = len(set(keys) - set(differing))
        print(f"{area}: {alike} of {len(keys)} alike, {alike / len(keys):.1%}")
    unknown = [key for key in differing if key not in reasons]
    mended = [key for key in asked if key in reasons and key not in differing]
    print(f"{len(asked) - len(differing)} of {len(asked)} alike, {1 - len(differing) / len(asked):.1%}")
    print(f"{len(unknown)} of the others are not in known.yaml")
    for key in mended:
        print(f"in known.yaml, and alike: {key}")
    return int(bool(unknown or mended))


async def _timed(name: str, answers: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    begun = time.perf_counter()
    found = await answers
    print(f"{name}: {len(found)} answers in {time.perf_counter() - begun:.1f} s", file=sys.stderr)
    return found


if __name__ == "__main__":
    main()
