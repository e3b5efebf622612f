"""Which tests may notice a change: those that call the changed function, the nearest first.

Nearest is the unit test that mirrors the module, then its neighbours, then all others. The code of a module outside of
functions runs when it is imported: there, the tests that call any of its functions, and those that mention the module;
likewise for functions that no test calls.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from tools.mutate.coverage import Recorded
from tools.mutate.mutations import Mutant

_UNIT = PurePosixPath("tests/unit")
_ROOTS = ("devcluster/kcr_devcluster", "kcr", ".")


class NearestTests:
    """The tests of the project, by what they call."""

    def __init__(self, recorded: Iterable[Recorded], sources: dict[str, str], budget: float) -> None:
        """Take what was recorded.

        Args:
            recorded: The tests, and what each has called.
            sources: The text of each file of tests, by its path.
            budget: For how many seconds the tests of one mutant run at most, as they were recorded.
        """
        self._by_function: dict[str, list[Recorded]] = defaultdict(list)
        self._by_file: dict[str, list[Recorded]] = defaultdict(list)
        self._by_module: dict[str, list[Recorded]] = defaultdict(list)
        for one in recorded:
            self._by_file[one.test.partition("::")[0]].append(one)
            for function in one.functions:
                self._by_function[function].append(one)
            for path in {function.partition(":")[0] for function in one.functions}:
                self._by_module[path].append(one)
        self._sources = sources
        self._budget = budget

    def of(self, mutant: Mutant) -> list[str]:
        """Return the ids of the tests to run, in their order."""
        found = self._by_function.get(f"{mutant.path}:{mutant.entry}", [])
        if not found:
            mentioning = (one for file in self._mentioning(mutant.path) for one in self._by_file[file])
            found = list({one.test: one for one in (*self._by_module[mutant.path], *mentioning)}.values())
        near = [one for one in found if _distance(mutant.path, one.test) <= 1]
        return [*self._within(mutant, near), *self._within(mutant, [one for one in found if one not in near])]

    def _within(self, mutant: Mutant, tests: Sequence[Recorded]) -> list[str]:
        """Return the nearest tests for half of the budget: one of each file, then a second, the shortest first."""
        numbers: Counter[str] = Counter()
        ranked = []
        for one in sorted(tests, key=lambda one: one.seconds):
            file = one.test.partition("::")[0]
            numbers[file] += 1
            ranked.append((_distance(mutant.path, file), numbers[file], one.seconds, one.test))
        chosen, spent = list[str](), 0.0
        for _, _, seconds, test in sorted(ranked):
            spent += seconds
            if chosen and spent > self._budget / 2:
                break
            chosen.append(test)
        return chosen

    def _mentioning(self, path: str) -> list[str]:
        module = _module(path)
        names = (module, f"from {module.rpartition('.')[0]} import {module.rpartition('.')[2]}")
        return [
            file
            for file, text in self._sources.items()
            if _distance(path, file) <= 1 or any(name in text for name in names)
        ]


def _module(path: str) -> str:
    """Return the name by which tests import a module."""
    name = path.removeprefix("devcluster/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return f"kcr.{name}" if name.startswith("controllers") else name


def _distance(path: str, test: str) -> int:
    """Return how far a test is from a module: 0 mirrors it, 1 is beside, 2 another unit test, 3 any other."""
    file = PurePosixPath(test.partition("::")[0])
    if not file.is_relative_to(_UNIT):
        return 3
    place = next(PurePosixPath(path).relative_to(root) for root in _ROOTS if PurePosixPath(path).is_relative_to(root))
    folder = _UNIT / place.parent
    if file.parent != folder:
        # A package of few modules is tested by a file of its name.
        return 1 if file == folder.with_name(f"test_{folder.name}.py") else 2
    return 0 if f"{file.stem}_".startswith(f"test_{place.stem}_") else 1


def test_sources(root: Path) -> dict[str, str]:
    """Return the text of each file of tests, by its path."""
    return {
        path.relative_to(root).as_posix(): path.read_text()
        for folder in ("tests", "examples")
        for path in sorted((root / folder).rglob("test_*.py"))
    }
