"""Sets of completion indexes, kept as intervals: a Job may have a hundred thousand."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Self

import msgspec

from kcr.api.durations import parse_int


class IndexSet(msgspec.Struct, frozen=True):
    """A set of whole numbers from 0. Its text is that of `completedIndexes`: `1,3-5,7`.

    Attributes:
        intervals: First and last of every run, rising; no two runs touch.
    """

    intervals: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, indexes: Iterable[int]) -> Self:
        """Return the set of these indexes, in any order."""
        return cls(_joined((index, index) for index in sorted(indexes)))

    @classmethod
    def parse(cls, text: str, below: int) -> Self:
        """Return the set that a text means, as far as it can be read.

        The controller accepts any stored text: parts that are no numbers of 64 bits are passed over, a part with its
        end before its start is its start, and indexes that the Job no longer has are left out. The server validates new
        texts more strictly.

        Args:
            text: Such as `1,3-5,7`; rising.
            below: The number of indexes there are.

        Source: kubernetes/pkg/controller/job/indexed_job_utils.go, parseIndexesFromString.
        """
        return cls(_parsed(text, below))

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.intervals)

    def __contains__(self, index: int) -> bool:
        place = bisect_right(self.intervals, index, key=_first)
        return place > 0 and index <= self.intervals[place - 1][1]

    def __or__(self, other: "IndexSet") -> "IndexSet":
        """Return the indexes that are in one of the two sets."""
        if not self.intervals or not other.intervals:
            return self if self.intervals else other
        return IndexSet(_joined(sorted((*self.intervals, *other.intervals))))

    def __and__(self, other: "IndexSet") -> "IndexSet":
        """Return the indexes that are in both sets."""
        return IndexSet(tuple(_common(self.intervals, other.intervals)))

    def __str__(self) -> str:
        """Return the text: runs of three and more as `first-last`."""
        return ",".join(map(_text, self.intervals))

    def gaps(self, below: int) -> Iterator[int]:
        """Go through the indexes from 0 to below a limit that are not in the set, rising."""
        start = 0
        for first, last in self.intervals:
            yield from range(start, min(first, below))
            start = last + 1
        yield from range(start, below)


# A text is parsed in every pass over its Job, and changes with few of them.
@lru_cache(1024)
def _parsed(text: str, below: int) -> tuple[tuple[int, int], ...]:
    found = []
    for part in text.split(","):
        # Like upstream, which splits at each dash: `0-2-4` is 0-2.
        first, last = _bounds(*part.split("-")[:2])
        if first is None:
            continue
        if first >= below:
            break
        if last is not None:
            found.append((first, max(first, min(last, below - 1))))
    return _joined(sorted(found))


def _bounds(head: str, tail: str | None = None) -> tuple[int | None, int | None]:
    first = parse_int(head)
    return first, first if tail is None else parse_int(tail)


def _joined(intervals: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    joined: list[tuple[int, int]] = []
    for first, last in intervals:
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return tuple(joined)


def _common(one: tuple[tuple[int, int], ...], other: tuple[tuple[int, int], ...]) -> Iterator[tuple[int, int]]:
    here = there = 0
    while here < len(one) and there < len(other):
        first, last = max(one[here][0], other[there][0]), min(one[here][1], other[there][1])
        if first <= last:
            yield first, last
        if one[here][1] < other[there][1]:
            here += 1
        else:
            there += 1


def _text(interval: tuple[int, int]) -> str:
    first, last = interval
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"


def _first(interval: tuple[int, int]) -> int:
    return interval[0]
