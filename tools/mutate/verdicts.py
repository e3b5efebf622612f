"""The survivors that were judged: `verdicts.toml` names each, with a verdict and its reason."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tools.mutate.mutations import Mutant

FILE = Path(__file__).with_name("verdicts.toml")
# Equivalent: it behaves the same. Harmless: it behaves otherwise where no contract says how, such as how fast.
# Cosmetic: it changes how something looks to people.
VERDICTS = ("equivalent", "harmless", "cosmetic")


class Verdict(NamedTuple):
    """What was found about a survivor.

    Attributes:
        mutant: Its identity.
        verdict: One of `VERDICTS`.
        reason: Why, in a sentence.
    """

    mutant: str
    verdict: str
    reason: str


class Report(NamedTuple):
    """What came of a sample.

    Attributes:
        killed: How many mutants some test has noticed.
        survivors: The others.
        verdicts: Of survivors, by identity.
    """

    killed: int
    survivors: Sequence[Mutant]
    verdicts: dict[str, Verdict]

    @property
    def share(self) -> float:
        """How many of the mutants were killed, from 0 to 1, whatever the verdicts about the others."""
        return self.killed / max(1, self.killed + len(self.survivors))

    @property
    def open(self) -> list[Mutant]:
        """The survivors without a verdict."""
        return [one for one in self.survivors if one.identity not in self.verdicts]


def read(file: Path = FILE) -> dict[str, Verdict]:
    """Return all verdicts by the identity of the mutant."""
    rows = tomllib.loads(file.read_text()).get("survivor", [])
    return {row["mutant"]: Verdict(**row) for row in rows}
