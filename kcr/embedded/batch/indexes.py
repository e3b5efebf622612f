"""The text form of sets of completion indexes, such as `1,3-5,7`.

Source: kubernetes/pkg/apis/batch/validation/validation.go, validateIndexesFormat.
"""

import re
from functools import lru_cache

_NUMBER = re.compile(r"[+-]?[0-9]+")


@lru_cache(256)
def parse_indexes(text: str, completions: int) -> tuple[tuple[int, int], ...]:
    """Return the intervals of a text, both ends included; `""` is the empty set.

    Args:
        text: Items `a` or `a-b`, rising throughout.
        completions: Every index must be lower.

    Raises:
        ValueError: The text is malformed; the message is the server's.
    """
    intervals: list[tuple[int, int]] = []
    last: int | None = None
    for fragment in text.split(",") if text else ():
        bounds = fragment.split("-")
        if len(bounds) > 2:
            raise ValueError(
                f'the fragment "{fragment}" violates the requirement that an index interval can have at most two '
                "parts separated by '-'"
            )
        ends = [last := _index(bound, last, completions) for bound in bounds]
        intervals.append((ends[0], ends[-1]))
    return tuple(intervals)


def _index(text: str, last: int | None, completions: int) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f'cannot convert string to integer for index: "{text}"')
    index = int(text)
    if index >= completions:
        raise ValueError(f'too large index: "{text}"')
    if last is not None and last >= index:
        raise ValueError(f"non-increasing order, previous: {last}, current: {index}")
    return index


def count(intervals: tuple[tuple[int, int], ...]) -> int:
    """Return how many indexes there are."""
    return sum(last - first + 1 for first, last in intervals)


def first_common(one: tuple[tuple[int, int], ...], other: tuple[tuple[int, int], ...]) -> int | None:
    """Return the lowest index in both sets, or None."""
    here, there = 0, 0
    while here < len(one) and there < len(other):
        low, high = max(one[here][0], other[there][0]), min(one[here][1], other[there][1])
        if low <= high:
            return low
        if one[here][1] < other[there][1]:
            here += 1
        else:
            there += 1
    return None
