"""What pods are by their status, and the order in which surplus ones are deleted."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from kcr.api.batch import COMPLETION_INDEX
from kcr.api.core import Pod
from kcr.api.pods import DELETION_COST, available_in, completion_index, count_replicas, parse_deletion_cost, ranked
from kcr.testing import build

NOW = build.CREATED + timedelta(minutes=1)


def running(name: str, *, ready: bool = True, cost: str = "0") -> Pod:
    return build.pod(name, "Running", ready=ready, annotations={DELETION_COST: cost})


def terminating(name: str) -> Pod:
    pod = running(name)
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp=NOW))


@pytest.mark.parametrize(
    ("seconds", "ready", "wait"),
    [
        pytest.param(0, True, timedelta(), id="at-once"),
        pytest.param(60, True, timedelta(), id="just-now"),
        pytest.param(90, True, timedelta(seconds=30), id="later"),
        pytest.param(90, False, None, id="not-ready"),
    ],
)
def test_pod_is_available_once_it_has_been_ready_for_long_enough(
    seconds: int, ready: bool, wait: timedelta | None
) -> None:
    assert available_in(running("a", ready=ready), seconds, NOW) == wait


def test_replicas_are_counted_by_what_they_are() -> None:
    pods = [running("a"), running("b", ready=False), terminating("c"), build.pod("d", "Succeeded")]
    assert count_replicas(pods, 90, NOW) == (2, 1, 0, 1, timedelta(seconds=30))
    assert count_replicas(pods, 60, NOW) == (2, 1, 1, 1, None)


@pytest.mark.parametrize(
    ("pods", "by_cost", "order"),
    [
        pytest.param([running("a"), build.pod("b")], False, "ba", id="unscheduled-first"),
        pytest.param([running("a"), running("b", ready=False)], False, "ba", id="not-ready-first"),
        pytest.param([running("a", cost="5"), running("b", cost="-1")], True, "ba", id="cheaper-first"),
        pytest.param([running("a"), running("b", cost="-1")], False, "ab", id="costs-do-not-count"),
        pytest.param([running("a", cost="1"), running("b", cost="9", ready=False)], True, "ba", id="ready-before-cost"),
        pytest.param([running("a"), running("b", cost="much")], True, "ab", id="no-number-costs-nothing"),
    ],
)
def test_pods_that_got_least_far_go_first(pods: list[Pod], by_cost: bool, order: str) -> None:
    assert "".join(pod.metadata.name for pod in ranked(pods, by_cost=by_cost)) == order


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("3", 3), ("+3", 3), ("003", 3), ("-0", 0), ("0" * 5000 + "3", 3), (str(2**63 - 1), 2**63 - 1),
        ("", None), ("-1", None), ("1_0", None), (" 3", None), (str(2**63), None), ("9" * 5000, None),
    ],
)  # fmt: skip
def test_index_is_read_as_go_reads_it(text: str, index: int | None) -> None:
    # job-controller §19.6.
    assert completion_index(build.pod("a", annotations={COMPLETION_INDEX: text})) == index


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("5", 5), ("-5", -5), ("0", 0), ("-005", -5), (str(2**31 - 1), 2**31 - 1), (str(2**31), None),
        ("+5", None), ("005", None), ("00", None), ("", None), ("1_0", None), (" 5", None), ("9" * 5000, None),
    ],
)  # fmt: skip
def test_deletion_cost_is_read_as_go_reads_it(text: str, cost: int | None) -> None:
    assert parse_deletion_cost(text) == cost
