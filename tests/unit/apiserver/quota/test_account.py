from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcr_devcluster.apiserver.kinds.catalogue import CONFIG_MAPS, PODS
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.quota.account import TrackedQuota, scopes_of
from tests.kit.manifests import pod, stored_pod

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HARD = {"pods": "3", "count/pods": "5", "requests.cpu": "2", "limits.memory": "1Gi"}


def quota(hard: dict[str, str] | None = None, **spec: Any) -> TrackedQuota:
    return TrackedQuota("q", {"hard": HARD if hard is None else hard, **spec})


def eater(cpu: str = "100m", memory: str = "64Mi", *, phase: str = "Running", leaves: int | None = None) -> Manifest:
    """A pod that takes this much; perhaps one that should leave so many seconds from now."""
    resources = {"requests": {"cpu": cpu}, "limits": {"memory": memory}}
    made = stored_pod(pod(containers=[{"name": "c", "image": "busybox", "resources": resources}]))
    made["status"]["phase"] = phase
    if leaves is not None:
        moment = (NOW + timedelta(seconds=leaves)).strftime("%Y-%m-%dT%H:%M:%SZ")
        made["metadata"] |= {"deletionTimestamp": moment, "deletionGracePeriodSeconds": 0}
    return made


EATERS = st.builds(
    eater,
    st.sampled_from(["0", "1m", "250m", "2"]),
    st.sampled_from(["1", "1Ki", "0.5Gi"]),
    phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
    leaves=st.sampled_from([None, -1, 0, 5]),
)
CHANGES = st.lists(st.tuples(st.sampled_from("abc"), st.none() | EATERS), max_size=12)


@given(CHANGES, st.sampled_from([0, 1, 6]))
def test_what_is_used_is_what_a_recount_says(changes: list[tuple[str, Manifest | None]], later: int) -> None:
    told, there = quota(), dict[str, Manifest]()
    for name, obj in changes:
        told.set_usage(
            name, told.usage_of(PODS, obj) if obj is not None else told.usage_of(CONFIG_MAPS, {"metadata": {}})
        )
        there.pop(name, None)
        if obj is not None:
            there[name] = obj
    fresh, now = quota(), NOW + timedelta(seconds=later)
    for name, obj in there.items():
        fresh.set_usage(name, fresh.usage_of(PODS, obj))
    assert told.status(now) == fresh.status(now)


@given(st.lists(EATERS, max_size=12))
def test_limits_are_never_passed(eaters: list[Manifest]) -> None:
    kept, pods = quota(), 0
    for number, obj in enumerate(eaters):
        if kept.rejection(PODS, obj, None, NOW):
            continue
        kept.set_usage(f"{number}", kept.usage_of(PODS, obj))
        pods += 1
    used = kept.status(NOW)["used"]
    assert pods <= 5
    assert int(used["pods"]) <= 3


def test_note_tells_whether_the_sum_changes() -> None:
    kept, obj = quota(), eater()
    assert kept.set_usage("a", kept.usage_of(PODS, obj))
    assert not kept.set_usage("a", kept.usage_of(PODS, obj))
    assert not kept.set_usage("b", kept.usage_of(CONFIG_MAPS, {"metadata": {}}))


@pytest.mark.parametrize(
    ("cpu", "memory", "text"),
    [
        pytest.param("2500m", "1", "requested: requests.cpu=2500m, used: requests.cpu=0, limited: requests.cpu=2"),
        pytest.param(
            "1", "1.5Gi", "requested: limits.memory=1536Mi, used: limits.memory=0, limited: limits.memory=1Gi"
        ),
    ],
    ids=["decimal", "binary"],
)
def test_amounts_are_told_in_the_limits_form(cpu: str, memory: str, text: str) -> None:
    assert quota().rejection(PODS, eater(cpu, memory), None, NOW) == f"exceeded quota: q, {text}"


@pytest.mark.parametrize(
    ("spec", "scopes"),
    [
        pytest.param({}, (), id="none"),
        pytest.param({"scopes": ["BestEffort"]}, ("BestEffort",), id="named"),
        pytest.param(
            {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}},
            ("PriorityClass",), id="exists",
        ),
        pytest.param(
            {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}},
            ("PriorityClass In",), id="not-judged-here",
        ),
    ],
)  # fmt: skip
def test_scopes_come_from_both_places(spec: Manifest, scopes: tuple[str, ...]) -> None:
    assert scopes_of(spec) == scopes


def test_quota_of_a_scope_unknown_here_is_about_nothing() -> None:
    kept = quota({"pods": "0"}, scopes=["CrossNamespacePodAffinity"])
    assert kept.rejection(PODS, eater(), None, NOW) == ""
    assert kept.status(NOW) == {"hard": {"pods": "0"}, "used": {"pods": "0"}}
