"""The budgets of kcr, each of which one of four commands prints beside its figure; all but `shards` need no options.

| row | command |
|---|---|
| create to Complete, throughput, CPU and requests, beside kube-controller-manager | `kcm` |
| CPU of a create through the client, beside aiohttp alone | `kcm` |
| watch events per CPU second | `kcm` |
| four replicas with eight shards, beside a single one | `kcm` |
| memory: idle, after Jobs that are gone, per cached pod, beside kube-controller-manager | `memory` |
| ready after start, without pods and with 20,000 | `memory` |
| modules that `FakeManager` imports, size of the wheel | `memory` |
| silent and slow connections, and health checks of TCP, to each port | `ports` |
| `make test` within four minutes | `time make test`, alone on two cores |
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import NamedTuple

UPSTREAM, OURS = "kube-controller-manager", "kcr"

Figures = Mapping[str, float]


class Budget(NamedTuple):
    """What kcr may need, or has to reach.

    Attributes:
        limit: As a part of the figure of `beside`, or the figure itself.
        is_floor: Whether it is the least.
        is_ratio: Whether it is a part of another's figure.
        beside: Whose figure that is.
    """

    limit: float
    is_floor: bool = False
    is_ratio: bool = True
    beside: str = UPSTREAM

    def verdict(self, figure: float | None) -> str:
        """Return the budget in words, beside the figure or the ratio that it is for; None where there is no other."""
        bound = f"budget {'at least' if self.is_floor else 'at most'} {self.limit:,g}{' x' if self.is_ratio else ''}"
        if figure is None:
            return f"{bound} {self.beside}'s: not judged without it"
        held = figure >= self.limit if self.is_floor else figure <= self.limit
        return f"{bound}{'' if held else ': MISSED'}"


def rows(
    budgets: Mapping[str, Budget], ours: Sequence[Figures], others: Sequence[Figures], *, shown: Sequence[str] = ()
) -> Iterator[str]:
    """Yield a row for each figure: the medians of both, their ratio, and the budget.

    Args:
        budgets: The budgets of figures.
        ours: What each round has shown of kcr.
        others: The same of whom it is compared with, which may lack figures; empty when there is none.
        shown: The figures; those with budgets by default.
    """
    for what in shown or budgets:
        mine, budget = median(found[what] for found in ours), budgets.get(what)
        has_theirs = any(what in found for found in others)
        theirs = median(found[what] for found in others) if has_theirs else None
        row, judged = f"  {what:<34} {mine:>12,.2f}", mine if budget is None or not budget.is_ratio else None
        if theirs is not None:
            row += f" {theirs:>12,.2f} {mine / theirs:>8.3f} x"
            judged = mine / theirs if judged is None else judged
        yield row if budget is None else f"{row}   {budget.verdict(judged)}"


def show(
    budgets: Mapping[str, Budget],
    ours: Sequence[Figures],
    others: Sequence[Figures] = (),
    *,
    shown: Sequence[str] = (),
    is_small: bool = False,
) -> None:
    """Print the rows; small loads are not judged."""
    judged = {} if is_small else budgets
    print("\n".join(rows(judged, ours, others, shown=shown or list(budgets))), flush=True)


def measured_apart(name: str, size: int) -> dict[str, float]:
    """Return the figures of `python -m bench NAME`, measured in a process of its own."""
    command = [sys.executable, "-m", "bench", name, "--here", str(size)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=900)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures
