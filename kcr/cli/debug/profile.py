"""Collapsed stacks, one a line with a count: which functions they spend their time in."""

from collections import Counter
from typing import NamedTuple

from kcr.debug.profiler import IDLE

# So many functions are shown.
_TOP = 10


class Share(NamedTuple):
    """How much of a profile a function has.

    Attributes:
        function: The function, as the stacks have it.
        own: The samples in which it is the innermost.
        total: Those in which it is at all.
    """

    function: str
    own: int
    total: int


def shares_of(collapsed: str) -> tuple[int, list[Share]]:
    """Return how many samples collapsed stacks have, and the functions, those with most samples of their own first.

    Args:
        collapsed: Lines `a;b;c 12`, as flame graphs are made of; others are passed over.
    """
    own, total = Counter[str](), Counter[str]()
    for line in collapsed.splitlines():
        stack, _, count = line.rpartition(" ")
        if not stack or not count.isdecimal():
            continue
        frames = stack.split(";")
        own[frames[-1]] += int(count)
        # A recursive function counts once.
        for frame in set(frames):
            total[frame] += int(count)
    shares = [Share(function, own[function], samples) for function, samples in total.items()]
    return sum(own.values()), sorted(shares, key=lambda share: (-share.own, -share.total, share.function))


def table_of(collapsed: str) -> list[str]:
    """Return the functions with most samples as lines of a table."""
    samples, shares = shares_of(collapsed)
    if not samples:
        return ["no samples: the profile is empty"]
    idle = sum(share.own for share in shares if share.function == IDLE)
    if idle == samples:
        return [f"{samples} samples, all of them idle: the event loop had nothing to do"]
    shown = [share for share in shares if share.own and share.function != IDLE][:_TOP]
    lines = [f"{share.own / samples:>6.1%} {share.total / samples:>7.1%}  {share.function}" for share in shown]
    waited = f", {idle / samples:.1%} of them idle" if idle else ""
    return [f"{samples} samples{waited}", f"{'OWN':>6} {'TOTAL':>7}  FUNCTION", *lines]
