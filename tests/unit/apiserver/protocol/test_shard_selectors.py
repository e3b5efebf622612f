"""Shard selectors: hash, grammar, refusals (api-server §32)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcr_devcluster.apiserver.protocol.responses import StatusError
from kcr_devcluster.apiserver.protocol.shard_selectors import NAMESPACE, UID, fnv1a_64, parse_shard_selector

ALL = 1 << 64
CUTS = st.lists(st.integers(1, ALL - 1), unique=True, max_size=8)
HASHES = st.integers(0, ALL - 1)


def shard_range(start: int, end: int, field: str = UID) -> str:
    return f"shardRange({field}, '0x{start:016x}', '0x{end:016x}')"


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("", "cbf29ce484222325"),
        ("default", "ebada5168620c5fe"),
        ("kube-system", "df65c7bc1d82b35e"),
        ("s1", "08d8ff07b578d149"),
        ("s2", "08d8fc07b578cc30"),
    ],
)
def test_hash_is_that_of_kube_apiserver(value: str, wanted: str) -> None:
    assert f"{fnv1a_64(value):016x}" == wanted


@pytest.mark.parametrize(
    ("names", "used"),
    [
        pytest.param([f"team-{index}" for index in range(10)], 1, id="teams"),
        pytest.param([f"ns-{index:02}" for index in range(100)], 1, id="namespaces"),
        pytest.param([f"tenant-{index:03}" for index in range(1000)], 10, id="tenants"),
    ],
)
def test_similar_names_use_few_of_64_ranges(names: list[str], used: int) -> None:
    assert len({fnv1a_64(name) >> 58 for name in names}) == used


@pytest.mark.parametrize(
    ("text", "field", "bounds"),
    [
        pytest.param(shard_range(0, 1 << 63), UID, (0, 1 << 63), id="one"),
        pytest.param(shard_range(0xAA, 0xFF, NAMESPACE), NAMESPACE, (0xAA, 0xFF), id="namespace"),
        pytest.param(
            "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')", UID, (1 << 63, ALL),
            id="to-the-end",
        ),
        pytest.param(f"{shard_range(9, 12)} || {shard_range(1, 4)}", UID, (1, 4, 9, 12), id="two"),
        pytest.param(f"{shard_range(4, 9)}||{shard_range(1, 4)}", UID, (1, 9), id="adjacent"),
        pytest.param(f"{shard_range(1, 9)} || {shard_range(2, 3)}", UID, (1, 9), id="within"),
        pytest.param(
            '\n shardRange ( object.metadata.uid ,"0x0000000000000001",\'0x0000000000000002\' ) ', UID, (1, 2),
            id="spaces-and-quotes",
        ),
    ],
)  # fmt: skip
def test_ranges_are_merged_and_ordered(text: str, field: str, bounds: tuple[int, ...]) -> None:
    assert parse_shard_selector(text) == (text, field, bounds)


def test_empty_selector_is_none() -> None:
    assert parse_shard_selector("") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (" ", "empty shard selector is not allowed; omit the parameter for unfiltered lists"),
        ("nonsense", "unexpected expression kind 3; expected shardRange() call or || operator"),
        ("object.metadata.uid", "unexpected expression kind 7; expected shardRange() call or || operator"),
        ("'0x0'", "unexpected expression kind 5; expected shardRange() call or || operator"),
        (f"{shard_range(0, 1)} || x", "unexpected expression kind 3; expected shardRange() call or || operator"),
        ("hashRange(1)", 'unsupported function "hashRange"; only shardRange() and || are allowed'),
        ("shardRange()", "shardRange() requires exactly 3 arguments, got 0"),
        ("shardRange(object.metadata.uid, '0x0')", "shardRange() requires exactly 3 arguments, got 2"),
        (
            "shardRange('uid', '0x0', '0x8')",
            "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind 5",
        ),
        (
            shard_range(0, 1, "object.metadata.name"),
            'unsupported field path "object.metadata.name"; supported: object.metadata.uid, object.metadata.namespace',
        ),
        (
            "shardRange(object.metadata.uid, '0x0', '0x8000000000000000')",
            'hexStart must be a 0x-prefixed 16-digit hex value, got "0x0" (did you mean "0x0000000000000000"?)',
        ),
        (
            "shardRange(object.metadata.uid, '0x0000000000000000', '0xff')",
            'hexEnd must be a 0x-prefixed 16-digit hex value, got "0xff" (did you mean "0x00000000000000ff"?)',
        ),
        ("shardRange(object.metadata.uid, 0, 8)", "hexStart must be a string literal, got int64"),
        (
            "shardRange(object.metadata.uid, a, b)",
            "hexStart must be a string literal (e.g. '0xff'), got expression kind 3",
        ),
        (
            "shardRange(object.metadata.uid, '0000000000000000', '0x1')",
            "hexStart must have '0x' prefix, got \"0000000000000000\"",
        ),
        ("shardRange(object.metadata.uid, '0x', '0x1')", "hexStart: hex value is required after '0x'"),
        (
            "shardRange(object.metadata.uid, '0x000000000000000000', '0x1')",
            'hexStart: hex value too long (18 chars, max 17): "000000000000000000"',
        ),
        (
            "shardRange(object.metadata.uid, '0x000000000000000A', '0x1')",
            'hexStart: invalid hex character "A" in "0x000000000000000A"',
        ),
        (
            "shardRange(object.metadata.uid, '0x00000000000000000', '0x1')",
            "hexStart: 17-digit hex value must be '0x10000000000000000' (2^64), got \"0x00000000000000000\"",
        ),
        (shard_range(8, 8), "shard range start 0x0000000000000008 must be less than end 0x0000000000000008"),
        (
            f"{shard_range(0, 1)} || {shard_range(1, 2, NAMESPACE)}",
            'all shard ranges must use the same field, got "object.metadata.uid" and "object.metadata.namespace"',
        ),
        ("shardRange(", 'CEL parse error: Syntax error: unexpected "shardRange("'),
        (f"{shard_range(0, 1)} ||", 'CEL parse error: Syntax error: unexpected ""'),
        ("shardRange(, 1, 2)", 'CEL parse error: Syntax error: unexpected ""'),
    ],
)
def test_bad_selector_is_an_internal_error_without_reason(text: str, words: str) -> None:
    """Source: kubernetes/staging/src/k8s.io/apiserver/pkg/sharding/parser.go."""
    with pytest.raises(StatusError) as caught:
        parse_shard_selector(text)
    assert (caught.value.code, caught.value.reason) == (500, "")
    assert caught.value.message == f"invalid shard selector: {words}"


@given(cuts=CUTS, value_hash=HASHES)
def test_every_hash_is_in_exactly_one_part_of_a_partition(cuts: list[int], value_hash: int) -> None:
    ends = [*sorted(cuts), ALL]
    parts = [parse_shard_selector(shard_range(*part)) for part in zip([0, *ends[:-1]], ends, strict=True)]
    assert sum(part is not None and part.holds(value_hash) for part in parts) == 1


@given(ranges=st.lists(st.tuples(st.integers(0, 20), st.integers(1, 20)), min_size=1, max_size=5))
def test_joined_ranges_hold_what_one_of_them_holds(ranges: list[tuple[int, int]]) -> None:
    spans = [(start, start + length) for start, length in ranges]
    selector = parse_shard_selector(" || ".join(shard_range(*span) for span in spans))
    assert selector is not None
    for value_hash in range(45):
        assert selector.holds(value_hash) == any(start <= value_hash < end for start, end in spans)
