"""Slots: the 64 parts of all objects that sharding distributes, and the label that keeps a tree of objects together.

The slot of an object is its label `kcr.dev/slot` where that is valid, else the upper six bits of the 64-bit FNV-1a
hash of its uid: the hash by which the API server filters with a `shardSelector` (KEP-5866). The objects that a sharded
controller creates carry the slot of their owner as the label. A shard is a range of slots; all have the same length.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Protocol

SLOTS = 64
SLOT_LABEL = "kcr.dev/slot"
_SLOT_BITS = 6
# Into how many shards the slots can be divided.
COUNTS = tuple(2**power for power in range(_SLOT_BITS + 1))

_FNV_OFFSET, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3
_HASH_BITS = 64
_SLOT_OF_LABEL = {str(slot): slot for slot in range(SLOTS)}
_ALL_LABELS = ",".join(_SLOT_OF_LABEL)


class Labelled(Protocol):
    """The metadata by which the slot of an object is found."""

    @property
    def uid(self) -> str:
        """The uid."""

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels."""


def hash_of(text: str) -> int:
    """Return the 64-bit FNV-1a hash of a text.

    Source: apiserver/pkg/sharding (KEP-5866), which hashes the uid of an object so.
    """
    value = _FNV_OFFSET
    for byte in text.encode():
        value = ((value ^ byte) * _FNV_PRIME) & 0xFFFFFFFFFFFFFFFF
    return value


@lru_cache(8192)
def hashed_slot(text: str) -> int:
    """Return the slot of a uid, or of any other text: the upper six bits of its hash."""
    return hash_of(text) >> (_HASH_BITS - _SLOT_BITS)


def labelled_slot(labels: Mapping[str, str]) -> int | None:
    """Return the slot that the label states; None without a valid one: a number from 0 to 63 without leading zeros."""
    label = labels.get(SLOT_LABEL)
    return None if label is None else _SLOT_OF_LABEL.get(label)


def slot_of(metadata: Labelled) -> int:
    """Return the slot of an object, by its label or else by its uid."""
    slot = labelled_slot(metadata.labels)
    return hashed_slot(metadata.uid) if slot is None else slot


def shard_of(slot: int, shards: int) -> int:
    """Return the shard that has a slot, when all slots are divided among so many shards."""
    return slot * shards // SLOTS


def slots_of(shards: Iterable[int], count: int) -> frozenset[int]:
    """Return the slots of some shards out of `count`."""
    size = SLOTS // count
    return frozenset(slot for shard in shards for slot in range(shard * size, (shard + 1) * size))


def check_shards(shards: int) -> int:
    """Return a number of shards.

    Raises:
        ValueError: The slots cannot be divided so.
    """
    if shards not in COUNTS:
        counts = ", ".join(map(str, COUNTS[:-1]))
        raise ValueError(f"{shards} shards: the number of shards must be {counts} or {COUNTS[-1]}")
    return shards


def labelled_selector(slots: Collection[int]) -> str:
    """Return the label selector of the objects whose label states one of some slots."""
    return f"{SLOT_LABEL} in ({','.join(map(str, sorted(slots)))})"


def unlabelled_selector() -> str:
    """Return the label selector of the objects whose label states no slot: it is absent, or no valid one."""
    return f"{SLOT_LABEL} notin ({_ALL_LABELS})"


def uid_selector(slots: Collection[int]) -> str:
    """Return the `shardSelector` of the objects whose uid is in one of some slots; neighbours become one range.

    Source: KEP-5866; the specification of the embedded server, api-server §32.
    """
    return " || ".join(
        f"shardRange(object.metadata.uid, '0x{first << 58:016x}', '0x{(last + 1) << 58:016x}')"
        for first, last in _ranges(sorted(slots))
    )


def _ranges(slots: Iterable[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for slot in slots:
        if ranges and ranges[-1][1] == slot - 1:
            ranges[-1] = (ranges[-1][0], slot)
        else:
            ranges.append((slot, slot))
    return ranges
