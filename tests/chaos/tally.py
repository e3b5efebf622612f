"""Counts of this process: faults that stories met, laws that were checked, events that were compared with a model."""

from collections import Counter
from collections.abc import Callable

# By kind, such as `watch event: delayed`.
FAULTS: Counter[str] = Counter()
# By the name of the law.
LAWS: Counter[str] = Counter()
# `events`: the calls of handlers that were compared with the model of an informer.
COMPARED: Counter[str] = Counter()
# Called with each broken law at the moment at which it breaks, and whether the write that breaks it is under way.
ON_BROKEN: list[Callable[[str, bool], object]] = []
# Laws that only note something for others.
_NO_LAWS = frozenset({"note"})


def checked(law: str, times: int = 1) -> None:
    """Count checks of a law."""
    if law not in _NO_LAWS:
        LAWS[law] += times


def met(fault: str) -> None:
    """Count a fault that a story met."""
    FAULTS[fault] += 1


def broken(wrong: str, *, amid_write: bool = False) -> None:
    """Report that a law was broken.

    Args:
        wrong: The name of the law, and what was seen.
        amid_write: Whether this is called while the server makes the change that breaks it, before it answers.
    """
    for call in ON_BROKEN:
        call(wrong, amid_write)


def clear() -> None:
    """Count from the beginning."""
    for counter in (FAULTS, LAWS, COMPARED):
        counter.clear()
