"""Slots: hash, label, shards and selectors (api-server §32, CM-66)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcr import ObjectMeta
from kcr.api.slots import (
    SLOT_LABEL,
    SLOTS,
    hash_of,
    hashed_slot,
    labelled_selector,
    labelled_slot,
    shard_of,
    slot_of,
    slots_of,
    uid_selector,
    unlabelled_selector,
)

UID = "6f0f3a1e-6a55-4c3b-8a3e-2b7a57f5a1d0"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", 0xCBF29CE484222325, id="nothing"),
        pytest.param("default", 0xEBADA5168620C5FE, id="default"),
        pytest.param("kube-system", 0xDF65C7BC1D82B35E, id="kube-system"),
        pytest.param("s1", 0x08D8FF07B578D149, id="s1"),
        pytest.param("s2", 0x08D8FC07B578CC30, id="s2"),
    ],
)
def test_hash_is_that_of_the_api_server(text: str, expected: int) -> None:
    assert hash_of(text) == expected


@pytest.mark.parametrize(
    ("label", "slot"),
    [
        pytest.param("0", 0, id="first"),
        pytest.param("63", 63, id="last"),
        pytest.param("64", None, id="too-high"),
        pytest.param("-1", None, id="negative"),
        pytest.param("07", None, id="leading-zero"),
        pytest.param("", None, id="empty"),
        pytest.param("many", None, id="no-number"),
        pytest.param("٣", None, id="other-digits"),
    ],
)
def test_label_states_a_slot_or_none(label: str, slot: int | None) -> None:
    assert labelled_slot({SLOT_LABEL: label}) == slot


def test_valid_label_precedes_the_uid() -> None:
    assert slot_of(ObjectMeta(uid=UID)) == hashed_slot(UID)
    assert slot_of(ObjectMeta(uid=UID, labels={SLOT_LABEL: "x"})) == hashed_slot(UID)
    assert slot_of(ObjectMeta(uid=UID, labels={SLOT_LABEL: "7"})) == 7


@pytest.mark.parametrize("count", [1, 2, 4, 8, 16, 32, 64])
def test_shards_are_equal_ranges_that_cover_all_slots(count: int) -> None:
    ranges = [slots_of([shard], count) for shard in range(count)]
    assert {len(slots) for slots in ranges} == {SLOTS // count}
    assert frozenset().union(*ranges) == frozenset(range(SLOTS))
    assert all(shard_of(slot, count) == shard for shard, slots in enumerate(ranges) for slot in slots)


def test_selectors_name_slots_and_ranges() -> None:
    assert labelled_selector({2, 0, 10}) == "kcr.dev/slot in (0,2,10)"
    assert unlabelled_selector().startswith("kcr.dev/slot notin (0,1,2,")
    assert uid_selector({0, 1, 63}) == (
        "shardRange(object.metadata.uid, '0x0000000000000000', '0x0800000000000000') || "
        "shardRange(object.metadata.uid, '0xfc00000000000000', '0x10000000000000000')"
    )


@given(st.uuids().map(str), st.sets(st.integers(0, SLOTS - 1), min_size=1))
def test_ranges_hold_exactly_the_uids_of_their_slots(uid: str, slots: set[int]) -> None:
    bounds = [part.split("'") for part in uid_selector(slots).split(" || ")]
    assert any(int(b[1], 16) <= hash_of(uid) < int(b[3], 16) for b in bounds) is (hashed_slot(uid) in slots)
