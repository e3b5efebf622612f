"""Mutation testing: changes one place of the code at a time, and looks whether a test notices.

    KCR_MUTANTS=215 KCR_MUTATE_SEED=0 KCR_MUTATE_JOBS=1 make mutate

A sample is drawn by a seed, of each kind of change as many, over all modules of the library, the plugins and the API
server; the same mutants are drawn again as long as their own code stays. The tests that call a changed function run in
a copy of the project, the nearest first, for `KCR_MUTATE_SECONDS` at most. At first all tests run once: that tells
which calls what, and is kept in `dist/mutate` for each file of tests until it changes; `make clean` forgets it.
`KCR_MUTATE_ONLY=text` runs only mutants whose identity has the text.

The exit code is 1 when less than 92 % of the mutants are killed. Survivors are listed, with the verdict that
`verdicts.toml` has about them.
"""

import difflib
import hashlib
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tools.mutate import coverage, verdicts
from tools.mutate.copies import ROOT, Copy, Outcome
from tools.mutate.coverage import Recorded
from tools.mutate.mutations import Mutant, is_valid, mutants
from tools.mutate.nearest import NearestTests, test_sources
from tools.mutate.verdicts import Report

MUTANTS = int(os.environ.get("KCR_MUTANTS", "215"))
SEED = os.environ.get("KCR_MUTATE_SEED", "0")
JOBS = int(os.environ.get("KCR_MUTATE_JOBS", "1"))
SECONDS = float(os.environ.get("KCR_MUTATE_SECONDS", "600"))
ONLY = os.environ.get("KCR_MUTATE_ONLY", "")
ASKED = 0.92
_KEPT = ROOT / "dist" / "mutate"
# End-to-end tests start processes of their own, which cannot be traced; the tests of documents are about no function.
_RECORDED = ("tests/unit", "tests/apiserver", "tests/controllers", "tests/runtime", "examples")


def modules() -> list[Path]:
    """Return the modules that are changed: all but those that a script makes."""
    # The plugins' folders are links in kcr/controllers.
    return [
        path
        for package in coverage.PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if not path.is_relative_to(ROOT / "kcr/controllers") and not path.read_text().startswith("# Made by `")
    ]


def sample(count: int, seed: str, paths: Iterable[Path]) -> list[Mutant]:
    """Draw mutants, of each kind as many: those whose identity has the lowest hashes, so they are the same again."""
    kinds: dict[str, list[Mutant]] = defaultdict(list)
    for path in paths:
        for one in mutants(path.relative_to(ROOT).as_posix(), path.read_bytes()):
            kinds[one.kind].append(one)
    found: list[Mutant] = []
    for place, kind in enumerate(sorted(kinds)):
        wanted = count // len(kinds) + (place < count % len(kinds))
        ranked = sorted(kinds[kind], key=lambda one: hashlib.sha256(f"{seed} {one.identity}".encode()).digest())
        valid = (one for one in ranked if is_valid(one, (ROOT / one.path).read_bytes()))
        found += [one for one, _ in zip(valid, range(wanted), strict=False)]
    return sorted(found)


def record(folder: Path) -> NearestTests:
    """Return what the tests call; run those of which it is not known, in a copy of the project at `folder`."""
    _KEPT.mkdir(parents=True, exist_ok=True)
    sources = {file: text for file, text in test_sources(ROOT).items() if file.startswith(_RECORDED)}
    digests = {file: coverage.digest(ROOT / file) for file in sources}
    known = _valid(digests)
    missing = sorted(sources.keys() - {one.test.partition("::")[0] for one in known})
    if missing:
        print(f"mutate: runs the tests of {len(missing)} files, to see what they call", flush=True)
        copy = Copy(folder)
        for path in modules():
            name = path.relative_to(ROOT).as_posix()
            (copy.tree / name).write_bytes(coverage.noting(name, path.read_bytes()))
        (copy.tree / "sitecustomize.py").write_text(coverage.SITE)
        arguments = [
            "-q",
            "-n",
            str(JOBS),
            "--dist",
            "worksteal",
            "--timeout",
            "0",
            "-p",
            "tools.mutate.coverage",
            "-m",
            "not soak",
            *missing,
        ]
        copy.pytest(arguments, None, **{coverage.FOLDER: str(_KEPT)})
        known = _valid(digests)
    return NearestTests(known, sources, SECONDS)


def _valid(digests: dict[str, str]) -> list[Recorded]:
    return [one for one in coverage.read(_KEPT) if one.digest == digests.get(one.test.partition("::")[0])]


def run(drawn: Sequence[Mutant], folder: Path) -> Iterator[tuple[Mutant, Outcome]]:
    """Run the tests of all mutants, in as many copies as there are jobs."""
    nearest = record(folder / "noting")
    copies: SimpleQueue[Copy] = SimpleQueue()
    for number in range(JOBS):
        copies.put(Copy(folder / str(number)))

    def test(mutant: Mutant) -> Outcome:
        copy = copies.get()
        try:
            return copy.test(mutant, nearest.of(mutant), limit=2 * SECONDS + 60)
        finally:
            copies.put(copy)

    with ThreadPoolExecutor(JOBS) as threads:
        yield from zip(drawn, threads.map(test, drawn), strict=True)


def difference(mutant: Mutant) -> str:
    """Return the change as a diff."""
    source = (ROOT / mutant.path).read_bytes()
    before, after = (text.decode().splitlines() for text in (source, mutant.apply(source)))
    return "\n".join(list(difflib.unified_diff(before, after, n=1, lineterm=""))[2:])


def place(mutant: Mutant) -> str:
    """Return file and line of a change."""
    line = (ROOT / mutant.path).read_bytes()[: mutant.start].count(b"\n") + 1
    return f"{mutant.path}:{line}"


def text_of(report: Report) -> str:
    """Return the share, and the survivors with their diffs."""
    lines = []
    for one in sorted(report.survivors, key=lambda one: one.identity in report.verdicts):
        judged = report.verdicts.get(one.identity)
        verdict = f"{judged.verdict}: {judged.reason}" if judged else "open"
        lines += ["", f"{place(one)} {verdict}", one.identity, difference(one)]
    total = report.killed + len(report.survivors)
    lines += ["", f"{report.killed} of {total} mutants are killed: {report.share:.1%}; {ASKED:.0%} are asked"]
    lines += [f"{len(report.survivors)} survive, of which {len(report.open)} have no verdict"]
    return "\n".join(lines)


def main() -> int:
    """Run the sample, and print what came of it."""
    drawn = [one for one in sample(MUTANTS, SEED, modules()) if ONLY in one.identity]
    survivors = []
    with tempfile.TemporaryDirectory(prefix="kcr-mutate-") as folder:
        for number, (mutant, outcome) in enumerate(run(drawn, Path(folder)), start=1):
            fate = f"killed by {outcome.killed_by}" if outcome.killed_by else "SURVIVES"
            head = f"{number}/{len(drawn)} {place(mutant)} {outcome.seconds:.0f} s, {outcome.tests} tests"
            print(f"{head}: {mutant.identity}: {fate}", flush=True)
            if not outcome.killed_by:
                survivors.append(mutant)
    report = Report(len(drawn) - len(survivors), survivors, verdicts.read())
    print(text_of(report))
    return 0 if report.share >= ASKED else 1


if __name__ == "__main__":
    sys.exit(main())
