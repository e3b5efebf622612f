"""The text form of sets of completion indexes, such as `1,3-5,7`.

Source: kubernetes/pkg/apis/batch/validation/validation.go, validateIndexesFormat.
"""

import re
from functools import lru_cache

from kcr.api.indexset import IndexSet

_NUMBER = re.compile(r"[+-]?[0-9]+")


@lru_cache(256)
def parse_indexes(text: str, completions: int) -> IndexSet:
    """Return the set that a text means; `""` is the empty one.

    Args:
        text: Items `a` or `a-b`, rising throughout.
        completions: Every index must be lower.

    Raises:
        ValueError: The text is malformed; the message is the server's.
    """
    last: int | None = None
    for fragment in text.split(",") if text else ():
        bounds = fragment.split("-")
        if len(bounds) > 2:
            raise ValueError(
                f'the fragment "{fragment}" violates the requirement that an index interval can have at most two '
                "parts separated by '-'"
            )
        for bound in bounds:
            last = _index(bound, last, completions)
    return IndexSet.parse(text, completions)


def _index(text: str, last: int | None, completions: int) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f'cannot convert string to integer for index: "{text}"')
    index = int(text)
    if index >= completions:
        raise ValueError(f'too large index: "{text}"')
    if last is not None and last >= index:
        raise ValueError(f"non-increasing order, previous: {last}, current: {index}")
    return index
