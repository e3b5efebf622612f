from datetime import UTC, datetime
from typing import Any

import pytest

from kcr_devcluster.apiserver.kinds.catalogue import CONFIG_MAPS, JOBS, PODS
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.quota.usage import ONE, SCOPES, Usage, missing_resources, usage_of
from tests.kit.manifests import pod, stored_pod

MILLI = ONE // 1000


def container(name: str = "c", *, policy: str = "", cpu: str = "", limit: str = "") -> Manifest:
    resources = {"requests": {"cpu": cpu} if cpu else {}, "limits": {"cpu": limit} if limit else {}}
    sidecar = {"restartPolicy": policy} if policy else {}
    return {"name": name, "image": "busybox", "resources": resources, **sidecar}


def amounts(**spec: Any) -> dict[str, int]:
    """What a pod takes beside being a pod."""
    taken = usage_of(PODS, stored_pod(pod(**spec))).amounts
    return {name: value for name, value in taken.items() if name not in ("pods", "count/pods")}


def test_every_object_counts_as_one() -> None:
    # api-server 16.6
    assert usage_of(JOBS, {"metadata": {}}) == Usage({"count/jobs.batch": ONE})
    assert usage_of(CONFIG_MAPS, {"metadata": {}}).amounts == {"count/configmaps": ONE, "configmaps": ONE}
    assert usage_of(PODS, stored_pod(pod())).amounts == {"count/pods": ONE, "pods": ONE}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pod_that_has_ended_is_an_object_and_no_more(phase: str) -> None:
    ended = stored_pod(pod(containers=[container(cpu="1")]))
    ended["status"]["phase"] = phase
    assert usage_of(PODS, ended) == Usage({"count/pods": ONE})


def test_pod_past_its_grace_takes_nothing() -> None:
    leaving = stored_pod(pod())
    leaving["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30}
    until = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    assert usage_of(PODS, leaving) == Usage({"count/pods": ONE, "pods": ONE}, until, {"count/pods": ONE})


def test_resources_are_asked_for_and_limited() -> None:
    taken = amounts(containers=[container("a", cpu="200m", limit="1"), container("b", limit="500m")])
    assert taken == {"cpu": 700 * MILLI, "requests.cpu": 700 * MILLI, "limits.cpu": 1500 * MILLI}


@pytest.mark.parametrize(
    ("inits", "milli"),
    [
        pytest.param([container("i", cpu="100m")], 300, id="smaller-while-prepared"),
        pytest.param([container("i", cpu="400m")], 400, id="larger-while-prepared"),
        pytest.param([container("s", cpu="100m", policy="Always")], 400, id="sidecar-runs-along"),
        pytest.param(
            [container("s", cpu="200m", policy="Always"), container("i", cpu="400m")], 600, id="sidecar-while-prepared"
        ),
        pytest.param(
            [container("i", cpu="500m"), container("s", cpu="100m", policy="Always")], 500, id="sidecar-comes-later"
        ),
    ],
)
def test_pod_takes_what_it_needs_at_its_hungriest(inits: list[Manifest], milli: int) -> None:
    assert amounts(containers=[container(cpu="300m")], initContainers=inits)["requests.cpu"] == milli * MILLI


def test_overhead_comes_on_top() -> None:
    taken = amounts(containers=[container(cpu="1")], overhead={"cpu": "250m"})
    assert taken == {"cpu": 1250 * MILLI, "requests.cpu": 1250 * MILLI}


def test_pod_states_resources_as_a_whole() -> None:
    whole = {"requests": {"cpu": "2"}}
    assert amounts(containers=[container(cpu="1")], resources=whole)["requests.cpu"] == 2 * ONE


def test_device_is_asked_for_under_one_name() -> None:
    resources = {"limits": {"example.com/gpu": "1"}}
    assert amounts(containers=[{"name": "c", "image": "i", "resources": resources}]) == {
        "requests.example.com/gpu": ONE
    }


def test_containers_that_state_too_little_are_named() -> None:
    spec = stored_pod(pod(containers=[container("b"), container("a", cpu="1")], initContainers=[container("i")]))[
        "spec"
    ]
    limited = {"requests.cpu": ONE, "limits.memory": ONE, "pods": ONE, "requests.ephemeral-storage": ONE}
    assert missing_resources(spec, limited) == "limits.memory for: a,b,i; requests.cpu for: b,i"
    assert missing_resources(spec, {"pods": ONE}) == ""
    assert missing_resources({**spec, "resources": {"requests": {}, "limits": {"memory": "1Gi"}}}, limited) == ""


def test_scopes_divide_the_pods() -> None:
    plain, hurried = stored_pod(pod()), stored_pod(pod(activeDeadlineSeconds=5, containers=[container(cpu="1")]))
    found = [{name for name, holds in SCOPES.items() if holds(one)} for one in (plain, hurried)]
    assert found == [{"NotTerminating", "BestEffort"}, {"Terminating", "NotBestEffort"}]
