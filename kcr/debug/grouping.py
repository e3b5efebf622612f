"""Failing keys by error: a thousand keys that fail alike are one line.

Two errors are alike when they differ in names, numbers, uids and versions only.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise

from kcr.api.meta import Key
from kcr.debug.state import ErrorGroup

# How many groups are shown, and how many keys of each.
MAX_GROUPS, MAX_EXAMPLES = 20, 5

# What differs between errors of one kind: what is quoted, paths and namespace/name, and words with digits, which are
# numbers, uids, versions, times and generated names.
_VARYING = re.compile(
    r'"[^"\n]*+"|\'[^\'\n]*+\''
    r"|(?<![\w./-])(?:[\w.-]*+/[\w./-]++|(?=[A-Za-z_.-]*+\d)[\w.-]++)"
)
_PLACEHOLDER = "…"


def error_groups(errors: Mapping[Key, str]) -> tuple[ErrorGroup, ...]:
    """Return the failing keys by error, most keys first; an error of one key alone has its own words.

    Args:
        errors: The errors by key.
    """
    groups: dict[str, list[Key]] = {}
    for key, text in errors.items():
        groups.setdefault(_without_names(text, key.name), []).append(key)
    most = sorted(groups.items(), key=lambda group: -len(group[1]))[:MAX_GROUPS]
    return tuple(
        ErrorGroup(
            text=text if len(keys) > 1 else errors[keys[0]],
            keys=len(keys),
            examples=tuple(str(key) for key in keys[:MAX_EXAMPLES]),
        )
        for text, keys in most
    )


# The page asks every few seconds, and a key that fails does so for the same reason again.
@lru_cache(maxsize=16_384)
def _without_names(text: str, name: str) -> str:
    text = _VARYING.sub(_PLACEHOLDER, text)
    # A name without digits that is not quoted. A pattern for each name would take a hundred times as long.
    return _without_word(text, name) if name in text else text


def _without_word(text: str, word: str) -> str:
    parts = text.split(word)
    joined = parts[0]
    for before, after in pairwise(parts):
        is_word = not before[-1:].isalnum() and not after[:1].isalnum()
        joined += (_PLACEHOLDER if is_word else word) + after
    return joined
