"""Figures beside their budgets, as the benchmarks print them."""

import pytest

pytest.importorskip("psutil", reason="of the extra bench")

from bench.budgets import Budget, rows
from bench.jobs import CPU, PER_POD
from bench.kcm import PEAK, RATE, SHOWN

BUDGETS = {CPU: Budget(0.95), RATE: Budget(1.05, is_floor=True), PER_POD: Budget(6.5, is_ratio=False)}


def found(**figures: float) -> dict[str, float]:
    return dict.fromkeys(SHOWN, 1.0) | {
        {"cpu": CPU, "rate": RATE, "requests": PER_POD}[k]: v for k, v in figures.items()
    }


def row(what: str, *lists: list[dict[str, float]]) -> str:
    return next(line for line in rows(BUDGETS, *lists, shown=SHOWN) if line.strip().startswith(what))


def test_row_has_the_medians_their_ratio_and_the_budget() -> None:
    ours, upstream = [found(cpu=3.0), found(cpu=9.0), found(cpu=2.7)], [found(cpu=4.0)]
    assert row(CPU, ours, upstream).split() == [
        *CPU.split(),
        "3.00",
        "4.00",
        "0.750",
        "x",
        "budget",
        "at",
        "most",
        "0.95",
        "x",
    ]


def test_missed_budget_is_marked_as_such() -> None:
    assert row(RATE, [found(rate=100.0)], [found(rate=100.0)]).endswith("budget at least 1.05 x: MISSED")
    assert row(PER_POD, [found(requests=7.0)], [found(requests=7.0)]).endswith("budget at most 6.5: MISSED")
    assert row(PER_POD, [found(requests=6.5)], [found(requests=7.0)]).endswith("budget at most 6.5")


def test_ratio_without_the_other_controller_shows_its_budget_and_is_not_judged() -> None:
    assert row(CPU, [found(cpu=3.0)], []).endswith(
        " 3.00   budget at most 0.95 x kube-controller-manager's: not judged without it"
    )
    assert row(PER_POD, [found(requests=7.0)], []).endswith("budget at most 6.5: MISSED")


def test_figure_that_the_other_does_not_have_stands_alone() -> None:
    upstream = {what: 1.0 for what in SHOWN if what != PER_POD}
    assert row(PER_POD, [found(requests=6.0)], [upstream]).split()[-5:] == ["6.00", "budget", "at", "most", "6.5"]


def test_figure_without_a_budget_is_not_judged() -> None:
    assert "budget" not in row(PEAK, [found()], [found()])
